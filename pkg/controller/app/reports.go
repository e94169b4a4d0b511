package app

import (
	"context"
	"sync"
	"time"

	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/garboard-dev/garboard/pkg/status"
)

const (
	// reportFirst is how long a run goes on before its beginning is written, if
	// that was not written at once. A shorter run spares the write.
	reportFirst = 400 * time.Millisecond
	// reportEvery is the least time between two writes of a run that goes on.
	reportEvery = time.Second
)

// reports writes the state of a run while it goes on, at most once in
// reportEvery, always the latest state, and never after stop.
type reports struct {
	s    *session
	wake chan struct{}
	done chan struct{}
	wg   sync.WaitGroup

	mu     sync.Mutex // guards latest
	latest *status.Outcome
}

// startReports makes the first write no earlier than first after the first put.
func startReports(ctx context.Context, s *session, first time.Duration) *reports {
	r := &reports{s: s, wake: make(chan struct{}, 1), done: make(chan struct{})}
	r.wg.Go(func() { r.loop(ctx, first) })
	return r
}

// put hands in the state of the run. It does not wait for the write.
func (r *reports) put(out status.Outcome) {
	if r.s.quiet && !out.Applying {
		return
	}
	r.mu.Lock()
	r.latest = &out
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default: // one is pending, and takes this state along
	}
}

// stop ends the writes and waits for the one that is going on, so that it cannot
// replace the final status.
func (r *reports) stop() {
	close(r.done)
	r.wg.Wait()
}

func (r *reports) loop(ctx context.Context, first time.Duration) {
	for wait := first; ; wait = reportEvery {
		// First the pause, then the write: a run that is short needs none.
		select {
		case <-r.done:
			return
		case <-r.wake:
		}
		pause := time.NewTimer(wait)
		select {
		case <-r.done:
			pause.Stop()
			return
		case <-pause.C:
		}
		r.mu.Lock()
		out := *r.latest
		r.mu.Unlock()
		if err := r.s.write(ctx, out); err != nil {
			logf.FromContext(ctx).V(1).Info("Progress not written", "reason", err.Error())
		}
	}
}
