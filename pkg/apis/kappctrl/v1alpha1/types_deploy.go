package v1alpha1

// AppDeploy is how to deploy; kapp is the one way.
type AppDeploy struct {
	// Deploys with kapp.
	// +optional
	Kapp *AppDeployKapp `json:"kapp,omitempty"`
}

// AppDeployKapp is how to use kapp.
type AppDeployKapp struct {
	// Namespace that every object is moved into. Default: none is moved.
	// +optional
	IntoNs string `json:"intoNs,omitempty"`
	// Namespaces to replace, each as old=new.
	// +optional
	MapNs []string `json:"mapNs,omitempty"`
	// Options for kapp deploy, each as --name=value.
	// +optional
	RawOptions []string `json:"rawOptions,omitempty"`
	// Runs kapp inspect after each deploy, if present.
	// +optional
	Inspect *AppDeployKappInspect `json:"inspect,omitempty"`
	// How to delete.
	// +optional
	Delete *AppDeployKappDelete `json:"delete,omitempty"`
}

// AppDeployKappInspect is how to inspect.
type AppDeployKappInspect struct {
	// Options for kapp inspect, each as --name=value.
	// +optional
	RawOptions []string `json:"rawOptions,omitempty"`
}

// AppDeployKappDelete is how to delete.
type AppDeployKappDelete struct {
	// Options for kapp delete, each as --name=value.
	// +optional
	RawOptions []string `json:"rawOptions,omitempty"`
}
