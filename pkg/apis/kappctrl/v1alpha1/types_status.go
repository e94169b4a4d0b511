package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AppStatus is the outcome of each stage of the latest reconcile. A stage that
// the latest reconcile did not reach keeps its earlier outcome.
type AppStatus struct {
	// Never set; kept for clients that read it.
	// +optional
	ManagedAppName string `json:"managedAppName,omitempty"`
	// Outcome of fetching.
	// +optional
	Fetch *AppStatusFetch `json:"fetch,omitempty"`
	// Outcome of templating: that of the last step that ran.
	// +optional
	Template *AppStatusTemplate `json:"template,omitempty"`
	// Outcome of deploying or deleting, also while it runs.
	// +optional
	Deploy *AppStatusDeploy `json:"deploy,omitempty"`
	// Outcome of inspecting, if asked for.
	// +optional
	Inspect *AppStatusInspect `json:"inspect,omitempty"`
	// Number of successful reconciles since the latest failure.
	// +optional
	ConsecutiveReconcileSuccesses int `json:"consecutiveReconcileSuccesses,omitempty"`
	// Number of failed reconciles since the latest success.
	// +optional
	ConsecutiveReconcileFailures int `json:"consecutiveReconcileFailures,omitempty"`

	GenericStatus `json:",inline"`
}

// GenericStatus is the outcome that every kind reports.
type GenericStatus struct {
	// Generation of the object that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration"`
	// At most one condition: what the object is doing or how it ended.
	// +optional
	Conditions []Condition `json:"conditions"`
	// The outcome in words, for people.
	// +optional
	FriendlyDescription string `json:"friendlyDescription"`
	// The error as the failing tool printed it, until the next success.
	// +optional
	UsefulErrorMessage string `json:"usefulErrorMessage,omitempty"`
}

// ConditionType is a kind of condition.
type ConditionType string

// The condition types. An object has at most one of them, always with status True.
const (
	Reconciling        ConditionType = "Reconciling"
	ReconcileFailed    ConditionType = "ReconcileFailed"
	ReconcileSucceeded ConditionType = "ReconcileSucceeded"
	Deleting           ConditionType = "Deleting"
	DeleteFailed       ConditionType = "DeleteFailed"
)

// Condition is a state of an object.
type Condition struct {
	// Reconciling, ReconcileSucceeded, ReconcileFailed, Deleting or DeleteFailed.
	Type ConditionType `json:"type"`
	// Always True.
	Status corev1.ConditionStatus `json:"status"`
	// Never set; kept for clients that read it.
	// +optional
	Reason string `json:"reason,omitempty"`
	// The error, for the two failed types.
	// +optional
	Message string `json:"message,omitempty"`
}

// AppStatusFetch is the outcome of fetching.
type AppStatusFetch struct {
	// What the tool printed to standard error.
	// +optional
	Stderr string `json:"stderr,omitempty"`
	// What the tool printed: the lock document with what was resolved.
	// +optional
	Stdout string `json:"stdout,omitempty"`
	// Exit code; 0 is success, -1 means there was none.
	// +optional
	ExitCode int `json:"exitCode"`
	// The error; empty on success.
	// +optional
	Error string `json:"error,omitempty"`
	// When fetching started.
	// +optional
	StartedAt metav1.Time `json:"startedAt,omitempty"`
	// When fetching ended.
	// +optional
	UpdatedAt metav1.Time `json:"updatedAt,omitempty"`
}

// AppStatusTemplate is the outcome of templating. What the steps print is
// deployed and not kept.
type AppStatusTemplate struct {
	// What the tool printed to standard error.
	// +optional
	Stderr string `json:"stderr,omitempty"`
	// Exit code; 0 is success, -1 means there was none.
	// +optional
	ExitCode int `json:"exitCode"`
	// The error; empty on success.
	// +optional
	Error string `json:"error,omitempty"`
	// When templating ended.
	// +optional
	UpdatedAt metav1.Time `json:"updatedAt,omitempty"`
}

// AppStatusDeploy is the outcome of deploying or deleting.
type AppStatusDeploy struct {
	// What kapp printed.
	// +optional
	Stdout string `json:"stdout,omitempty"`
	// What kapp printed to standard error.
	// +optional
	Stderr string `json:"stderr,omitempty"`
	// Whether it ended. While false, stdout still grows.
	// +optional
	Finished bool `json:"finished"`
	// Exit code; 0 is success or not yet known, -1 means there was none.
	// +optional
	ExitCode int `json:"exitCode"`
	// The error; empty on success.
	// +optional
	Error string `json:"error,omitempty"`
	// When it started.
	// +optional
	StartedAt metav1.Time `json:"startedAt,omitempty"`
	// When this part was last updated.
	// +optional
	UpdatedAt metav1.Time `json:"updatedAt,omitempty"`
	// What kapp recorded about the deployed objects.
	// +optional
	KappDeployStatus *KappDeployStatus `json:"kapp,omitempty"`
}

// KappDeployStatus is what kapp recorded.
type KappDeployStatus struct {
	// How to find the deployed objects.
	// +optional
	AssociatedResources AssociatedResources `json:"associatedResources,omitempty"`
}

// AssociatedResources is how to find the deployed objects.
type AssociatedResources struct {
	// Label selector that all deployed objects match.
	// +optional
	Label string `json:"label,omitempty"`
	// Namespaces they are in; (cluster) stands for cluster-scoped objects.
	// +optional
	Namespaces []string `json:"namespaces,omitempty"`
	// Their groups and kinds.
	// +optional
	GroupKinds []GroupKind `json:"groupKinds,omitempty"`
}

// GroupKind is a kind of objects in its API group.
type GroupKind struct {
	// API group; empty is the core group.
	Group string `json:"group"`
	// Kind, such as ConfigMap.
	Kind string `json:"kind"`
}

// AppStatusInspect is the outcome of inspecting.
type AppStatusInspect struct {
	// The table that kapp printed.
	// +optional
	Stdout string `json:"stdout,omitempty"`
	// What kapp printed to standard error.
	// +optional
	Stderr string `json:"stderr,omitempty"`
	// Exit code; 0 is success, -1 means there was none.
	// +optional
	ExitCode int `json:"exitCode"`
	// The error; empty on success.
	// +optional
	Error string `json:"error,omitempty"`
	// When inspecting ended.
	// +optional
	UpdatedAt metav1.Time `json:"updatedAt,omitempty"`
}
