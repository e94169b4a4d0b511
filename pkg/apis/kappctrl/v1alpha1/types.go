package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// App is a set of Kubernetes objects that the controller fetches, templates and
// deploys as one, and keeps as its sources say.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=apps,singular=app,categories=carvel
// +kubebuilder:printcolumn:name=Description,JSONPath=.status.friendlyDescription,description=Outcome of the latest reconcile in words,type=string
// +kubebuilder:printcolumn:name=Since-Deploy,JSONPath=.status.deploy.startedAt,description=Time since the latest deploy started,type=date
// +kubebuilder:printcolumn:name=Age,JSONPath=.metadata.creationTimestamp,description=Time since creation,type=date
type App struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What to fetch, how to template it and where to deploy it.
	Spec AppSpec `json:"spec"`
	// What the controller saw and did. Written by the controller only.
	// +optional
	Status AppStatus `json:"status,omitempty"`
}

// AppList is a list of Apps.
//
// +kubebuilder:object:root=true
type AppList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	// The Apps, in no particular order.
	Items []App `json:"items"`
}

// AppSpec says what an App consists of.
type AppSpec struct {
	// Service account, in the App's namespace, that deploys. One of
	// serviceAccountName and cluster is needed; the service account wins.
	// +optional
	ServiceAccountName string `json:"serviceAccountName,omitempty" protobuf:"1"`
	// Another cluster to deploy to, reached through a kubeconfig.
	// +optional
	Cluster *AppCluster `json:"cluster,omitempty" protobuf:"2"`
	// Sources, at least one. Each is fetched into a folder of its own, named by
	// its path or by its index.
	// +optional
	Fetch []AppFetch `json:"fetch,omitempty" protobuf:"3"`
	// Steps, at least one, run in order; what one prints is the next one's input.
	// +optional
	Template []AppTemplate `json:"template,omitempty" protobuf:"4"`
	// How to deploy, exactly one entry.
	// +optional
	Deploy []AppDeploy `json:"deploy,omitempty" protobuf:"5"`
	// Stops reconciling until unset. Deletion still works. Default false.
	// +optional
	Paused bool `json:"paused,omitempty" protobuf:"6"`
	// Like paused, and also ends what is running now. Default false.
	// +optional
	Canceled bool `json:"canceled,omitempty" protobuf:"7"`
	// Time between two reconciles, as a duration such as 1h or 10m. Default and
	// minimum 30s.
	// +optional
	SyncPeriod *Duration `json:"syncPeriod,omitempty" protobuf:"8"`
	// On deletion removes only the App and leaves what it deployed. Default false.
	// +optional
	NoopDelete bool `json:"noopDelete,omitempty" protobuf:"9"`
	// Namespace for namespaced objects that name none. Default: the App's
	// namespace with a service account, else the kubeconfig's.
	// +optional
	DefaultNamespace string `json:"defaultNamespace,omitempty" protobuf:"10"`
}

// AppCluster is another cluster to deploy to.
type AppCluster struct {
	// Namespace, in that cluster, which holds the deploy's records. Default:
	// that of the kubeconfig's current context.
	// +optional
	Namespace string `json:"namespace,omitempty" protobuf:"1"`
	// Secret, in the App's namespace, that holds the kubeconfig.
	// +optional
	KubeconfigSecretRef *AppClusterKubeconfigSecretRef `json:"kubeconfigSecretRef,omitempty" protobuf:"2"`
}

// AppClusterKubeconfigSecretRef is a key of a Secret that holds a kubeconfig.
type AppClusterKubeconfigSecretRef struct {
	// Name of the Secret.
	// +optional
	Name string `json:"name,omitempty" protobuf:"1"`
	// Key in the Secret. Default: the key named value.
	// +optional
	Key string `json:"key,omitempty" protobuf:"2"`
}
