package track

import (
	"context"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/garboard-dev/garboard/pkg/refs"
)

// Edited says whether an update changed what a controller acts on: the object is
// another one, or its spec, or it is being deleted. Writes of a status are no such
// change.
func Edited(old, next client.Object) bool {
	return old.GetGeneration() != next.GetGeneration() || old.GetUID() != next.GetUID() ||
		old.GetDeletionTimestamp().IsZero() != next.GetDeletionTimestamp().IsZero()
}

// Events returns a handler for watch events of a kind, refs.Secret or
// refs.ConfigMap. It enqueues the owners whose latest run read an older version.
func (t *Tracker) Events(kind string) handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	enqueue := func(obj client.Object, q queue) {
		for _, owner := range t.Event(obj.GetNamespace(), refs.Key{Kind: kind, Name: obj.GetName()}, obj.GetResourceVersion()) {
			if t.Changed(owner) {
				if t.OnOvertaken != nil && t.Overtaken(owner) {
					t.OnOvertaken(owner)
				}
				q.Add(reconcile.Request{NamespacedName: owner})
			}
		}
	}
	return handler.Funcs{
		CreateFunc:  func(_ context.Context, e event.CreateEvent, q queue) { enqueue(e.Object, q) },
		UpdateFunc:  func(_ context.Context, e event.UpdateEvent, q queue) { enqueue(e.ObjectNew, q) },
		DeleteFunc:  func(_ context.Context, e event.DeleteEvent, q queue) { enqueue(e.Object, q) },
		GenericFunc: func(_ context.Context, e event.GenericEvent, q queue) { enqueue(e.Object, q) },
	}
}
