package settings

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// controllerName is the value of the controller label in the runtime's metrics.
const controllerName = "config"

// SetupWithManager has mgr run r: once when it starts, and whenever the Secret or
// the ConfigMap changes.
func (r *Reconciler) SetupWithManager(mgr manager.Manager) error {
	// A cache of its own: the manager's may be restricted to another namespace,
	// and this one watches no more than one name.
	watched, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient:           mgr.GetHTTPClient(),
		Scheme:               mgr.GetScheme(),
		Mapper:               mgr.GetRESTMapper(),
		DefaultNamespaces:    map[string]cache.Config{r.Namespace: {}},
		DefaultFieldSelector: fields.OneTermEqualSelector("metadata.name", ObjectName),
	})
	if err != nil {
		return fmt.Errorf("create cache: %w", err)
	}
	if err := mgr.Add(watched); err != nil {
		return fmt.Errorf("add cache: %w", err)
	}
	return builder.ControllerManagedBy(mgr).
		Named(controllerName).
		WatchesRawSource(source.Func(r.enqueueFirst)).
		WatchesRawSource(watchMetadata(watched, "Secret")).
		WatchesRawSource(watchMetadata(watched, "ConfigMap")).
		Complete(r)
}

// enqueueFirst makes one run happen although neither object exists: the sidecar
// may not have answered when the settings were loaded.
func (r *Reconciler) enqueueFirst(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	queue.Add(reconcile.Request{NamespacedName: client.ObjectKey{Namespace: r.Namespace, Name: ObjectName}})
	return nil
}

func watchMetadata(c cache.Cache, kind string) source.Source {
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return source.Kind(c, obj, &handler.TypedEnqueueRequestForObject[*metav1.PartialObjectMetadata]{})
}
