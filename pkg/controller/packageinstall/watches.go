package packageinstall

import (
	"context"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	stored "github.com/garboard-dev/garboard/pkg/apis/internalpackaging/v1alpha1"
	kappctrl "github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	packaging "github.com/garboard-dev/garboard/pkg/apis/packaging/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/packages"
	"github.com/garboard-dev/garboard/pkg/settings"
	"github.com/garboard-dev/garboard/pkg/track"
)

// Indexes of the cache.
const (
	packageIndex = "packageinstall.package.refName"
	refIndex     = "packageinstall.refName"
	valuesIndex  = "packageinstall.values"
)

// gather is how long events of Packages are gathered: a repository brings many
// versions at once, and only the highest is to be installed.
const gather = 200 * time.Millisecond

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	if err := indexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	changed := make(chan event.GenericEvent, 1)
	r.Settings.OnChange(settingsEvents(r.Settings.Get(), changed))
	return ctrl.NewControllerManagedBy(mgr).
		Named("pkgi").
		For(&packaging.PackageInstall{}, builder.WithPredicates(installEvents())).
		Watches(&kappctrl.App{}, handler.EnqueueRequestsFromMapFunc(r.forApp), builder.WithPredicates(appEvents())).
		Watches(&stored.InternalPackage{}, r.packageEvents(), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.forNamespace), builder.WithPredicates(namespaceEvents())).
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.forSecret), builder.WithPredicates(predicate.ResourceVersionChangedPredicate{})).
		WatchesRawSource(source.Channel(changed, handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request {
			return r.requests(ctx)
		}))).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: r.Concurrency,
			// Only failures to reach the API server come here; for all others retry
			// says when to try again.
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](100*time.Millisecond, 30*time.Second),
		}).
		Complete(r)
}

func indexes(ctx context.Context, indexer client.FieldIndexer) error {
	if err := indexer.IndexField(ctx, &stored.InternalPackage{}, packageIndex, func(obj client.Object) []string {
		p, ok := obj.(*stored.InternalPackage)
		if !ok {
			return nil
		}
		return []string{p.Spec.RefName}
	}); err != nil {
		return err
	}
	if err := indexer.IndexField(ctx, &packaging.PackageInstall{}, refIndex, func(obj client.Object) []string {
		p, ok := obj.(*packaging.PackageInstall)
		if !ok || p.Spec.PackageRef == nil {
			return nil
		}
		return []string{p.Spec.PackageRef.RefName}
	}); err != nil {
		return err
	}
	return indexer.IndexField(ctx, &packaging.PackageInstall{}, valuesIndex, func(obj client.Object) []string {
		p, ok := obj.(*packaging.PackageInstall)
		if !ok {
			return nil
		}
		return valuesSecrets(p)
	})
}

// installEvents lets through what the user changes; our own writes are none of it.
func installEvents() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return track.Edited(e.ObjectOld, e.ObjectNew) || !maps.Equal(e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations())
	}}
}

// appEvents lets through what a PackageInstall shows or sets; the output of a
// deploy, which grows every second, is none of it.
func appEvents() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		old, ok := e.ObjectOld.(*kappctrl.App)
		next, ok2 := e.ObjectNew.(*kappctrl.App)
		return ok && ok2 && (track.Edited(old, next) || !maps.Equal(old.Annotations, next.Annotations) ||
			!equality.Semantic.DeepEqual(old.OwnerReferences, next.OwnerReferences) ||
			!equality.Semantic.DeepEqual(old.Status.GenericStatus, next.Status.GenericStatus))
	}}
}

func namespaceEvents() predicate.Predicate {
	excludes := func(obj client.Object) bool {
		_, ok := obj.GetAnnotations()[packages.ExcludeGlobalAnnotation]
		return ok
	}
	return predicate.Funcs{
		// A namespace is there before what is in it.
		CreateFunc: func(event.CreateEvent) bool { return false },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool { return excludes(e.ObjectOld) != excludes(e.ObjectNew) },
	}
}

// settingsEvents returns a function that sends an event when the default sync
// period changes, which is in all Apps whose PackageInstalls name none.
func settingsEvents(first settings.Settings, events chan<- event.GenericEvent) func(settings.Settings) {
	last := first.PackageInstallDefaultSyncPeriod
	return func(s settings.Settings) {
		if s.PackageInstallDefaultSyncPeriod == last {
			return
		}
		last = s.PackageInstallDefaultSyncPeriod
		select {
		case events <- event.GenericEvent{Object: &packaging.PackageInstall{}}:
		default: // one is pending; who acts on it reads the newest settings
		}
	}
}

// forApp finds the PackageInstall of an App's name. It is also told of an App that
// is not its own: that one stands in its way.
func (r *Reconciler) forApp(ctx context.Context, app client.Object) []reconcile.Request {
	key := client.ObjectKeyFromObject(app)
	if err := r.Client.Get(ctx, key, &packaging.PackageInstall{}); err != nil {
		return nil
	}
	return []reconcile.Request{{NamespacedName: key}}
}

func (r *Reconciler) forNamespace(ctx context.Context, ns client.Object) []reconcile.Request {
	return r.requests(ctx, client.InNamespace(ns.GetName()))
}

func (r *Reconciler) forSecret(ctx context.Context, secret client.Object) []reconcile.Request {
	return r.requests(ctx, client.InNamespace(secret.GetNamespace()), client.MatchingFields{valuesIndex: secret.GetName()})
}

// packageEvents enqueues those who install any version of a Package.
func (r *Reconciler) packageEvents() handler.EventHandler {
	enqueue := func(ctx context.Context, obj client.Object, q queue) {
		p, ok := obj.(*stored.InternalPackage)
		if !ok {
			return
		}
		opts := []client.ListOption{client.MatchingFields{refIndex: p.Spec.RefName}}
		if p.Namespace != r.GlobalNamespace {
			opts = append(opts, client.InNamespace(p.Namespace))
		}
		for _, req := range r.requests(ctx, opts...) {
			q.AddAfter(req, gather)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { enqueue(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			enqueue(ctx, e.ObjectOld, q)
			enqueue(ctx, e.ObjectNew, q)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { enqueue(ctx, e.Object, q) },
	}
}

// requests names the PackageInstalls that the options select.
func (r *Reconciler) requests(ctx context.Context, opts ...client.ListOption) (out []reconcile.Request) {
	list := &packaging.PackageInstallList{}
	if err := r.Client.List(ctx, list, append(opts, client.UnsafeDisableDeepCopy)...); err != nil {
		logf.FromContext(ctx).Error(err, "PackageInstalls not listed")
		return nil
	}
	for i := range list.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return out
}
