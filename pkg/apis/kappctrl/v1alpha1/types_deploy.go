package v1alpha1

// AppDeploy is how to deploy; kapp is the one way.
type AppDeploy struct {
	// Deploys with kapp.
	// +optional
	Kapp *AppDeployKapp `json:"kapp,omitempty" protobuf:"1"`
}

// AppDeployKapp is how to use kapp.
type AppDeployKapp struct {
	// Namespace that every object is moved into. Default: none is moved.
	// +optional
	IntoNs string `json:"intoNs,omitempty" protobuf:"1"`
	// Namespaces to replace, each as old=new.
	// +optional
	MapNs []string `json:"mapNs,omitempty" protobuf:"2"`
	// Options for kapp deploy, each as --name=value.
	// +optional
	RawOptions []string `json:"rawOptions,omitempty" protobuf:"3"`
	// Runs kapp inspect after each deploy, if present.
	// +optional
	Inspect *AppDeployKappInspect `json:"inspect,omitempty" protobuf:"4"`
	// How to delete.
	// +optional
	Delete *AppDeployKappDelete `json:"delete,omitempty" protobuf:"5"`
}

// AppDeployKappInspect is how to inspect.
type AppDeployKappInspect struct {
	// Options for kapp inspect, each as --name=value.
	// +optional
	RawOptions []string `json:"rawOptions,omitempty" protobuf:"1"`
}

// AppDeployKappDelete is how to delete.
type AppDeployKappDelete struct {
	// Options for kapp delete, each as --name=value.
	// +optional
	RawOptions []string `json:"rawOptions,omitempty" protobuf:"1"`
}
