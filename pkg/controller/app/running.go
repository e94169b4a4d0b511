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
	errCanceled = errors.New("the App was canceled")
	errDeleted  = errors.New("the App was deleted")
)

// running holds the runs that are going on, so that a watch event can end one.
type running struct {
	mu   sync.Mutex
	runs map[types.NamespacedName]run
}

type run struct {
	cancel   context.CancelCauseFunc
	uid      types.UID
	deleting bool
	// canceled says that the App was canceled when the run began: a canceled App
	// can be deleted, so that is no reason to end its delete.
	canceled bool
}

func newRunning() *running { return &running{runs: map[types.NamespacedName]run{}} }

// start returns a context for a run, which stop ends.
func (r *running) start(ctx context.Context, app *v1alpha1.App, deleting bool) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	key := types.NamespacedName{Namespace: app.Namespace, Name: app.Name}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs[key] = run{cancel, app.UID, deleting, app.Spec.Canceled}
	return ctx, func() {
		cancel(nil)
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.runs, key)
	}
}

// seen ends the run of an App whose new state leaves no use for it: canceled, or
// deleted while it was not a delete.
func (r *running) seen(app *v1alpha1.App) {
	r.mu.Lock()
	defer r.mu.Unlock()
	run, ok := r.runs[types.NamespacedName{Namespace: app.Namespace, Name: app.Name}]
	switch {
	case !ok:
	case app.Spec.Canceled && !run.canceled:
		run.cancel(errCanceled)
	case app.UID != run.uid, !app.DeletionTimestamp.IsZero() && !run.deleting:
		run.cancel(errDeleted)
	}
}

// gone ends the run of an App that no longer exists: without the finalizer, which
// comes with the deploy, a delete is done at once.
func (r *running) gone(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if run, ok := r.runs[key]; ok {
		run.cancel(errDeleted)
	}
}
