package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// SchemeGroupVersion is the group and version of every type in this package.
var SchemeGroupVersion = schema.GroupVersion{Group: "internal.packaging.carvel.dev", Version: "v1alpha1"}

// AddToScheme makes the types of this package known to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion,
		&InternalPackage{}, &InternalPackageList{}, &InternalPackageMetadata{}, &InternalPackageMetadataList{})
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
	return nil
}
