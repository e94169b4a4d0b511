package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	datapackagingv1alpha1 "github.com/garboard-dev/garboard/pkg/apis/datapackaging/v1alpha1"
)

// InternalPackage is a Package as it is stored.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=internalpackages,singular=internalpackage
type InternalPackage struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec of the Package.
	Spec datapackagingv1alpha1.PackageSpec `json:"spec"`
}

// InternalPackageList is a list of InternalPackages.
//
// +kubebuilder:object:root=true
type InternalPackageList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	// The InternalPackages, in no particular order.
	Items []InternalPackage `json:"items"`
}

// InternalPackageMetadata is a PackageMetadata as it is stored.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=internalpackagemetadatas,singular=internalpackagemetadata
type InternalPackageMetadata struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec of the PackageMetadata.
	Spec datapackagingv1alpha1.PackageMetadataSpec `json:"spec"`
}

// InternalPackageMetadataList is a list of InternalPackageMetadatas.
//
// +kubebuilder:object:root=true
type InternalPackageMetadataList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	// The InternalPackageMetadatas, in no particular order.
	Items []InternalPackageMetadata `json:"items"`
}
