package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kappctrlv1alpha1 "github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
)

// PackageInstall installs a version of a Package and keeps it installed.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=packageinstalls,singular=packageinstall,shortName=pkgi,categories=carvel
// +kubebuilder:printcolumn:name=Package name,JSONPath=.spec.packageRef.refName,description=Name of the package,type=string
// +kubebuilder:printcolumn:name=Package version,JSONPath=.status.version,description=Version that is installed,type=string
// +kubebuilder:printcolumn:name=Description,JSONPath=.status.friendlyDescription,description=Outcome of the latest reconcile in words,type=string
// +kubebuilder:printcolumn:name=Age,JSONPath=.metadata.creationTimestamp,description=Time since creation,type=date
type PackageInstall struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What to install.
	Spec PackageInstallSpec `json:"spec"`
	// What the controller saw and did. Written by the controller only.
	// +optional
	Status PackageInstallStatus `json:"status,omitempty"`
}

// PackageInstallList is a list of PackageInstalls.
//
// +kubebuilder:object:root=true
type PackageInstallList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	// The PackageInstalls, in no particular order.
	Items []PackageInstall `json:"items"`
}

// PackageInstallSpec says what to install.
type PackageInstallSpec struct {
	// Service account, in this namespace, that deploys. One of serviceAccountName
	// and cluster is needed; the service account wins.
	// +optional
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
	// Another cluster to install to, reached through a kubeconfig.
	// +optional
	Cluster *kappctrlv1alpha1.AppCluster `json:"cluster,omitempty"`
	// The Package and the versions of it that may be installed.
	// +optional
	PackageRef *PackageRef `json:"packageRef,omitempty"`
	// Values for the Package, in order; a later one wins.
	// +optional
	Values []PackageInstallValues `json:"values,omitempty"`
	// Stops reconciling until unset, here and for the App. Default false.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// Like paused, and also ends what is running now. Default false.
	// +optional
	Canceled bool `json:"canceled,omitempty"`
	// Time between two reconciles, as a duration such as 1h or 10m. Default 10m,
	// minimum 30s.
	// +optional
	SyncPeriod *kappctrlv1alpha1.Duration `json:"syncPeriod,omitempty"`
	// On deletion removes only the PackageInstall and its App and leaves what they
	// deployed. Default false.
	// +optional
	NoopDelete bool `json:"noopDelete,omitempty"`
	// Namespace for namespaced objects that name none. Default: this namespace
	// with a service account, else the kubeconfig's.
	// +optional
	DefaultNamespace string `json:"defaultNamespace,omitempty"`
}

// PackageRef names a Package.
type PackageRef struct {
	// Name of the PackageMetadata, such as web.shop.example.com.
	// +optional
	RefName string `json:"refName,omitempty"`
	// Chooses the highest version that fits.
	// +optional
	VersionSelection *kappctrlv1alpha1.VersionSelectionSemver `json:"versionSelection,omitempty"`
}

// PackageInstallValues is one source of values.
type PackageInstallValues struct {
	// A Secret in this namespace; each key is a values file.
	// +optional
	SecretRef *PackageInstallValuesSecretRef `json:"secretRef,omitempty"`
}

// PackageInstallValuesSecretRef names a Secret.
type PackageInstallValuesSecretRef struct {
	// Name of the Secret.
	// +optional
	Name string `json:"name,omitempty"`
	// Not used: every key of the Secret is a values file. Kept for clients that
	// write it.
	// +optional
	Key string `json:"key,omitempty"`
}

// PackageInstallStatus is the outcome of the latest reconcile.
type PackageInstallStatus struct {
	kappctrlv1alpha1.GenericStatus `json:",inline"`

	// Version that is chosen now.
	// +optional
	Version string `json:"version,omitempty"`
	// Version that the App was last told to deploy.
	// +optional
	LastAttemptedVersion string `json:"lastAttemptedVersion,omitempty"`
	// What is not an error but looks wrong, such as values that do not fit the
	// Package's schema. The field is Garboard's own.
	// +optional
	Warnings []string `json:"warnings,omitempty"`
}
