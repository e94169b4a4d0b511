package packageinstall

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kappctrl "github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	packaging "github.com/garboard-dev/garboard/pkg/apis/packaging/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/status"
)

// delete deletes the App, and lets go of the PackageInstall when that is gone. It
// returns nil once it let go. Being paused or canceled does not keep it.
func (r *Reconciler) delete(ctx context.Context, pkgi *packaging.PackageInstall) (*decision, error) {
	app := &kappctrl.App{}
	found, err := r.get(ctx, client.ObjectKeyFromObject(pkgi), app)
	if err != nil {
		return nil, fmt.Errorf("read App: %w", err)
	}
	if !found {
		// A cache may not know an App that was made just now, and nobody would
		// delete it once the finalizer is gone.
		if app, err = r.liveApp(ctx, pkgi); err != nil {
			return nil, err
		}
	}
	for try := 0; ; try++ {
		// An App of somebody else is none of ours, although it has our name.
		if app == nil || !controls(pkgi, app) {
			return nil, r.removeFinalizer(ctx, pkgi)
		}
		next, err := r.deleteApp(ctx, pkgi, app)
		if (apierrors.IsConflict(err) || apierrors.IsNotFound(err)) && try < 3 {
			if app, err = r.liveApp(ctx, pkgi); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil && !users(err) {
			return nil, err
		}
		d := &decision{outcome: status.Install{Deleting: true, App: next, Warnings: pkgi.Status.Warnings}}
		if err != nil {
			d.outcome.Failure = err.Error()
		}
		return d, nil
	}
}

// deleteApp has the App deleted in the way that the PackageInstall says now.
func (r *Reconciler) deleteApp(ctx context.Context, pkgi *packaging.PackageInstall, app *kappctrl.App) (*kappctrl.App, error) {
	next := app.DeepCopy()
	setDeleteFlags(next, pkgi)
	if !same(app, next) {
		if err := r.Client.Update(ctx, next); err != nil {
			return app, fmt.Errorf("write App %s/%s: %w", app.Namespace, app.Name, err)
		}
		r.wrote(next)
	}
	if next.DeletionTimestamp.IsZero() {
		if err := r.Client.Delete(ctx, next, client.Preconditions{UID: &next.UID}); err != nil {
			return next, fmt.Errorf("delete App %s/%s: %w", app.Namespace, app.Name, err)
		}
	}
	return next, nil
}
