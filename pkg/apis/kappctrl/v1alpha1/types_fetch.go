package v1alpha1

// AppFetch is one source. Exactly one member is set besides path; with several
// the first in the order inline, image, http, git, helmChart, imgpkgBundle counts.
type AppFetch struct {
	// Files given in the App itself, or in Secrets and ConfigMaps.
	// +optional
	Inline *AppFetchInline `json:"inline,omitempty" protobuf:"1"`
	// A container image whose file system holds the files.
	// +optional
	Image *AppFetchImage `json:"image,omitempty" protobuf:"2"`
	// A file or an archive from an HTTP server.
	// +optional
	HTTP *AppFetchHTTP `json:"http,omitempty" protobuf:"3"`
	// A git repository.
	// +optional
	Git *AppFetchGit `json:"git,omitempty" protobuf:"4"`
	// A Helm chart from a repository.
	// +optional
	HelmChart *AppFetchHelmChart `json:"helmChart,omitempty" protobuf:"5"`
	// An imgpkg bundle from an OCI registry.
	// +optional
	ImgpkgBundle *AppFetchImgpkgBundle `json:"imgpkgBundle,omitempty" protobuf:"6"`
	// Folder that the source is fetched into, relative and inside the fetched
	// root. Default: the index of the source, such as 0.
	// +optional
	Path string `json:"path,omitempty" protobuf:"7"`
}

// AppFetchInline is a set of files. pathsFrom comes after paths, in its order.
type AppFetchInline struct {
	// Content by relative file path.
	// +optional
	Paths map[string]string `json:"paths,omitempty" protobuf:"1"`
	// Secrets and ConfigMaps, each key of which becomes a file.
	// +optional
	PathsFrom []AppFetchInlineSource `json:"pathsFrom,omitempty" protobuf:"2"`
}

// AppFetchInlineSource is a Secret or a ConfigMap, one of them.
type AppFetchInlineSource struct {
	// A Secret in the App's namespace.
	// +optional
	SecretRef *AppFetchInlineSourceRef `json:"secretRef,omitempty" protobuf:"1"`
	// A ConfigMap in the App's namespace.
	// +optional
	ConfigMapRef *AppFetchInlineSourceRef `json:"configMapRef,omitempty" protobuf:"2"`
}

// AppFetchInlineSourceRef names an object and the folder for its files.
type AppFetchInlineSourceRef struct {
	// Folder for the files, relative. Default: the root of the inline files.
	// +optional
	DirectoryPath string `json:"directoryPath,omitempty" protobuf:"2"`
	// Name of the Secret or ConfigMap.
	// +optional
	Name string `json:"name,omitempty" protobuf:"1"`
}

// AppFetchImage is a container image.
type AppFetchImage struct {
	// Image reference, such as registry.example.com/repo:tag or with @sha256:.
	// Without a tag and with tagSelection, the repository.
	// +optional
	URL string `json:"url,omitempty" protobuf:"1"`
	// Secret with registry credentials. Default: anonymous.
	// +optional
	SecretRef *AppFetchLocalRef `json:"secretRef,omitempty" protobuf:"2"`
	// Folder inside the image to use as the root. Default: all of it.
	// +optional
	SubPath string `json:"subPath,omitempty" protobuf:"3"`
	// Chooses the highest tag that fits, instead of a tag in url.
	// +optional
	TagSelection *VersionSelection `json:"tagSelection,omitempty" protobuf:"4"`
}

// AppFetchHTTP is a file or an archive (tar, tar.gz, zip), which is unpacked.
type AppFetchHTTP struct {
	// Address, http or https.
	// +optional
	URL string `json:"url,omitempty" protobuf:"1"`
	// Expected SHA-256 of the content, in hexadecimal. Default: not checked.
	// +optional
	SHA256 string `json:"sha256,omitempty" protobuf:"2"`
	// Secret with username and password for basic authentication.
	// +optional
	SecretRef *AppFetchLocalRef `json:"secretRef,omitempty" protobuf:"3"`
	// Folder inside the archive to use as the root. Default: all of it.
	// +optional
	SubPath string `json:"subPath,omitempty" protobuf:"4"`
}

// AppFetchGit is a git repository at one commit.
type AppFetchGit struct {
	// Address: http, https or ssh, or the short form git@host:path.
	// +optional
	URL string `json:"url,omitempty" protobuf:"1"`
	// Branch (origin/main), tag or commit. One of ref and refSelection is needed;
	// ref wins.
	// +optional
	Ref string `json:"ref,omitempty" protobuf:"2"`
	// Chooses the highest tag that fits.
	// +optional
	RefSelection *VersionSelection `json:"refSelection,omitempty" protobuf:"6"`
	// Secret with ssh-privatekey and ssh-knownhosts, or username and password.
	// +optional
	SecretRef *AppFetchLocalRef `json:"secretRef,omitempty" protobuf:"3"`
	// Folder inside the repository to use as the root. Default: all of it.
	// +optional
	SubPath string `json:"subPath,omitempty" protobuf:"4"`
	// Does not download large files that git-lfs stores. Default false.
	// +optional
	LFSSkipSmudge bool `json:"lfsSkipSmudge,omitempty" protobuf:"5"`
	// Sends username and password with the first request instead of waiting for
	// the server to ask for them. Default false.
	// +optional
	ForceHTTPBasicAuth bool `json:"forceHTTPBasicAuth,omitempty" protobuf:"7"`
	// Number of commits to fetch, 0 for all. Default 1.
	// +optional
	Depth *int64 `json:"depth,omitempty" protobuf:"8"`
}

// AppFetchHelmChart is a Helm chart.
type AppFetchHelmChart struct {
	// Name of the chart, or its oci:// address when there is no repository.
	// +optional
	Name string `json:"name,omitempty" protobuf:"1"`
	// Version of the chart. Default: the latest.
	// +optional
	Version string `json:"version,omitempty" protobuf:"2"`
	// Repository that holds the chart.
	// +optional
	Repository *AppFetchHelmChartRepo `json:"repository,omitempty" protobuf:"3"`
}

// AppFetchHelmChartRepo is a repository of Helm charts.
type AppFetchHelmChartRepo struct {
	// Address: http, https or oci.
	// +optional
	URL string `json:"url,omitempty" protobuf:"1"`
	// Secret with username and password, or registry credentials for oci.
	// +optional
	SecretRef *AppFetchLocalRef `json:"secretRef,omitempty" protobuf:"2"`
}

// AppFetchLocalRef names a Secret in the App's namespace.
type AppFetchLocalRef struct {
	// Name of the Secret.
	// +optional
	Name string `json:"name,omitempty" protobuf:"1"`
}

// AppFetchImgpkgBundle is an imgpkg bundle.
type AppFetchImgpkgBundle struct {
	// Bundle reference, such as registry.example.com/repo:tag or with @sha256:.
	// Without a tag and with tagSelection, the repository.
	// +optional
	Image string `json:"image,omitempty" protobuf:"1"`
	// Secret with registry credentials. Default: anonymous.
	// +optional
	SecretRef *AppFetchLocalRef `json:"secretRef,omitempty" protobuf:"2"`
	// Chooses the highest tag that fits, instead of a tag in image.
	// +optional
	TagSelection *VersionSelection `json:"tagSelection,omitempty" protobuf:"3"`
}

// VersionSelection chooses one of many versions.
type VersionSelection struct {
	// Chooses by semantic version; the highest that fits wins.
	// +optional
	Semver *VersionSelectionSemver `json:"semver,omitempty" protobuf:"1"`
}

// VersionSelectionSemver chooses by semantic version.
type VersionSelectionSemver struct {
	// Range such as ">=1.0.0 <2.0.0". Default: every version.
	// +optional
	Constraints string `json:"constraints,omitempty" protobuf:"1"`
	// Lets pre-releases take part; {} means all of them. Default: none.
	// +optional
	Prereleases *VersionSelectionSemverPrereleases `json:"prereleases,omitempty" protobuf:"2"`
}

// VersionSelectionSemverPrereleases chooses among pre-releases.
type VersionSelectionSemverPrereleases struct {
	// Keeps pre-releases that have one of these identifiers, such as rc. Default: all.
	// +optional
	Identifiers []string `json:"identifiers,omitempty" protobuf:"1"`
}
