package apiserver

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	genericrequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	data "github.com/garboard-dev/garboard/pkg/apis/datapackaging/v1alpha1"
)

// resource serves one kind.
type resource[T object] struct {
	kind       kind[T]
	storage    *storage[T]
	store      *store[T]
	namespaces *namespaces
}

var _ rest.StandardStorage = &resource[*data.Package]{}

// New, Destroy, NamespaceScoped, GetSingularName, ShortNames and NewList describe
// the resource to the library.
func (r *resource[T]) New() runtime.Object { return r.kind.new() }

// Destroy frees nothing: the server stops what it started.
func (r *resource[T]) Destroy() {}

// NamespaceScoped is true.
func (r *resource[T]) NamespaceScoped() bool { return true }

// GetSingularName returns the name of one.
func (r *resource[T]) GetSingularName() string { return r.kind.singular }

// ShortNames returns what kubectl users type.
func (r *resource[T]) ShortNames() []string { return []string{r.kind.shortName} }

// NewList returns an empty list.
func (r *resource[T]) NewList() runtime.Object { return r.kind.list(nil, metav1.ListMeta{}) }

// Get returns what the namespace shows under the name. What the store does not have
// may have been created a moment ago by another instance, so it is looked up.
func (r *resource[T]) Get(ctx context.Context, name string, o *metav1.GetOptions) (runtime.Object, error) {
	namespace := genericrequest.NamespaceValue(ctx)
	if err := r.fresh(ctx, o.ResourceVersion); err != nil {
		return nil, err
	}
	merged, err := r.namespaces.shows(ctx, namespace)
	if err != nil {
		return nil, err
	}
	if obj := r.store.get(r.kind, namespace, name, merged); obj != nil {
		return r.kind.copy(obj), nil
	}
	obj, _, err := r.live(ctx, namespace, name, merged)
	if err != nil {
		return nil, err
	}
	return obj, nil
}

// live reads past the store, and says whether what it found is a global object.
func (r *resource[T]) live(ctx context.Context, namespace, name string, merged bool) (obj T, global bool, err error) {
	obj, err = r.storage.get(ctx, namespace, name)
	if !apierrors.IsNotFound(err) {
		return obj, false, err
	}
	if merged {
		obj, err = r.storage.get(ctx, r.store.global, name)
		if err == nil {
			return through(r.kind, obj, namespace), true, nil
		}
		if !apierrors.IsNotFound(err) {
			return nil, false, err
		}
	}
	return nil, false, r.storage.notFound(name)
}

// List returns what the namespace shows, all at once: limits are for what costs
// more in one answer than in several. No continue token is ever handed out.
func (r *resource[T]) List(ctx context.Context, o *metainternalversion.ListOptions) (runtime.Object, error) {
	if o.Continue != "" {
		return nil, apierrors.NewResourceExpired("the continue token is not of this server, which answers lists at once: list again without it")
	}
	if err := r.fresh(ctx, o.ResourceVersion); err != nil {
		return nil, err
	}
	v, err := r.view(ctx, o)
	if err != nil {
		return nil, err
	}
	objects, rv := r.store.snapshot(r.kind, v)
	version := strconv.FormatUint(rv, 10)
	if o.ResourceVersionMatch == metav1.ResourceVersionMatchExact && o.ResourceVersion != version {
		return nil, apierrors.NewResourceExpired(fmt.Sprintf("only the latest version can be listed, which is %s", version))
	}
	return r.kind.list(objects, metav1.ListMeta{ResourceVersion: version}), nil
}

// Watch streams what happens to what the namespace shows.
func (r *resource[T]) Watch(ctx context.Context, o *metainternalversion.ListOptions) (watch.Interface, error) {
	from, err := parseVersion(o.ResourceVersion)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	at := start{from: from, initial: from == 0, bookmarks: o.AllowWatchBookmarks}
	if o.SendInitialEvents != nil {
		at.initial, at.marked = *o.SendInitialEvents, *o.SendInitialEvents && o.AllowWatchBookmarks
	}
	wanted := ""
	if at.initial {
		wanted = o.ResourceVersion
	}
	if err := r.fresh(ctx, wanted); err != nil {
		return nil, err
	}
	v, err := r.view(ctx, o)
	if err != nil {
		return nil, err
	}
	return r.store.watch(ctx, r.kind, v, at, func() bool { return r.namespaces.still(v.namespace, v.merged) }), nil
}

func (r *resource[T]) view(ctx context.Context, o *metainternalversion.ListOptions) (view, error) {
	v := view{namespace: genericrequest.NamespaceValue(ctx), labels: o.LabelSelector, fields: o.FieldSelector}
	var err error
	v.merged, err = r.namespaces.shows(ctx, v.namespace)
	return v, err
}

// How long a request waits for the store, before the first list and for a version.
const (
	syncPatience    = 20 * time.Second
	versionPatience = 3 * time.Second
)

var (
	errNotSynced = errors.New("the store has not been filled")
	errTooNew    = errors.New("the version is not known")
)

// fresh waits until the store knows the version, "" for any.
func (r *resource[T]) fresh(ctx context.Context, version string) error {
	rv, err := parseVersion(version)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	synced, cancel := context.WithTimeoutCause(ctx, syncPatience, errNotSynced)
	defer cancel()
	if r.store.wait(synced, func() bool { return r.store.synced }) != nil {
		return apierrors.NewServiceUnavailable("the stored packages cannot be read at the moment: try again")
	}
	known, cancel := context.WithTimeoutCause(ctx, versionPatience, errTooNew)
	defer cancel()
	if r.store.wait(known, func() bool { return r.store.rv >= rv }) != nil {
		err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d", rv), 1)
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}}
		return err
	}
	return nil
}

// ConvertToTable returns what kubectl prints.
func (r *resource[T]) ConvertToTable(_ context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	table := &metav1.Table{}
	if o, ok := options.(*metav1.TableOptions); !ok || !o.NoHeaders {
		table.ColumnDefinitions = r.kind.columns
	}
	if l, ok := obj.(metav1.ListInterface); ok {
		table.ResourceVersion = l.GetResourceVersion()
	} else if one, err := meta.Accessor(obj); err == nil {
		table.ResourceVersion = one.GetResourceVersion()
	}
	row := func(obj runtime.Object) error {
		item, ok := obj.(T)
		if !ok {
			return fmt.Errorf("no table of %T", obj)
		}
		table.Rows = append(table.Rows, metav1.TableRow{Cells: r.kind.cells(item), Object: runtime.RawExtension{Object: obj}})
		return nil
	}
	if meta.IsListType(obj) {
		return table, meta.EachListItem(obj, row)
	}
	return table, row(obj)
}
