package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kappctrlv1alpha1 "github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
)

// PackageRepository is a collection of Packages and PackageMetadatas that the
// controller fetches and offers in the cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=packagerepositories,singular=packagerepository,shortName=pkgr,categories=carvel
// +kubebuilder:metadata:annotations="packaging.carvel.dev/global-namespace=kapp-controller-packaging-global"
// +kubebuilder:printcolumn:name=Age,JSONPath=.metadata.creationTimestamp,description=Time since creation,type=date
// +kubebuilder:printcolumn:name=Description,JSONPath=.status.friendlyDescription,description=Outcome of the latest reconcile in words,type=string
type PackageRepository struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What to fetch, and when.
	Spec PackageRepositorySpec `json:"spec"`
	// What the controller saw and did. Written by the controller only.
	// +optional
	Status PackageRepositoryStatus `json:"status,omitempty"`
}

// PackageRepositoryList is a list of PackageRepositories.
//
// +kubebuilder:object:root=true
type PackageRepositoryList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	// The PackageRepositories, in no particular order.
	Items []PackageRepository `json:"items"`
}

// PackageRepositorySpec says what to fetch, and when.
type PackageRepositorySpec struct {
	// Stops reconciling until unset. Default false.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// Time between two reconciles, as a duration such as 1h or 10m. Default 10m,
	// minimum 30s.
	// +optional
	SyncPeriod *kappctrlv1alpha1.Duration `json:"syncPeriod,omitempty"`
	// The source.
	Fetch *PackageRepositoryFetch `json:"fetch"`
}

// PackageRepositoryFetch is a source. Exactly one member is set; with several the
// first in the order inline, image, http, git, imgpkgBundle counts.
type PackageRepositoryFetch struct {
	// A container image whose file system holds the repository.
	// +optional
	Image *kappctrlv1alpha1.AppFetchImage `json:"image,omitempty"`
	// A file or an archive from an HTTP server.
	// +optional
	HTTP *kappctrlv1alpha1.AppFetchHTTP `json:"http,omitempty"`
	// A git repository.
	// +optional
	Git *kappctrlv1alpha1.AppFetchGit `json:"git,omitempty"`
	// An imgpkg bundle from an OCI registry.
	// +optional
	ImgpkgBundle *kappctrlv1alpha1.AppFetchImgpkgBundle `json:"imgpkgBundle,omitempty"`
	// Files given in the PackageRepository itself, or in Secrets and ConfigMaps.
	// +optional
	Inline *kappctrlv1alpha1.AppFetchInline `json:"inline,omitempty"`
}

// PackageRepositoryStatus is the outcome of each stage of the latest reconcile.
type PackageRepositoryStatus struct {
	// Outcome of fetching.
	// +optional
	Fetch *kappctrlv1alpha1.AppStatusFetch `json:"fetch,omitempty"`
	// Outcome of templating.
	// +optional
	Template *kappctrlv1alpha1.AppStatusTemplate `json:"template,omitempty"`
	// Outcome of offering the Packages, or of withdrawing them.
	// +optional
	Deploy *kappctrlv1alpha1.AppStatusDeploy `json:"deploy,omitempty"`
	// Number of successful reconciles since the latest failure.
	// +optional
	ConsecutiveReconcileSuccesses int `json:"consecutiveReconcileSuccesses,omitempty"`
	// Number of failed reconciles since the latest success.
	// +optional
	ConsecutiveReconcileFailures int `json:"consecutiveReconcileFailures,omitempty"`
	// What the latest reconcile did not offer because another PackageRepository
	// offers it with other content. Everything else is offered. The first 100.
	// +optional
	Conflicts []PackageConflict `json:"conflicts,omitempty"`

	kappctrlv1alpha1.GenericStatus `json:",inline"`
}

// PackageConflict is a Package or PackageMetadata that two PackageRepositories of a
// namespace offer with different content, neither with the higher value of the
// annotation packaging.carvel.dev/revision.
type PackageConflict struct {
	// Package or PackageMetadata.
	Kind string `json:"kind"`
	// Name of it.
	Name string `json:"name"`
	// PackageRepository that offers it, as namespace and name with a slash between.
	// +optional
	Repository string `json:"repository,omitempty"`
	// What differs, such as spec.template, or what is wrong with a revision.
	// +optional
	Reason string `json:"reason,omitempty"`
}
