package apiserver

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/garboard-dev/garboard/pkg/packages"
)

// logLength is how many events watches can lag behind, or go back.
const logLength = 8192

// key names an object, or all that have the same refName.
type key struct{ namespace, name string }

// event is one change and what its moment looked like. Objects in it are shared.
type event[T object] struct {
	rv     uint64
	key    key
	before T // nil if there was none
	after  T // nil if there is none
	// global is the global object with the name, where the event is not itself one.
	global T
	// shadowed are the namespaces with a local object of that name.
	shadowed []string
}

// store holds all objects of one kind and a log of their latest changes. A reflector
// fills it; everything in it is shared and never changed. Safe for concurrent use.
type store[T object] struct {
	load   func(runtime.Object) (T, error)
	global string
	log    logr.Logger

	mu      sync.RWMutex         // guards what follows
	objects map[key]T            // by namespace and name
	inside  map[string]map[key]T // by namespace
	byRef   map[key]map[key]T    // by namespace and refName
	spots   map[string]map[key]T // by name
	rv      uint64               // of the latest change or bookmark
	events  []event[T]           // the latest, oldest first
	dropped uint64               // how many events came before events[0]
	oldest  uint64               // every change after this version is in events
	synced  bool                 // whether the first list has come
	changed chan struct{}        // closed, and replaced, at each change
}

func newStore[T object](load func(runtime.Object) (T, error), global string, log logr.Logger) *store[T] {
	s := &store[T]{load: load, global: global, log: log, changed: make(chan struct{})}
	s.clear()
	return s
}

func (s *store[T]) clear() {
	s.objects, s.inside = map[key]T{}, map[string]map[key]T{}
	s.byRef, s.spots = map[key]map[key]T{}, map[string]map[key]T{}
}

// refOf returns what an object is found by besides its name.
func refOf[T object](obj T) key {
	return key{obj.GetNamespace(), packages.Fields(obj)["spec.refName"]}
}

func keyOf[T object](obj T) key { return key{obj.GetNamespace(), obj.GetName()} }

// put stores obj, or removes what has the key if obj is nil, and returns what was there.
func (s *store[T]) put(k key, obj T) (before T) {
	before = s.objects[k]
	if before != nil {
		delete(s.objects, k)
		drop(s.inside, k.namespace, k)
		drop(s.spots, k.name, k)
		drop(s.byRef, refOf(before), k)
	}
	if obj != nil {
		s.objects[k] = obj
		add(s.inside, k.namespace, k, obj)
		add(s.spots, k.name, k, obj)
		add(s.byRef, refOf(obj), k, obj)
	}
	return before
}

func add[K comparable, T any](index map[K]map[key]T, at K, k key, obj T) {
	if index[at] == nil {
		index[at] = map[key]T{}
	}
	index[at][k] = obj
}

func drop[K comparable, T any](index map[K]map[key]T, at K, k key) {
	if delete(index[at], k); len(index[at]) == 0 {
		delete(index, at)
	}
}

// Add, Update, Delete, Replace, Resync and UpdateResourceVersion are for the
// reflector, which calls them one at a time and in order.
func (s *store[T]) Add(obj any) error { return s.change(obj, false) }

// Update is Add.
func (s *store[T]) Update(obj any) error { return s.change(obj, false) }

// Delete removes; the version of obj is that of its removal.
func (s *store[T]) Delete(obj any) error { return s.change(obj, true) }

// Resync does nothing: nobody misses an event.
func (s *store[T]) Resync() error { return nil }

func (s *store[T]) change(in any, gone bool) error {
	obj, err := s.load(in.(runtime.Object))
	if err != nil {
		// No client can name such an object; all others are served.
		s.log.Error(err, "Skipping a stored object that is none of this API")
		return nil
	}
	rv, err := parseVersion(obj.GetResourceVersion())
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := event[T]{rv: rv, key: keyOf(obj)}
	if !gone {
		e.after = obj
	}
	e.before = s.put(e.key, e.after)
	if e.key.namespace != s.global {
		e.global = s.objects[key{s.global, e.key.name}]
	} else {
		for k := range s.spots[e.key.name] {
			e.shadowed = append(e.shadowed, k.namespace)
		}
	}
	if len(s.events) >= logLength {
		// Half at once: slices grow by copying.
		half := len(s.events) / 2
		s.oldest, s.dropped = s.events[half-1].rv, s.dropped+uint64(half)
		s.events = slices.Clone(s.events[half:])
	}
	s.events = append(s.events, e)
	s.advance(rv)
	return nil
}

// Replace starts anew. Watches that go on from before would have to be told
// differences whose order nobody knows, so they end and their clients list again.
func (s *store[T]) Replace(list []any, version string) error {
	rv, err := parseVersion(version)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
	for _, in := range list {
		obj, err := s.load(in.(runtime.Object))
		if err != nil {
			s.log.Error(err, "Skipping a stored object that is none of this API")
			continue
		}
		s.put(keyOf(obj), obj)
	}
	s.dropped += uint64(len(s.events)) + 1
	s.events, s.oldest, s.synced = nil, rv, true
	s.advance(rv)
	return nil
}

// UpdateResourceVersion is told the version of each event and of bookmarks.
func (s *store[T]) UpdateResourceVersion(version string) {
	rv, err := parseVersion(version)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if rv > s.rv {
		s.advance(rv)
	}
}

// advance wakes all that wait. The caller holds the lock.
func (s *store[T]) advance(rv uint64) {
	s.rv = rv
	close(s.changed)
	s.changed = make(chan struct{})
}

// wake makes watches look at what is not in the store.
func (s *store[T]) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance(s.rv)
}

// wait returns when done, called under the lock at each change, returns true.
func (s *store[T]) wait(ctx context.Context, done func() bool) error {
	for {
		s.mu.RLock()
		ok, changed := done(), s.changed
		s.mu.RUnlock()
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		}
	}
}

// view is what a request sees: a namespace, "" for all, with or without what is
// global, and of that what the selectors select.
type view struct {
	namespace string
	merged    bool
	labels    labels.Selector
	fields    fields.Selector
}

// snapshot returns what the view shows, in the order of names, and the version.
func (s *store[T]) snapshot(k kind[T], v view) ([]T, uint64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.show(k, v), s.rv
}

// show is snapshot for a caller that holds the lock.
func (s *store[T]) show(k kind[T], v view) []T {
	found := s.candidates(v.namespace, v.fields)
	if v.merged {
		global := s.candidates(s.global, v.fields)
		for i, obj := range global {
			global[i] = through(k, obj, v.namespace)
		}
		// Global ones that a local one replaces which the selectors do not select.
		global = slices.DeleteFunc(global, func(obj T) bool { return s.objects[keyOf(obj)] != nil })
		found = packages.Merge(global, found)
	}
	found = slices.DeleteFunc(found, func(obj T) bool { return !selects(v, obj) })
	slices.SortFunc(found, func(a, b T) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return found
}

// candidates returns all in the namespace that the field selector may select.
func (s *store[T]) candidates(namespace string, selector fields.Selector) []T {
	if namespace == "" {
		return slices.Collect(maps.Values(s.objects))
	}
	if selector != nil {
		if name, ok := selector.RequiresExactMatch("metadata.name"); ok {
			if obj := s.objects[key{namespace, name}]; obj != nil {
				return []T{obj}
			}
			return nil
		}
		if ref, ok := selector.RequiresExactMatch("spec.refName"); ok {
			return slices.Collect(maps.Values(s.byRef[key{namespace, ref}]))
		}
	}
	return slices.Collect(maps.Values(s.inside[namespace]))
}

// get returns what a namespace shows under a name, or nil.
func (s *store[T]) get(k kind[T], namespace, name string, merged bool) T {
	s.mu.RLock()
	defer s.mu.RUnlock()
	obj := s.objects[key{namespace, name}]
	if obj == nil && merged {
		if obj = s.objects[key{s.global, name}]; obj != nil {
			obj = through(k, obj, namespace)
		}
	}
	return obj
}

// through returns a global object as the namespace shows it.
func through[T object](k kind[T], obj T, namespace string) T {
	shown := k.copy(obj)
	shown.SetNamespace(namespace)
	return shown
}

// selects says whether the selectors of the view select the object.
func selects[T object](v view, obj T) bool {
	return (v.labels == nil || v.labels.Matches(labels.Set(obj.GetLabels()))) && packages.Matches(v.fields, obj)
}

// parseVersion reads a resource version; "" and "0" are 0.
func parseVersion(version string) (uint64, error) {
	if version == "" {
		return 0, nil
	}
	rv, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("resource version %q is not a number", version)
	}
	return rv, nil
}
