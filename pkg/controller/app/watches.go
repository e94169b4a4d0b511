package app

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

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/refs"
	"github.com/garboard-dev/garboard/pkg/track"
)

// SetupWithManager registers the controller: Apps by generation, and the Secrets
// and ConfigMaps that they name by metadata only, which keeps their content out
// of the controller's memory.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("app").
		For(&v1alpha1.App{}, builder.WithPredicates(r.appEvents())).
		WatchesMetadata(&corev1.Secret{}, r.refs.Events(refs.Secret)).
		WatchesMetadata(&corev1.ConfigMap{}, r.refs.Events(refs.ConfigMap)).
		WithOptions(controller.Options{
			// A deploy that waits keeps its worker, which costs next to nothing.
			MaxConcurrentReconciles: 2*r.Concurrency + r.WaitingSlots,
			// Only failures to reach the API server come here: a failed stage is a
			// status, and plan says when it is tried again.
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](100*time.Millisecond, 30*time.Second),
		}).
		Complete(r)
}

// appEvents lets through what can change a decision. Our own status writes do
// not; an event also ends a run that it makes useless.
func (r *Reconciler) appEvents() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			app, ok := e.ObjectNew.(*v1alpha1.App)
			if !ok {
				return false
			}
			r.running.seen(app)
			return track.Edited(e.ObjectOld, app)
		},
		DeleteFunc: func(e event.DeleteEvent) bool {
			r.running.gone(client.ObjectKeyFromObject(e.Object))
			return true
		},
	}
}
