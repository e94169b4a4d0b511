package packages

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	data "github.com/garboard-dev/garboard/pkg/apis/datapackaging/v1alpha1"
	stored "github.com/garboard-dev/garboard/pkg/apis/internalpackaging/v1alpha1"
)

// LoadPackage returns what is stored as a Package in the namespace that it is read
// through; "" keeps its own. The result shares nothing with in. It fails if no
// Package can have that stored name.
func LoadPackage(in *stored.InternalPackage, namespace string) (*data.Package, error) {
	name, err := DecodeName(in.Name)
	if err != nil {
		return nil, err
	}
	out := &data.Package{ObjectMeta: meta(&in.ObjectMeta, namespace, stored.SchemeGroupVersion.String(), data.SchemeGroupVersion.String())}
	out.Name = name
	in.Spec.DeepCopyInto(&out.Spec)
	return out, nil
}

// StorePackage returns the Package in the form in which it is stored in the
// namespace; "" keeps its own. The result shares nothing with in.
func StorePackage(in *data.Package, namespace string) *stored.InternalPackage {
	out := &stored.InternalPackage{ObjectMeta: meta(&in.ObjectMeta, namespace, data.SchemeGroupVersion.String(), stored.SchemeGroupVersion.String())}
	out.Name = EncodeName(in.Name)
	in.Spec.DeepCopyInto(&out.Spec)
	return out
}

// LoadMetadata is LoadPackage for PackageMetadatas, whose names are stored as they are.
func LoadMetadata(in *stored.InternalPackageMetadata, namespace string) (*data.PackageMetadata, error) {
	out := &data.PackageMetadata{ObjectMeta: meta(&in.ObjectMeta, namespace, stored.SchemeGroupVersion.String(), data.SchemeGroupVersion.String())}
	in.Spec.DeepCopyInto(&out.Spec)
	return out, nil
}

// StoreMetadata is StorePackage for PackageMetadatas.
func StoreMetadata(in *data.PackageMetadata, namespace string) *stored.InternalPackageMetadata {
	out := &stored.InternalPackageMetadata{ObjectMeta: meta(&in.ObjectMeta, namespace, data.SchemeGroupVersion.String(), stored.SchemeGroupVersion.String())}
	in.Spec.DeepCopyInto(&out.Spec)
	return out
}

// meta copies metadata. Who manages which field is said in terms of a version,
// which changes from one to the other.
func meta(in *metav1.ObjectMeta, namespace, from, to string) metav1.ObjectMeta {
	out := *in.DeepCopy()
	if namespace != "" {
		out.Namespace = namespace
	}
	for i := range out.ManagedFields {
		if out.ManagedFields[i].APIVersion == from {
			out.ManagedFields[i].APIVersion = to
		}
	}
	return out
}
