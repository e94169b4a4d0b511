package app

import (
	"context"
	"slices"
	"sync"

	"github.com/garboard-dev/garboard/pkg/metrics"
)

// slots bounds how many Apps work at the same time, first come first served. A
// deploy that only waits for the cluster works at nothing: it gives its place to
// the next App and keeps a room to wait in, of which there are many.
type slots struct {
	places, rooms int

	mu              sync.Mutex // guards all below and every turn
	active, waiting int
	queue           []chan struct{} // who wants a place, longest wait first
	crowd           []*turn         // who waits in a place for want of a room
}

func newSlots(places, rooms int) *slots { return &slots{places: places, rooms: rooms} }

// turn is one App's hold on a place or a room.
type turn struct {
	slots *slots
	held  held
	// queued says that the place was waited for.
	queued bool
}

type held int

const (
	nothing held = iota
	place
	room
)

// take returns a place that is free at once, or nil.
func (s *slots) take() *turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active >= s.places || len(s.queue) > 0 {
		return nil
	}
	s.active++
	return &turn{slots: s, held: place}
}

// acquire waits for a place. The error is the context's.
func (s *slots) acquire(ctx context.Context) (*turn, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if t := s.take(); t != nil {
		return t, nil
	}
	mine := make(chan struct{})
	s.mu.Lock()
	s.queue = append(s.queue, mine)
	s.hand() // one may have become free since
	s.mu.Unlock()
	select {
	case <-mine:
	case <-ctx.Done():
	}
	if ctx.Err() == nil {
		return &turn{slots: s, held: place, queued: true}, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.queue, mine); i >= 0 {
		s.queue = slices.Delete(s.queue, i, i+1)
	} else { // it was given the place in the same moment
		s.active--
		s.hand()
	}
	return nil, ctx.Err()
}

// hand moves those who wait for the cluster into free rooms, and gives the free
// places to those who are next. s.mu is held.
func (s *slots) hand() {
	for len(s.crowd) > 0 && s.waiting < s.rooms {
		s.active--
		s.waiting++
		s.crowd[0].held = room
		s.crowd = s.crowd[1:]
	}
	for len(s.queue) > 0 && s.active < s.places {
		s.active++
		close(s.queue[0])
		s.queue = s.queue[1:]
	}
}

// wait says whether the App only waits from now on. It never blocks: kapp calls
// it in the middle of a deploy. So an App that goes on to work while all places
// are taken works beside them, and nobody else begins until there is one less.
func (t *turn) wait(waits bool) {
	s := t.slots
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case waits && t.held == place:
		if !slices.Contains(s.crowd, t) {
			s.crowd = append(s.crowd, t)
		}
	case !waits && t.held == place:
		s.leaveCrowd(t)
	case !waits && t.held == room:
		s.waiting--
		s.active++
		t.held = place
	}
	s.hand()
}

func (s *slots) leaveCrowd(t *turn) {
	if i := slices.Index(s.crowd, t); i >= 0 {
		s.crowd = slices.Delete(s.crowd, i, i+1)
	}
}

// release gives back what the App holds. Later calls do nothing.
func (t *turn) release() {
	s := t.slots
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaveCrowd(t)
	switch t.held {
	case place:
		s.active--
	case room:
		s.waiting--
	}
	t.held = nothing
	s.hand()
}

// count is what is in use now.
func (s *slots) count() metrics.Slots {
	s.mu.Lock()
	defer s.mu.Unlock()
	return metrics.Slots{Active: s.active, Waiting: s.waiting, Queued: len(s.queue)}
}
