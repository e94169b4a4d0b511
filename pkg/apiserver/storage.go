package apiserver

import (
	"context"
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	data "github.com/garboard-dev/garboard/pkg/apis/datapackaging/v1alpha1"
	stored "github.com/garboard-dev/garboard/pkg/apis/internalpackaging/v1alpha1"
)

// storage reads and writes the stored form of one kind.
type storage[T object] struct {
	kind   kind[T]
	client rest.Interface
	params runtime.ParameterCodec
}

// newStorage returns the storage of a kind, reached by cfg.
func newStorage[T object](k kind[T], cfg *rest.Config) (*storage[T], error) {
	scheme := newStoredScheme()
	cfg = rest.CopyConfig(cfg)
	cfg.GroupVersion, cfg.APIPath = &stored.SchemeGroupVersion, "/apis"
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(cfg)
	return &storage[T]{k, client, runtime.NewParameterCodec(scheme)}, err
}

func (s *storage[T]) get(ctx context.Context, namespace, name string) (T, error) {
	return s.loaded(name, s.request(s.client.Get(), namespace, name).Do(ctx))
}

func (s *storage[T]) create(ctx context.Context, namespace string, obj T, o metav1.CreateOptions) (T, error) {
	o.FieldValidation = ""
	req := s.request(s.client.Post(), namespace, "").VersionedParams(&o, s.params).Body(s.kind.store(obj, namespace))
	return s.loaded(obj.GetName(), req.Do(ctx))
}

func (s *storage[T]) update(ctx context.Context, namespace string, obj T, o metav1.UpdateOptions) (T, error) {
	o.FieldValidation = ""
	req := s.request(s.client.Put(), namespace, obj.GetName()).VersionedParams(&o, s.params).Body(s.kind.store(obj, namespace))
	return s.loaded(obj.GetName(), req.Do(ctx))
}

// delete returns what waits for its finalizers, or nil.
func (s *storage[T]) delete(ctx context.Context, namespace, name string, o metav1.DeleteOptions) (T, error) {
	result := s.request(s.client.Delete(), namespace, name).Body(&o).Do(ctx)
	out, err := result.Get()
	if _, done := out.(*metav1.Status); err != nil || done {
		return nil, s.translate(err, name)
	}
	return s.loaded(name, result)
}

// list returns all in the namespace that the label selector selects, and the version.
func (s *storage[T]) list(ctx context.Context, namespace string, o metav1.ListOptions) ([]runtime.Object, string, error) {
	list := s.kind.newStoredList()
	err := s.client.Get().NamespaceIfScoped(namespace, namespace != "").Resource(s.kind.storedResource).
		VersionedParams(&o, s.params).Do(ctx).Into(list)
	if err != nil {
		return nil, "", s.translate(err, "")
	}
	items, version := itemsOf(list)
	return items, version, nil
}

func itemsOf(list runtime.Object) (items []runtime.Object, version string) {
	switch l := list.(type) {
	case *stored.InternalPackageList:
		for i := range l.Items {
			items = append(items, &l.Items[i])
		}
		version = l.ResourceVersion
	case *stored.InternalPackageMetadataList:
		for i := range l.Items {
			items = append(items, &l.Items[i])
		}
		version = l.ResourceVersion
	}
	return items, version
}

// lister and watch of everything, for a reflector.
func (s *storage[T]) listWatch() *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list := s.kind.newStoredList()
			return list, s.client.Get().Resource(s.kind.storedResource).VersionedParams(&o, s.params).Do(ctx).Into(list)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.Watch = true
			return s.client.Get().Resource(s.kind.storedResource).VersionedParams(&o, s.params).Watch(ctx)
		},
	}
}

func (s *storage[T]) request(req *rest.Request, namespace, name string) *rest.Request {
	req = req.Namespace(namespace).Resource(s.kind.storedResource)
	if name != "" {
		req = req.Name(s.kind.storedName(name))
	}
	return req
}

func (s *storage[T]) loaded(name string, result rest.Result) (T, error) {
	obj := s.kind.newStored()
	if err := result.Into(obj); err != nil {
		return nil, s.translate(err, name)
	}
	return s.kind.load(obj)
}

// translate says errors of the store in terms of what is served. Clients know the
// singular resource in their texts.
func (s *storage[T]) translate(err error, name string) error {
	var status *apierrors.StatusError
	if err == nil || !errors.As(err, &status) {
		return err
	}
	out := *status
	from, to := stored.SchemeGroupVersion.Group, data.SchemeGroupVersion.Group
	words := []string{
		s.kind.storedResource + "." + from, s.kind.singular + "." + to,
		s.kind.storedKind + "." + from, s.kind.name + "." + to,
	}
	if name != "" {
		words = append(words, `"`+s.kind.storedName(name)+`"`, `"`+name+`"`)
	}
	out.ErrStatus.Message = strings.NewReplacer(words...).Replace(out.ErrStatus.Message)
	if d := out.ErrStatus.Details.DeepCopy(); d != nil {
		if d.Group == from {
			d.Group = to
		}
		switch d.Kind {
		case s.kind.storedResource:
			d.Kind = s.kind.resource
		case s.kind.storedKind:
			d.Kind = s.kind.name
		}
		if name != "" && d.Name == s.kind.storedName(name) {
			d.Name = name
		}
		out.ErrStatus.Details = d
	}
	return &out
}

// notFound is what clients know, with the singular resource.
func (s *storage[T]) notFound(name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Group: data.SchemeGroupVersion.Group, Resource: s.kind.singular}, name)
}
