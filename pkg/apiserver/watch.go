package apiserver

import (
	"context"
	"fmt"
	"sort"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// Bookmarks tell a client how far it is: now and then, and shortly before the time
// of the watch is over.
const (
	bookmarkPeriod   = time.Minute
	bookmarkDeadline = 2 * time.Second
)

// start says where a watch begins.
type start struct {
	// from is a version of which the client knows all; 0 is now.
	from uint64
	// initial sends what there is as ADDED first, and marked says so when it is through.
	initial, marked bool
	bookmarks       bool
}

// watcher sends what happens to a view, from the store's log. It implements
// watch.Interface.
type watcher[T object] struct {
	store   *store[T]
	kind    kind[T]
	view    view
	start   start
	current func() bool // whether the view still is what the namespace shows
	results chan watch.Event
	cancel  context.CancelFunc
}

// watch begins a watch, which ends with ctx, by Stop, or with an ERROR event when its
// client has to list again.
func (s *store[T]) watch(ctx context.Context, k kind[T], v view, from start, current func() bool) watch.Interface {
	ctx, cancel := context.WithCancel(ctx)
	w := &watcher[T]{store: s, kind: k, view: v, start: from, current: current, results: make(chan watch.Event), cancel: cancel}
	first := w.begin() // now is when the client asks, not when the goroutine runs
	go func() {
		defer close(w.results)
		defer cancel()
		w.run(ctx, first)
	}()
	return w
}

// Stop ends the watch; its channel is closed soon after. It may be called again.
func (w *watcher[T]) Stop() { w.cancel() }

// ResultChan returns the events.
func (w *watcher[T]) ResultChan() <-chan watch.Event { return w.results }

func (w *watcher[T]) run(ctx context.Context, first beginning[T]) {
	if !first.known {
		w.expire(ctx)
		return
	}
	for _, obj := range first.objects {
		if !w.send(ctx, watch.Event{Type: watch.Added, Object: w.kind.copy(obj)}) {
			return
		}
	}
	if w.start.marked && !w.bookmark(ctx, first.rv, map[string]string{metav1.InitialEventsAnnotationKey: "true"}) {
		return
	}
	cursor := first.cursor
	period := time.NewTicker(bookmarkPeriod)
	defer period.Stop()
	var last <-chan time.Time
	if deadline, ok := ctx.Deadline(); ok {
		timer := time.NewTimer(time.Until(deadline.Add(-bookmarkDeadline)))
		defer timer.Stop()
		last = timer.C
	}
	for {
		events, next, rv, changed := w.store.since(cursor)
		if events == nil && next < cursor || !w.current() {
			w.expire(ctx)
			return
		}
		for _, e := range events {
			for _, out := range translate(w.kind, w.view, w.store.global, e) {
				if !w.send(ctx, out) {
					return
				}
			}
		}
		if cursor = next; len(events) > 0 {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
			continue
		case <-period.C:
		case <-last:
		}
		if w.start.bookmarks && !w.bookmark(ctx, rv, nil) {
			return
		}
	}
}

// beginning is what there is at first, and where the log goes on from there.
type beginning[T object] struct {
	objects    []T
	rv, cursor uint64
	known      bool // whether the log goes back that far
}

func (w *watcher[T]) begin() (b beginning[T]) {
	if !w.start.initial {
		b.cursor, b.known = w.store.after(w.start.from)
		return b
	}
	w.store.mu.RLock()
	defer w.store.mu.RUnlock()
	return beginning[T]{w.store.show(w.kind, w.view), w.store.rv, w.store.dropped + uint64(len(w.store.events)), true}
}

// after returns the place in the log of the first event after the version; false if
// the log does not go back so far.
func (s *store[T]) after(rv uint64) (cursor uint64, ok bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if rv == 0 {
		rv = s.rv
	}
	i := sort.Search(len(s.events), func(i int) bool { return s.events[i].rv > rv })
	return s.dropped + uint64(i), rv >= s.oldest
}

// since returns the events from a place on, the place after them, the version then,
// and what is closed when there is more. A place before the log's beginning is
// answered by no events and an earlier place.
func (s *store[T]) since(cursor uint64) (events []event[T], next, rv uint64, changed <-chan struct{}) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if cursor < s.dropped {
		return nil, cursor - 1, s.rv, s.changed
	}
	events = s.events[cursor-s.dropped:]
	return events[:len(events):len(events)], s.dropped + uint64(len(s.events)), s.rv, s.changed
}

func (w *watcher[T]) send(ctx context.Context, e watch.Event) bool {
	select {
	case <-ctx.Done():
		return false
	case w.results <- e:
		return true
	}
}

func (w *watcher[T]) bookmark(ctx context.Context, rv uint64, annotations map[string]string) bool {
	obj := w.kind.new()
	obj.SetResourceVersion(strconv.FormatUint(rv, 10))
	obj.SetAnnotations(annotations)
	return w.send(ctx, watch.Event{Type: watch.Bookmark, Object: obj})
}

func (w *watcher[T]) expire(ctx context.Context) {
	status := errExpired(w.start.from).Status()
	w.send(ctx, watch.Event{Type: watch.Error, Object: &status})
}

// errExpired tells a client to list again.
func errExpired(rv uint64) *apierrors.StatusError {
	return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d: list again", rv))
}

// translate returns what the view is told of an event: nothing, one event, or two
// when another object takes the place of one.
func translate[T object](k kind[T], v view, global string, e event[T]) []watch.Event {
	before, after, ok := transition(k, v, global, e)
	if !ok {
		return nil
	}
	if before != nil && !selects(v, before) {
		before = nil
	}
	if after != nil && !selects(v, after) {
		after = nil
	}
	switch {
	case before == nil && after == nil:
		return nil
	case before == nil:
		return []watch.Event{{Type: watch.Added, Object: versioned(k, after, e.rv)}}
	case after == nil:
		return []watch.Event{{Type: watch.Deleted, Object: versioned(k, before, e.rv)}}
	case before.GetUID() != after.GetUID():
		// A client that was told only the first must be told both again.
		return []watch.Event{
			{Type: watch.Deleted, Object: versioned(k, before, e.rv-1)},
			{Type: watch.Added, Object: versioned(k, after, e.rv)},
		}
	}
	return []watch.Event{{Type: watch.Modified, Object: versioned(k, after, e.rv)}}
}

// transition returns what the view showed under the event's name before and after
// it, selectors aside; false if the event is none of the view's.
func transition[T object](k kind[T], v view, global string, e event[T]) (before, after T, ok bool) {
	switch e.key.namespace {
	case v.namespace:
		before, after = e.before, e.after
		if v.merged && e.global != nil {
			shown := through(k, e.global, v.namespace)
			if before == nil {
				before = shown
			}
			if after == nil {
				after = shown
			}
		}
		return before, after, true
	case global:
		if !v.merged {
			break
		}
		for _, ns := range e.shadowed {
			if ns == v.namespace {
				return nil, nil, false
			}
		}
		if e.before != nil {
			before = through(k, e.before, v.namespace)
		}
		if e.after != nil {
			after = through(k, e.after, v.namespace)
		}
		return before, after, true
	}
	return e.before, e.after, v.namespace == ""
}

// versioned returns the object at the version of an event, from which a watch can go on.
func versioned[T object](k kind[T], obj T, rv uint64) runtime.Object {
	shown := k.copy(obj)
	shown.SetResourceVersion(strconv.FormatUint(rv, 10))
	return shown
}
