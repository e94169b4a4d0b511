package packages

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	data "github.com/garboard-dev/garboard/pkg/apis/datapackaging/v1alpha1"
)

// ExcludeGlobalAnnotation on a Namespace, with any value, hides global packages there.
const ExcludeGlobalAnnotation = "kapp-controller.carvel.dev/exclude-global-packages"

// Object is a *Package or a *PackageMetadata.
type Object interface {
	*data.Package | *data.PackageMetadata
	metav1.Object
}

// SeesGlobal says whether the Namespace ns shows what is in the global namespace; ""
// means that there is none. A namespace that terminates does not: it would never
// look empty.
func SeesGlobal(ns metav1.Object, global string) bool {
	_, excluded := ns.GetAnnotations()[ExcludeGlobalAnnotation]
	return global != "" && ns.GetName() != global && !excluded && ns.GetDeletionTimestamp() == nil
}

// Key tells which objects of one namespace take each other's place.
func Key[T Object](obj T) string {
	if p, ok := any(obj).(*data.Package); ok {
		return p.Spec.RefName + "." + p.Spec.Version
	}
	return obj.GetName()
}

// Merge returns what a namespace sees: the global objects, each replaced by the
// local one with the same key if there is one, and then all other local ones.
// Namespaces are the caller's to set. It changes neither list.
func Merge[T Object](global, local []T) []T {
	own := make(map[string]int, len(local))
	for i, obj := range local {
		own[Key(obj)] = i
	}
	out := make([]T, 0, len(global)+len(local))
	placed := make([]bool, len(local))
	for _, obj := range global {
		i, ok := own[Key(obj)]
		switch {
		case !ok:
			out = append(out, obj)
		case !placed[i]:
			out, placed[i] = append(out, local[i]), true
		}
	}
	for i, obj := range local {
		if !placed[i] {
			out = append(out, obj)
		}
	}
	return out
}

// Fields returns what field selectors can select by: metadata.name,
// metadata.namespace and, for Packages, spec.refName.
func Fields[T Object](obj T) fields.Set {
	set := fields.Set{"metadata.name": obj.GetName(), "metadata.namespace": obj.GetNamespace()}
	if p, ok := any(obj).(*data.Package); ok {
		set["spec.refName"] = p.Spec.RefName
	}
	return set
}

// Matches says whether the field selector, nil for all, selects the object.
func Matches[T Object](selector fields.Selector, obj T) bool {
	return selector == nil || selector.Empty() || selector.Matches(Fields(obj))
}
