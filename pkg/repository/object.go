package repository

import (
	"crypto/md5" // kapp's label is made of it; nothing depends on its strength
	"encoding/hex"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	data "github.com/garboard-dev/garboard/pkg/apis/datapackaging/v1alpha1"
	stored "github.com/garboard-dev/garboard/pkg/apis/internalpackaging/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/packages"
)

// The kinds of objects that a repository offers.
const (
	Package  = "Package"
	Metadata = "PackageMetadata"
)

// Annotations that decide between repositories.
const (
	// OwnerAnnotation names the repository that an object is from, as NAMESPACE/NAME.
	OwnerAnnotation = "packaging.carvel.dev/package-repository-ref"
	// RevisionAnnotation orders objects of the same name and different content.
	RevisionAnnotation = "packaging.carvel.dev/revision"
)

// What kapp writes on an object.
const (
	appLabel           = "kapp.k14s.io/app"
	associationLabel   = "kapp.k14s.io/association"
	identityAnnotation = "kapp.k14s.io/identity"
	disableOriginal    = "kapp.k14s.io/disable-original"
	disableWait        = "kapp.k14s.io/disable-wait"
	createStrategy     = "kapp.k14s.io/create-strategy"
	// kbldAnnotation says which images kbld replaced. kbld writes it also where it
	// replaced none, and Garboard does not run it then.
	kbldAnnotation = "kbld.k14s.io/images"
)

// Key names an object within a namespace, as users know it.
type Key struct{ Kind, Name string }

// String returns the key as kapp writes it.
func (k Key) String() string { return k.Kind + "/" + k.Name }

// Stored is an object as it is stored.
type Stored interface {
	metav1.Object
	runtime.Object
}

// Object is a Package or PackageMetadata as it is stored. It shares its parts with
// what it was made of and is not to be changed.
type Object struct {
	Key
	Stored
	spec any // pointer to the spec
}

// OfPackage returns the object for a stored Package. Its name must be the encoding
// of a Package's name.
func OfPackage(p *stored.InternalPackage) (Object, error) {
	name, err := packages.DecodeName(p.Name)
	return Object{Key{Package, name}, p, &p.Spec}, err
}

// OfMetadata returns the object for a stored PackageMetadata.
func OfMetadata(m *stored.InternalPackageMetadata) Object {
	return Object{Key{Metadata, m.Name}, m, &m.Spec}
}

// With returns a copy of o that replaces the object that exists: it has its UID and
// resource version, so that it is only written if that is still there unchanged.
func (o Object) With(existing Object) Object {
	next, ok := o.DeepCopyObject().(Stored)
	if !ok {
		return o
	}
	next.SetUID(existing.GetUID())
	next.SetResourceVersion(existing.GetResourceVersion())
	o.Stored = next
	return o
}

// Owner is a PackageRepository in whose name objects are offered.
type Owner struct {
	Namespace, Name string
	// Label is the value of kapp's label for the repository's objects.
	Label string
}

// Ref names the owner in the annotation.
func (o Owner) Ref() string { return o.Namespace + "/" + o.Name }

// identity is kapp's name for an object of the owner's namespace.
func (o Owner) identity(k Key) string {
	return o.Namespace + "/" + data.SchemeGroupVersion.Group + "/" + k.Kind + "/" + k.Name
}

func (o Owner) identityValue(k Key) string {
	return "v1;" + o.identity(k) + ";" + data.SchemeGroupVersion.String()
}

// Own returns the content as it is to be stored for the owner. Of the metadata in
// the repository only name, labels and annotations are kept.
func (o Owner) Own(c Content) []Object {
	out := make([]Object, 0, len(c.Packages)+len(c.Metadata))
	for _, p := range c.Packages {
		key := Key{Package, p.Name}
		in := packages.StorePackage(&data.Package{ObjectMeta: o.meta(key, &p.ObjectMeta), Spec: p.Spec}, o.Namespace)
		out = append(out, Object{key, in, &in.Spec})
	}
	for _, m := range c.Metadata {
		key := Key{Metadata, m.Name}
		in := packages.StoreMetadata(&data.PackageMetadata{ObjectMeta: o.meta(key, &m.ObjectMeta), Spec: m.Spec}, o.Namespace)
		out = append(out, Object{key, in, &in.Spec})
	}
	return out
}

func (o Owner) meta(k Key, in *metav1.ObjectMeta) metav1.ObjectMeta {
	out := metav1.ObjectMeta{Name: k.Name, Namespace: o.Namespace, Labels: map[string]string{}, Annotations: map[string]string{}}
	maps.Copy(out.Labels, in.Labels)
	maps.Copy(out.Annotations, in.Annotations)
	sum := md5.Sum([]byte(o.identity(k)))
	out.Labels[appLabel], out.Labels[associationLabel] = o.Label, "v1."+hex.EncodeToString(sum[:])
	maps.Copy(out.Annotations, map[string]string{
		disableOriginal: "", disableWait: "", createStrategy: "fallback-on-update-or-noop",
		OwnerAnnotation: o.Ref(), identityAnnotation: o.identityValue(k),
	})
	return out
}

// Owns says whether an object that exists is the owner's to remove: it says so
// itself, or kapp deployed it for the owner before repositories were named. An
// object that somebody copied, with another name, is not.
func (o Owner) Owns(existing Object) bool {
	ref, named := existing.GetAnnotations()[OwnerAnnotation]
	mine := named && ref == o.Ref() || !named && o.Label != "" && existing.GetLabels()[appLabel] == o.Label
	return mine && existing.GetAnnotations()[identityAnnotation] == o.identityValue(existing.Key)
}
