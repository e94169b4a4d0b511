package app

import (
	"context"
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
)

// Causes that end a run.
var (
	errCanceled   = errors.New("the App was canceled")
	errDeleted    = errors.New("the App was deleted")
	errSuperseded = errors.New("the App, or a Secret or ConfigMap that it names, was changed")
)

// useless says that nobody wants to know how the run ended: the App goes, or the
// run that takes its place says what became of it.
func useless(cause error) bool {
	return errors.Is(cause, errDeleted) || errors.Is(cause, errSuperseded)
}

// running holds the runs that are going on, so that a watch event can end one.
type running struct {
	mu   sync.Mutex // guards runs and what is in them, and queued
	runs map[types.NamespacedName]*run
	// queued are the Apps that wait for their turn to run.
	queued map[types.NamespacedName]queued
}

type run struct {
	all        *running
	key        types.NamespacedName
	ctx        context.Context //nolint:containedctx // the run is the life of its context
	cancel     context.CancelCauseFunc
	uid        types.UID
	generation int64
	deleting   bool
	// canceled says that the App was canceled when the run began: a canceled App
	// can be deleted, so that is no reason to end its delete.
	canceled bool
	// applying says that kapp may be changing the cluster: what only makes the run
	// outdated lets that end first, and is kept in overdue until then.
	applying bool
	overdue  error
}

// queued is an App's wait for its turn.
type queued struct {
	end context.CancelFunc
	// deleting says that the turn is for a delete.
	deleting bool
}

func newRunning() *running {
	return &running{runs: map[types.NamespacedName]*run{}, queued: map[types.NamespacedName]queued{}}
}

// queue notes that an App waits for its turn. The context ends when an event says
// that it is not to run: paused, canceled, gone, or deleted, which is another line.
func (r *running) queue(ctx context.Context, key types.NamespacedName, deleting bool) (waits context.Context, leave func()) {
	ctx, cancel := context.WithCancel(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queued[key] = queued{cancel, deleting}
	return ctx, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		cancel()
		delete(r.queued, key)
	}
}

// start notes a run, whose context ends with it or when an event leaves no use
// for it. The caller stops it.
func (r *running) start(ctx context.Context, app *v1alpha1.App, deleting bool) *run {
	ctx, cancel := context.WithCancelCause(ctx)
	now := &run{
		all: r, key: types.NamespacedName{Namespace: app.Namespace, Name: app.Name}, ctx: ctx, cancel: cancel,
		uid: app.UID, generation: app.Generation, deleting: deleting, canceled: app.Spec.Canceled,
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs[now.key] = now
	return now
}

// stop ends the run and forgets it. It returns why it had ended before, if so.
func (n *run) stop() error {
	r := n.all
	r.mu.Lock()
	defer r.mu.Unlock()
	cause := context.Cause(n.ctx)
	n.cancel(nil)
	delete(r.runs, n.key)
	return cause
}

// mayDeploy returns why the run must not change the cluster any more, if so.
func (n *run) mayDeploy() error {
	if n.ctx.Err() != nil {
		return context.Cause(n.ctx)
	}
	return nil
}

// waits notes that kapp only waits, or that it changes the cluster from now on.
func (n *run) waits(now bool) {
	n.all.mu.Lock()
	defer n.all.mu.Unlock()
	n.applying = !now
	if now && n.overdue != nil {
		n.cancel(n.overdue)
	}
}

// seen ends the run of an App whose new state leaves no use for it: canceled,
// deleted while it was not a delete, or of another generation. A pause changes the
// generation too, and lets the run end.
func (r *running) seen(app *v1alpha1.App) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := types.NamespacedName{Namespace: app.Namespace, Name: app.Name}
	deleted := !app.DeletionTimestamp.IsZero()
	if q, ok := r.queued[key]; ok && !q.deleting && (deleted || app.Spec.Paused || app.Spec.Canceled) {
		q.end()
	}
	run, ok := r.runs[key]
	switch {
	case !ok:
	case app.UID != run.uid, deleted && !run.deleting:
		run.cancel(errDeleted)
	case app.Spec.Canceled && !run.canceled:
		run.cancel(errCanceled)
	case app.Generation > run.generation && (run.deleting || !app.Spec.Paused && !app.Spec.Canceled):
		run.supersede()
	}
}

// outdated ends the run of an App that read what has changed since. A delete
// reads nothing that it could do over.
func (r *running) outdated(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if run, ok := r.runs[key]; ok && !run.deleting {
		run.supersede()
	}
}

func (n *run) supersede() {
	if n.applying {
		n.overdue = errSuperseded
		return
	}
	n.cancel(errSuperseded)
}

// gone ends the run of an App that no longer exists: without the finalizer, which
// comes with the deploy, a delete is done at once.
func (r *running) gone(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q, ok := r.queued[key]; ok {
		q.end()
	}
	if run, ok := r.runs[key]; ok {
		run.cancel(errDeleted)
	}
}
