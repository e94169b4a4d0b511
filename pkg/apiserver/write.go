package apiserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericrequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	data "github.com/garboard-dev/garboard/pkg/apis/datapackaging/v1alpha1"
)

// updateTries is how often an update without a version is tried when others write
// the same object.
const updateTries = 5

// deletesAtOnce is how many objects of a collection are deleted side by side.
const deletesAtOnce = 10

// Create stores the object in the namespace of the request, whatever is global.
func (r *resource[T]) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, o *metav1.CreateOptions) (runtime.Object, error) {
	in, err := r.cast(obj)
	if err != nil {
		return nil, err
	}
	created, err := r.create(ctx, in, validate, o)
	if err != nil {
		return nil, err
	}
	return created, nil
}

func (r *resource[T]) create(ctx context.Context, in T, validate rest.ValidateObjectFunc, o *metav1.CreateOptions) (T, error) {
	if validate != nil {
		if err := validate(ctx, in.DeepCopyObject()); err != nil {
			return nil, err
		}
	}
	if err := r.check(in); err != nil {
		return nil, err
	}
	options := *o
	options.FieldManager = manager(in, o.FieldManager)
	out, err := r.storage.create(ctx, genericrequest.NamespaceValue(ctx), in, options)
	if err != nil {
		return nil, err
	}
	return r.settle(ctx, in, out, len(o.DryRun) > 0)
}

// check validates what is to be stored.
func (r *resource[T]) check(in T) error {
	if errs := r.kind.validate(in); len(errs) > 0 {
		return apierrors.NewInvalid(schema.GroupKind{Group: data.SchemeGroupVersion.Group, Kind: r.kind.name}, in.GetName(), errs)
	}
	return nil
}

// Update stores a changed object. What only the global namespace has becomes an
// object of the namespace of the request.
func (r *resource[T]) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, onCreate rest.ValidateObjectFunc, onUpdate rest.ValidateObjectUpdateFunc, apply bool, o *metav1.UpdateOptions) (runtime.Object, bool, error) { //nolint:revive // the library's interface
	var (
		out     T
		created bool
		again   bool
		err     error
	)
	for range updateTries {
		old, getErr := r.storage.get(ctx, genericrequest.NamespaceValue(ctx), name)
		switch {
		case apierrors.IsNotFound(getErr):
			out, err = r.createInstead(ctx, creation{name, apply, info, onCreate}, o)
			created, again = true, apierrors.IsAlreadyExists(err)
		case getErr != nil:
			return nil, false, getErr
		default:
			out, again, err = r.update(ctx, old, info, onUpdate, o)
		}
		if !again {
			break
		}
	}
	if err != nil {
		return nil, false, err
	}
	return out, created, nil
}

// update says whether it can be tried again: the client named no version and
// another write came first.
func (r *resource[T]) update(ctx context.Context, old T, info rest.UpdatedObjectInfo, validate rest.ValidateObjectUpdateFunc, o *metav1.UpdateOptions) (out T, again bool, err error) {
	if err := r.precondition(old, info.Preconditions()); err != nil {
		return nil, false, err
	}
	obj, err := info.UpdatedObject(ctx, old.DeepCopyObject())
	if err != nil {
		return nil, false, err
	}
	in, err := r.cast(obj)
	if err != nil {
		return nil, false, err
	}
	unversioned := in.GetResourceVersion() == ""
	if unversioned {
		in.SetResourceVersion(old.GetResourceVersion())
	}
	if in.GetName() != old.GetName() {
		return nil, false, apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", in.GetName(), old.GetName()))
	}
	if validate != nil {
		if err := validate(ctx, in.DeepCopyObject(), old.DeepCopyObject()); err != nil {
			return nil, false, err
		}
	}
	if err := r.check(in); err != nil {
		return nil, false, err
	}
	options := *o
	options.FieldManager = manager(in, o.FieldManager)
	namespace := genericrequest.NamespaceValue(ctx)
	if out, err = r.storage.update(ctx, namespace, in, options); err != nil {
		return nil, unversioned && apierrors.IsConflict(err), err
	}
	out, err = r.settle(ctx, in, out, len(o.DryRun) > 0)
	return out, false, err
}

// creation is an update of an object that the namespace of the request does not have.
type creation struct {
	name     string
	apply    bool // a server-side apply
	info     rest.UpdatedObjectInfo
	validate rest.ValidateObjectFunc
}

// createInstead creates what an update or patch makes of the global object or, if
// the namespace does not show one, of nothing.
func (r *resource[T]) createInstead(ctx context.Context, c creation, o *metav1.UpdateOptions) (T, error) {
	namespace := genericrequest.NamespaceValue(ctx)
	merged, err := r.namespaces.shows(ctx, namespace)
	if err != nil {
		return nil, err
	}
	base, global, err := r.live(ctx, namespace, c.name, merged)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	if global {
		if err := r.precondition(base, c.info.Preconditions()); err != nil {
			return nil, err
		}
	} else if base != nil || c.info.Preconditions() != nil && c.info.Preconditions().UID != nil {
		// It was created, or is gone, since the client looked.
		return nil, r.storage.notFound(c.name)
	}
	// A patch changes what is there. An update brings all, and so does an apply.
	if !global || verb(ctx) != "patch" || c.apply {
		base = r.kind.new()
	}
	obj, err := c.info.UpdatedObject(ctx, base)
	if err != nil {
		return nil, err
	}
	in, err := r.cast(obj)
	if err != nil {
		return nil, err
	}
	if global {
		in = r.asNew(in, namespace)
	} else if in.GetResourceVersion() != "" {
		return nil, r.storage.notFound(c.name)
	}
	return r.create(ctx, in, c.validate, &metav1.CreateOptions{DryRun: o.DryRun, FieldManager: o.FieldManager})
}

// asNew keeps of the metadata what is not about the global object itself.
func (r *resource[T]) asNew(obj T, namespace string) T {
	out := r.kind.copy(obj)
	name, annotations, labels := obj.GetName(), obj.GetAnnotations(), obj.GetLabels()
	reset(out)
	out.SetName(name)
	out.SetNamespace(namespace)
	out.SetAnnotations(annotations)
	out.SetLabels(labels)
	return out
}

func reset[T object](obj T) {
	switch o := any(obj).(type) {
	case *data.Package:
		o.ObjectMeta = metav1.ObjectMeta{}
	case *data.PackageMetadata:
		o.ObjectMeta = metav1.ObjectMeta{}
	}
}

func verb(ctx context.Context) string {
	if info, ok := genericrequest.RequestInfoFrom(ctx); ok {
		return info.Verb
	}
	return ""
}

// precondition is that the client means this very object.
func (r *resource[T]) precondition(obj T, p *metav1.Preconditions) error {
	var problem string
	switch {
	case p == nil:
		return nil
	case p.UID != nil && *p.UID != obj.GetUID():
		problem = fmt.Sprintf("Precondition failed: UID in precondition: %v, UID in object meta: %v", *p.UID, obj.GetUID())
	case p.ResourceVersion != nil && *p.ResourceVersion != obj.GetResourceVersion():
		problem = fmt.Sprintf("Precondition failed: ResourceVersion in precondition: %v, ResourceVersion in object meta: %v", *p.ResourceVersion, obj.GetResourceVersion())
	default:
		return nil
	}
	return apierrors.NewConflict(schema.GroupResource{Group: data.SchemeGroupVersion.Group, Resource: r.kind.singular}, obj.GetName(), errors.New(problem))
}

// Delete removes a local object; a global one shows again if it was hidden.
func (r *resource[T]) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc, o *metav1.DeleteOptions) (runtime.Object, bool, error) {
	namespace := genericrequest.NamespaceValue(ctx)
	old, err := r.storage.get(ctx, namespace, name)
	if err != nil {
		return nil, false, err
	}
	if validate != nil {
		if err := validate(ctx, old.DeepCopyObject()); err != nil {
			return nil, false, err
		}
	}
	left, err := r.storage.delete(ctx, namespace, name, *o)
	if err != nil {
		return nil, false, err
	}
	if len(o.DryRun) == 0 {
		r.seen(ctx, func() bool {
			now := r.store.objects[key{namespace, name}]
			return now == nil || now.GetUID() != old.GetUID() || now.GetDeletionTimestamp() != nil
		})
	}
	if left != nil {
		return left, false, nil
	}
	return old, true, nil
}

// DeleteCollection deletes what is local. A namespace that terminates looks empty
// afterwards, whatever is global.
func (r *resource[T]) DeleteCollection(ctx context.Context, validate rest.ValidateObjectFunc, o *metav1.DeleteOptions, list *metainternalversion.ListOptions) (runtime.Object, error) {
	namespace := genericrequest.NamespaceValue(ctx)
	v := view{labels: list.LabelSelector, fields: list.FieldSelector}
	items, version, err := r.storage.list(ctx, namespace, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var (
		g       errgroup.Group
		mu      sync.Mutex // guards deleted and errs
		deleted []T
		errs    []error
	)
	g.SetLimit(deletesAtOnce)
	for _, item := range items {
		obj, err := r.kind.load(item)
		if err != nil || !selects(v, obj) {
			continue
		}
		g.Go(func() error {
			_, _, err := r.Delete(genericrequest.WithNamespace(ctx, obj.GetNamespace()), obj.GetName(), validate, o.DeepCopy())
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				deleted = append(deleted, obj)
			case !apierrors.IsNotFound(err):
				errs = append(errs, err)
			}
			return nil
		})
	}
	_ = g.Wait() // errs has them all
	if len(errs) > 0 {
		return nil, errs[0]
	}
	if err := r.hideGlobal(ctx, namespace); err != nil {
		return nil, err
	}
	return r.kind.list(deleted, metav1.ListMeta{ResourceVersion: version}), nil
}

// hideGlobal waits until it is known here that the namespace terminates, if it does:
// who deletes it lists next.
func (r *resource[T]) hideGlobal(ctx context.Context, namespace string) error {
	before, err := r.namespaces.shows(ctx, namespace)
	if err != nil || !before {
		return err
	}
	now, err := r.namespaces.showsNow(ctx, namespace)
	if err != nil || now {
		return err
	}
	r.seen(ctx, func() bool { return r.namespaces.still(namespace, false) })
	return nil
}

// settle returns what was stored once the store has seen it.
//
// Who manages which field was decided here, for this API's kinds. The API server
// that stores the object decides again, and takes what an apply owns away from it,
// as to it an update changed the fields. A second update that changes nothing else
// puts it right.
func (r *resource[T]) settle(ctx context.Context, in, out T, dryRun bool) (T, error) {
	if dryRun {
		out.SetManagedFields(in.GetManagedFields())
		return out, nil
	}
	if !keepsApplied(in.GetManagedFields(), out.GetManagedFields()) {
		again := out.DeepCopyObject().(T)
		again.SetManagedFields(in.GetManagedFields())
		fixed, err := r.storage.update(ctx, out.GetNamespace(), again, metav1.UpdateOptions{FieldManager: manager(in, "")})
		switch {
		case err == nil:
			out = fixed
		case !apierrors.IsConflict(err) && !apierrors.IsNotFound(err):
			return nil, err
		}
	}
	rv, err := parseVersion(out.GetResourceVersion())
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	r.seen(ctx, func() bool { return r.store.rv >= rv })
	return out, nil
}

// keepsApplied says whether every apply in want is in got.
func keepsApplied(want, got []metav1.ManagedFieldsEntry) bool {
	for _, w := range want {
		if w.Operation != metav1.ManagedFieldsOperationApply {
			continue
		}
		if !slices.ContainsFunc(got, func(g metav1.ManagedFieldsEntry) bool {
			return g.Operation == w.Operation && g.Manager == w.Manager && apiequality.Semantic.DeepEqual(g.FieldsV1, w.FieldsV1)
		}) {
			return false
		}
	}
	return true
}

// manager returns who makes the change: who the client says, or who was found last
// in the object, which the library has derived from the client's name.
func manager[T object](obj T, named string) string {
	if named != "" {
		return named
	}
	var last metav1.ManagedFieldsEntry
	for _, e := range obj.GetManagedFields() {
		if e.Time != nil && (last.Time == nil || !e.Time.Before(last.Time)) {
			last = e
		}
	}
	return last.Manager
}

// seenPatience bounds how long a write waits for the store. The write is done even
// when the store is late.
const seenPatience = 5 * time.Second

// seen waits until the store shows a write, so that who made it reads it next.
func (r *resource[T]) seen(ctx context.Context, done func() bool) {
	ctx, cancel := context.WithTimeout(ctx, seenPatience)
	defer cancel()
	if err := r.store.wait(ctx, done); err != nil {
		r.store.log.Info("The store is late: reads may be older than the last write", "resource", r.kind.resource)
	}
}

func (r *resource[T]) cast(obj runtime.Object) (T, error) {
	in, ok := obj.(T)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("got %T, not a %s", obj, r.kind.name))
	}
	return in, nil
}
