// Package v1alpha1 holds the types of API group kappctrl.k14s.io/v1alpha1: the
// App, which names sources, the steps that turn them into Kubernetes objects,
// and how those objects are deployed.
//
// Names, JSON fields, required lists and printer columns are those that existing
// kapp-controller clients know; a field that Garboard adds is optional and says so.
//
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=dev.carvel.kappctrl.v1alpha1
// +kubebuilder:object:generate=true
// +groupName=kappctrl.k14s.io
package v1alpha1
