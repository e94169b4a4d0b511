package settings

import (
	"reflect"
	"sync"
	"sync/atomic"
)

// Store holds the settings in force. The zero value holds the defaults. Safe for
// concurrent use.
type Store struct {
	cur atomic.Pointer[Settings]

	// mu orders Set, so that watchers see changes in the order in which they took
	// effect, and guards watchers.
	mu       sync.Mutex
	watchers []func(Settings)
}

// Get returns the settings in force.
func (s *Store) Get() Settings {
	if cur := s.cur.Load(); cur != nil {
		return *cur
	}
	return Default()
}

// Set puts new settings in force, whole, and calls the watchers before it returns
// if they differ from the old ones. It reports whether they do.
func (s *Store) Set(next Settings) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if reflect.DeepEqual(s.Get(), next) {
		return false
	}
	s.cur.Store(&next)
	for _, watch := range s.watchers {
		watch(next)
	}
	return true
}

// OnChange has watch called with each change from now on. watch is called by Set,
// one at a time; it must be short and must not call Set or OnChange.
func (s *Store) OnChange(watch func(Settings)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers = append(s.watchers, watch)
}
