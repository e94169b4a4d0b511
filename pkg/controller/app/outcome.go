package app

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/status/writer"
)

// outcome is how a run of one generation of an App ended: the status before and
// after. It is kept until the API server has it, so that a run is not repeated
// because nobody could be told.
type outcome struct {
	uid        types.UID
	generation int64
	deleting   bool
	old, next  v1alpha1.AppStatus
}

// fits says whether the outcome still tells something about the App.
func (o outcome) fits(app *v1alpha1.App) bool {
	return o.uid == app.UID && o.generation == app.Generation && o.deleting == !app.DeletionTimestamp.IsZero()
}

// conclude writes an outcome, or keeps it for the next attempt.
func (s *session) conclude(ctx context.Context, o outcome) error {
	r, key := s.r, client.ObjectKeyFromObject(s.app)
	err := s.store(ctx, o.next)
	r.mu.Lock()
	if err != nil && !errors.Is(err, writer.ErrGone) {
		r.unwritten[key] = o
	} else {
		delete(r.unwritten, key)
	}
	r.mu.Unlock()
	if err == nil {
		o.next = s.current().Status // what is stored of it
		s.announce(ctx, o)
	}
	return err
}

// catchUp writes what could not be written when the latest run ended.
func (r *Reconciler) catchUp(ctx context.Context, app *v1alpha1.App) view {
	key := client.ObjectKeyFromObject(app)
	r.mu.Lock()
	o, ok := r.unwritten[key]
	if ok && !o.fits(app) {
		delete(r.unwritten, key)
		ok = false
	}
	r.mu.Unlock()
	v := view{app: app, status: app.Status}
	if !ok {
		return v
	}
	s := newSession(r, v, nil)
	if v.unwritten = s.conclude(ctx, o); v.unwritten != nil {
		v.status = o.next
		return v
	}
	v.app = s.current()
	v.status = v.app.Status
	return v
}
