// Package v1alpha1 holds the types of API group data.packaging.carvel.dev/v1alpha1:
// the Package, one version of something to install, and the PackageMetadata, which
// describes all versions of it.
//
// No CRD belongs to these kinds: an aggregated API serves them. What it stores are
// the kinds of group internal.packaging.carvel.dev, which embed the specs below.
//
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=dev.carvel.packaging.data.v1alpha1
// +kubebuilder:object:generate=true
// +groupName=data.packaging.carvel.dev
package v1alpha1
