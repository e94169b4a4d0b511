package kapp

import (
	"context"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

const (
	// originalAnnotation is kapp's copy of what was applied.
	originalAnnotation = "kapp.k14s.io/original"
	// annotationLimit is the API server's, for all keys and values together.
	annotationLimit = 256 << 10
)

// settled are kinds that are ready once written: nothing works on them, so their
// state after a write is the state to wait for.
var settled = map[schema.GroupResource]bool{
	{Resource: "configmaps"}:                                              true,
	{Resource: "secrets"}:                                                 true,
	{Resource: "serviceaccounts"}:                                         true,
	{Group: "rbac.authorization.k8s.io", Resource: "roles"}:               true,
	{Group: "rbac.authorization.k8s.io", Resource: "rolebindings"}:        true,
	{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}:        true,
	{Group: "rbac.authorization.k8s.io", Resource: "clusterrolebindings"}: true,
}

// objects remembers the writes of one run to settled kinds, each for one read.
type objects struct {
	// off keeps nothing: the manifest has rules of its own on what to wait for.
	off bool

	mu      sync.Mutex // guards written
	written map[string]*unstructured.Unstructured
}

func (o *objects) put(key string, obj *unstructured.Unstructured) {
	if o.off {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.written == nil {
		o.written = map[string]*unstructured.Unstructured{}
	}
	o.written[key] = obj.DeepCopy()
}

func (o *objects) take(key string) *unstructured.Unstructured {
	o.mu.Lock()
	defer o.mu.Unlock()
	obj := o.written[key]
	delete(o.written, key)
	return obj
}

// dynamicClient is kapp's client for objects.
type dynamicClient struct {
	dynamic.Interface
	objects *objects
	denied  *denied
	gone    func(schema.GroupVersionResource) bool
}

func (c *dynamicClient) Resource(gvr schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	live := c.Interface.Resource(gvr)
	return &namespaceable{
		resource: resource{ResourceInterface: live, client: c, gvr: gvr},
		live:     live,
	}
}

type namespaceable struct {
	resource
	live dynamic.NamespaceableResourceInterface
}

func (n *namespaceable) Namespace(namespace string) dynamic.ResourceInterface {
	return &resource{
		ResourceInterface: n.live.Namespace(namespace), client: n.client, gvr: n.gvr,
		namespace: namespace, everywhere: namespace == "",
	}
}

// resource is one kind in one namespace.
type resource struct {
	dynamic.ResourceInterface
	client    *dynamicClient
	gvr       schema.GroupVersionResource
	namespace string
	// everywhere says that a namespaced kind is asked for in all namespaces.
	everywhere bool
}

func (r *resource) key(name string) string {
	return r.gvr.Group + "/" + r.gvr.Resource + "/" + r.namespace + "/" + name
}

func (r *resource) wrote(name string, obj *unstructured.Unstructured, err error) {
	if !settled[r.gvr.GroupResource()] {
		return
	}
	if err != nil {
		r.client.objects.take(r.key(name))
		return
	}
	r.client.objects.put(r.key(name), obj)
}

func (r *resource) Create(ctx context.Context, obj *unstructured.Unstructured, opts metav1.CreateOptions, sub ...string) (*unstructured.Unstructured, error) {
	out, err := r.ResourceInterface.Create(ctx, obj, opts, sub...)
	r.wrote(obj.GetName(), out, err)
	return out, err
}

func (r *resource) Update(ctx context.Context, obj *unstructured.Unstructured, opts metav1.UpdateOptions, sub ...string) (*unstructured.Unstructured, error) {
	// kapp leaves its copy out if that alone is over the limit, and else would
	// try for a minute and fail. Without the copy it compares with the object as
	// it is in the cluster.
	if _, copied := obj.GetAnnotations()[originalAnnotation]; copied && annotationSize(obj) > annotationLimit {
		return obj.DeepCopy(), nil
	}
	out, err := r.ResourceInterface.Update(ctx, obj, opts, sub...)
	r.wrote(obj.GetName(), out, err)
	return out, err
}

func annotationSize(obj *unstructured.Unstructured) int {
	n := 0
	for k, v := range obj.GetAnnotations() {
		n += len(k) + len(v)
	}
	return n
}

func (r *resource) Delete(ctx context.Context, name string, opts metav1.DeleteOptions, sub ...string) error {
	r.client.objects.take(r.key(name))
	return r.ResourceInterface.Delete(ctx, name, opts, sub...)
}

func (r *resource) Get(ctx context.Context, name string, opts metav1.GetOptions, sub ...string) (*unstructured.Unstructured, error) {
	if obj := r.client.objects.take(r.key(name)); obj != nil {
		return obj, nil
	}
	return r.ResourceInterface.Get(ctx, name, opts, sub...)
}

// List takes a kind that the cluster stopped to serve for one without objects,
// which is what kapp makes of it when its knowledge of kinds is new.
func (r *resource) List(ctx context.Context, opts metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	var list *unstructured.UnstructuredList
	ask := func() (err error) {
		list, err = r.ResourceInterface.List(ctx, opts)
		return err
	}
	var err error
	if r.everywhere {
		err = r.client.denied.list(r.gvr.String(), ask)
	} else {
		err = ask()
	}
	if apierrors.IsNotFound(err) && r.client.gone(r.gvr) {
		return &unstructured.UnstructuredList{}, nil
	}
	return list, err
}
