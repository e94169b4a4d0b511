// Package v1alpha1 holds the types of API group internal.packaging.carvel.dev/v1alpha1:
// InternalPackage and InternalPackageMetadata, the form in which the aggregated API
// stores Packages and PackageMetadatas. Nobody but that API should write them.
//
// +kubebuilder:object:generate=true
// +groupName=internal.packaging.carvel.dev
package v1alpha1
