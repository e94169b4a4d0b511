package packagerepository

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	packaging "github.com/garboard-dev/garboard/pkg/apis/packaging/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/refs"
	"github.com/garboard-dev/garboard/pkg/track"
)

// SetupWithManager registers the controller: PackageRepositories by generation, and
// the Secrets and ConfigMaps that they name by metadata only. workers is how many
// are reconciled at a time, so that a slow one does not keep the others waiting.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, workers int) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("pkgr").
		For(&packaging.PackageRepository{}, builder.WithPredicates(r.ownEvents())).
		WatchesMetadata(&corev1.Secret{}, r.refs.Events(refs.Secret)).
		WatchesMetadata(&corev1.ConfigMap{}, r.refs.Events(refs.ConfigMap)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			// Only failures to reach the API server come here: a failed stage is a
			// status, and plan says when it is tried again.
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](100*time.Millisecond, 30*time.Second),
		}).
		Complete(r)
}

// ownEvents lets through what can change a decision. Our own status writes do not;
// an event also ends a run that it makes useless.
func (r *Reconciler) ownEvents() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			repo, ok := e.ObjectNew.(*packaging.PackageRepository)
			if !ok {
				return false
			}
			r.running.seen(repo)
			return track.Edited(e.ObjectOld, repo)
		},
		DeleteFunc: func(e event.DeleteEvent) bool {
			r.running.gone(client.ObjectKeyFromObject(e.Object))
			return true
		},
	}
}
