//go:build linux

package sidecar

import (
	"context"
	"errors"
	"sync"

	"github.com/garboard-dev/garboard/pkg/workdir"
)

// The folders that each workspace has: tools run in src and have home and tmp for
// themselves.
const (
	homeDir = "home"
	tmpDir  = "tmp"
	srcDir  = "src"
)

// workspace is a temporary folder with the runs in it.
type workspace struct {
	server *server
	owner  string
	dir    *workdir.Dir

	wg sync.WaitGroup // counts runs; only added to while not closed
	mu sync.Mutex     // guards all below
	// runs has a nil function for a run that was cancelled before it began.
	runs   map[uint64]context.CancelCauseFunc
	closed bool
	// kept are the outputs of runs that are to be asked for.
	kept map[uint64][]byte
}

func (s *server) newWorkspace(owner string) (*workspace, error) {
	dir, err := s.base.New()
	if err != nil {
		return nil, err
	}
	for _, d := range []string{homeDir, tmpDir, srcDir} {
		if err := dir.MkdirAll(d); err != nil {
			return nil, errors.Join(err, dir.Close())
		}
	}
	s.workspaces.Add(1)
	return &workspace{server: s, owner: owner, dir: dir, runs: map[uint64]context.CancelCauseFunc{}, kept: map[uint64][]byte{}}, nil
}

// keep has the output of a run stay until take or close.
func (w *workspace) keep(id uint64, stdout []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.kept[id] = stdout
	}
}

// take returns the output of a run that stayed and forgets it.
func (w *workspace) take(id uint64) []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	stdout := w.kept[id]
	delete(w.kept, id)
	return stdout
}

// errCanceled ends a run that its caller gave up. Nobody waits for its reply.
var errCanceled = errors.New("the run was canceled")

// begin registers a run. done must be called at its end.
func (w *workspace) begin(ctx context.Context, id uint64) (_ context.Context, done func(), err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, nil, errors.New("the workspace was closed")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	if _, early := w.runs[id]; early {
		cancel(errCanceled)
	}
	w.runs[id] = cancel
	w.wg.Add(1)
	return ctx, func() {
		cancel(nil)
		w.mu.Lock()
		delete(w.runs, id)
		w.mu.Unlock()
		w.wg.Done()
	}, nil
}

func (w *workspace) cancel(id uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if stop := w.runs[id]; stop != nil {
		stop(errCanceled)
		return
	}
	w.runs[id] = nil
}

// close ends the runs with cause, waits for them and removes the folder.
func (w *workspace) close(cause error) error {
	w.mu.Lock()
	w.closed = true
	clear(w.kept)
	for _, stop := range w.runs {
		if stop != nil {
			stop(cause)
		}
	}
	w.mu.Unlock()
	w.wg.Wait()
	w.server.workspaces.Add(-1)
	return w.dir.Close()
}
