package v1alpha1

// AppTemplate is one step. Exactly one member is set; with several the first in
// the order ytt, kbld, helmTemplate, kustomize, jsonnet, sops, cue counts.
type AppTemplate struct {
	// Renders ytt templates and overlays.
	// +optional
	Ytt *AppTemplateYtt `json:"ytt,omitempty" protobuf:"1"`
	// Resolves image tags to digests.
	// +optional
	Kbld *AppTemplateKbld `json:"kbld,omitempty" protobuf:"2"`
	// Renders a Helm chart.
	// +optional
	HelmTemplate *AppTemplateHelmTemplate `json:"helmTemplate,omitempty" protobuf:"3"`
	// Builds a kustomization.
	// +optional
	Kustomize *AppTemplateKustomize `json:"kustomize,omitempty" protobuf:"4"`
	// Evaluates a Jsonnet program.
	// +optional
	Jsonnet *AppTemplateJsonnet `json:"jsonnet,omitempty" protobuf:"5"`
	// Decrypts files that sops encrypted, in place.
	// +optional
	Sops *AppTemplateSops `json:"sops,omitempty" protobuf:"6"`
	// Exports CUE packages.
	// +optional
	Cue *AppTemplateCue `json:"cue,omitempty" protobuf:"7"`
}

// AppTemplateYtt runs ytt.
type AppTemplateYtt struct {
	// Accepts comments that look like ytt's but are not. Default false.
	// +optional
	IgnoreUnknownComments bool `json:"ignoreUnknownComments,omitempty" protobuf:"1"`
	// Rejects YAML whose types are ambiguous, as ytt --strict. Default false.
	// +optional
	Strict bool `json:"strict,omitempty" protobuf:"2"`
	// More files, such as overlays.
	// +optional
	Inline *AppFetchInline `json:"inline,omitempty" protobuf:"3"`
	// Files and folders inside the fetched root; - is the output of the step
	// before. Default: that output, else the whole root.
	// +optional
	Paths []string `json:"paths,omitempty" protobuf:"4"`
	// How to treat certain files, as ytt --file-mark.
	// +optional
	FileMarks []string `json:"fileMarks,omitempty" protobuf:"5"`
	// Data values, in order; a later one wins.
	// +optional
	ValuesFrom []AppTemplateValuesSource `json:"valuesFrom,omitempty" protobuf:"6"`
}

// AppTemplateKbld runs kbld, without building images.
type AppTemplateKbld struct {
	// Files and folders inside the fetched root; - is the output of the step
	// before. Default: that output, else the whole root.
	// +optional
	Paths []string `json:"paths,omitempty" protobuf:"1"`
}

// AppTemplateHelmTemplate runs helm template.
type AppTemplateHelmTemplate struct {
	// Release name. Default: the App's name.
	// +optional
	Name string `json:"name,omitempty" protobuf:"1"`
	// Release namespace. Default: the App's namespace.
	// +optional
	Namespace string `json:"namespace,omitempty" protobuf:"2"`
	// Folder of the chart inside the fetched root. Default: the root.
	// +optional
	Path string `json:"path,omitempty" protobuf:"3"`
	// Values, in order; a later one wins.
	// +optional
	ValuesFrom []AppTemplateValuesSource `json:"valuesFrom,omitempty" protobuf:"4"`
	// Kubernetes version that the chart sees.
	// +optional
	KubernetesVersion *Version `json:"kubernetesVersion,omitempty" protobuf:"5"`
	// API versions that the chart sees.
	// +optional
	KubernetesAPIs *KubernetesAPIs `json:"kubernetesAPIs,omitempty" protobuf:"6"`
}

// AppTemplateKustomize runs kustomize build. The fields are Garboard's own:
// kapp-controller accepts only an empty object and rejects it when it runs.
type AppTemplateKustomize struct {
	// Folder inside the fetched root that holds the kustomization. Default: the root.
	// +optional
	Path string `json:"path,omitempty" protobuf:"101"`
}

// AppTemplateJsonnet runs jsonnet. The fields are Garboard's own: kapp-controller
// accepts only an empty object and rejects it when it runs.
type AppTemplateJsonnet struct {
	// File inside the fetched root to evaluate, to one object or an array of
	// objects. Default main.jsonnet.
	// +optional
	Path string `json:"path,omitempty" protobuf:"101"`
	// Folders inside the fetched root to search for imports, in order.
	// +optional
	LibraryPaths []string `json:"libraryPaths,omitempty" protobuf:"102"`
	// Values, in order, merged into std.extVar("values"); a later one wins.
	// +optional
	ValuesFrom []AppTemplateValuesSource `json:"valuesFrom,omitempty" protobuf:"103"`
}

// AppTemplateSops decrypts files whose names end in .sops.yml or .sops.yaml; one
// of pgp and age is needed.
type AppTemplateSops struct {
	// Private keys for PGP.
	// +optional
	PGP *AppTemplateSopsPGP `json:"pgp,omitempty" protobuf:"1"`
	// Files and folders inside the fetched root. Default: the whole root.
	// +optional
	Paths []string `json:"paths,omitempty" protobuf:"2"`
	// Private keys for age.
	// +optional
	Age *AppTemplateSopsAge `json:"age,omitempty" protobuf:"3"`
}

// AppTemplateSopsPGP names PGP keys.
type AppTemplateSopsPGP struct {
	// Secret in the App's namespace; each key of it is an armored private key.
	// +optional
	PrivateKeysSecretRef *AppTemplateSopsPrivateKeysSecretRef `json:"privateKeysSecretRef,omitempty" protobuf:"1"`
}

// AppTemplateSopsAge names age keys.
type AppTemplateSopsAge struct {
	// Secret in the App's namespace; each key of it holds age private keys.
	// +optional
	PrivateKeysSecretRef *AppTemplateSopsPrivateKeysSecretRef `json:"privateKeysSecretRef,omitempty" protobuf:"1"`
}

// AppTemplateSopsPrivateKeysSecretRef names a Secret that holds private keys.
type AppTemplateSopsPrivateKeysSecretRef struct {
	// Name of the Secret.
	// +optional
	Name string `json:"name,omitempty" protobuf:"1"`
}

// AppTemplateCue runs cue export.
type AppTemplateCue struct {
	// Files and packages inside the fetched root. Default: the package in the root.
	// +optional
	Paths []string `json:"paths,omitempty" protobuf:"1"`
	// Values, in order.
	// +optional
	ValuesFrom []AppTemplateValuesSource `json:"valuesFrom,omitempty" protobuf:"2"`
	// Expression under which values are placed, as cue export --path.
	// +optional
	InputExpression string `json:"inputExpression,omitempty" protobuf:"3"`
	// Expression to export, as cue export --expression. Default: everything.
	// +optional
	OutputExpression string `json:"outputExpression,omitempty" protobuf:"4"`
}

// AppTemplateValuesSource is one source of values; exactly one member is set.
type AppTemplateValuesSource struct {
	// A Secret in the App's namespace; each key is a values file.
	// +optional
	SecretRef *AppTemplateValuesSourceRef `json:"secretRef,omitempty" protobuf:"1"`
	// A ConfigMap in the App's namespace; each key is a values file.
	// +optional
	ConfigMapRef *AppTemplateValuesSourceRef `json:"configMapRef,omitempty" protobuf:"2"`
	// A file or folder inside the fetched root; - is the output of the step before.
	// +optional
	Path string `json:"path,omitempty" protobuf:"3"`
	// Facts about the App and the cluster.
	// +optional
	DownwardAPI *AppTemplateValuesDownwardAPI `json:"downwardAPI,omitempty" protobuf:"4"`
}

// AppTemplateValuesSourceRef names a Secret or a ConfigMap.
type AppTemplateValuesSourceRef struct {
	// Name of the object.
	// +optional
	Name string `json:"name,omitempty" protobuf:"1"`
}

// AppTemplateValuesDownwardAPI is a list of facts.
type AppTemplateValuesDownwardAPI struct {
	// The facts, each a values file of its own.
	// +optional
	Items []AppTemplateValuesDownwardAPIItem `json:"items,omitempty" protobuf:"1"`
}

// AppTemplateValuesDownwardAPIItem is one fact; one member besides name is set.
type AppTemplateValuesDownwardAPIItem struct {
	// Key of the value; dots nest, a backslash takes the next character as it is.
	// +optional
	Name string `json:"name,omitempty" protobuf:"1"`
	// Path into the App's metadata: name, namespace, uid, labels or annotations.
	// +optional
	FieldPath string `json:"fieldPath,omitempty" protobuf:"2"`
	// Version of the cluster that is deployed to, or the version given.
	// +optional
	KubernetesVersion *Version `json:"kubernetesVersion,omitempty" protobuf:"3"`
	// Version of the controller, or the version given.
	// +optional
	KappControllerVersion *Version `json:"kappControllerVersion,omitempty" protobuf:"4"`
	// API versions that the cluster serves, or those given.
	// +optional
	KubernetesAPIs *KubernetesAPIs `json:"kubernetesAPIs,omitempty" protobuf:"5"`
}

// Version is a version; empty asks for the one in use.
type Version struct {
	// The version, such as 1.30.0. Default: the one in use.
	// +optional
	Version string `json:"version,omitempty" protobuf:"1"`
}

// KubernetesAPIs is a list of API versions; empty asks for those that are served.
type KubernetesAPIs struct {
	// API versions, such as apps/v1. Default: those that the cluster serves.
	// +optional
	GroupVersions []string `json:"groupVersions,omitempty" protobuf:"1"`
}
