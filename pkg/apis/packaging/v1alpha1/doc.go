// Package v1alpha1 holds the types of API group packaging.carvel.dev/v1alpha1: the
// PackageRepository, which brings Packages into the cluster, and the PackageInstall,
// which installs one of them.
//
// +kubebuilder:object:generate=true
// +groupName=packaging.carvel.dev
package v1alpha1
