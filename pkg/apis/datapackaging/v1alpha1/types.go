package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	kappctrlv1alpha1 "github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
)

// Package is one version of something to install. Its name is the refName and the
// version, with a dot between them.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=packages,singular=package,shortName=pkg
type Package struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"1"`

	// What this version is and how to install it.
	Spec PackageSpec `json:"spec" protobuf:"2"`
}

// PackageList is a list of Packages.
//
// +kubebuilder:object:root=true
type PackageList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata" protobuf:"1"`

	// The Packages, in no particular order.
	Items []Package `json:"items" protobuf:"2"`
}

// PackageMetadata describes all versions of something to install. Its name is the
// refName of their Packages.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=packagemetadatas,singular=packagemetadata,shortName=pkgm
type PackageMetadata struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"1"`

	// The description.
	Spec PackageMetadataSpec `json:"spec" protobuf:"2"`
}

// PackageMetadataList is a list of PackageMetadatas.
//
// +kubebuilder:object:root=true
type PackageMetadataList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata" protobuf:"1"`

	// The PackageMetadatas, in no particular order.
	Items []PackageMetadata `json:"items" protobuf:"2"`
}

// PackageSpec is what one version is and how to install it.
type PackageSpec struct {
	// Name of the PackageMetadata that this is a version of, such as
	// web.shop.example.com: at least three parts with dots between them.
	// +optional
	RefName string `json:"refName,omitempty" protobuf:"1"`
	// Semantic version, such as 1.2.0 or 1.2.0+build.5.
	// +optional
	Version string `json:"version,omitempty" protobuf:"2"`
	// Licenses of the software, for people.
	// +optional
	Licenses []string `json:"licenses,omitempty" protobuf:"3"`
	// When this version was released.
	// +optional
	// +nullable
	ReleasedAt metav1.Time `json:"releasedAt,omitempty" protobuf:"4"`
	// What the software needs of the cluster, such as RAM, for people.
	// +optional
	CapacityRequirementsDescription string `json:"capacityRequirementsDescription,omitempty" protobuf:"5"`
	// What changed in this version, for people.
	// +optional
	ReleaseNotes string `json:"releaseNotes,omitempty" protobuf:"6"`
	// The App that an installation of this version becomes.
	// +optional
	Template AppTemplateSpec `json:"template,omitempty" protobuf:"7"`
	// Values that an installation can set.
	// +optional
	ValuesSchema ValuesSchema `json:"valuesSchema,omitempty" protobuf:"8"`
	// Software that this version contains, for people.
	// +optional
	IncludedSoftware []IncludedSoftware `json:"includedSoftware,omitempty" protobuf:"9"`
	// Controller versions that can install this version. Default: all.
	// +optional
	KappControllerVersionSelection *VersionSelection `json:"kappControllerVersionSelection,omitempty" protobuf:"10"`
	// Kubernetes versions that this version runs on. Default: all.
	// +optional
	KubernetesVersionSelection *VersionSelection `json:"kubernetesVersionSelection,omitempty" protobuf:"11"`
}

// AppTemplateSpec is the App that an installation becomes.
type AppTemplateSpec struct {
	// Spec of the App. The installation adds its service account and its values.
	Spec *kappctrlv1alpha1.AppSpec `json:"spec" protobuf:"1"`
}

// ValuesSchema describes values.
type ValuesSchema struct {
	// OpenAPI v3 schema of the values.
	// +optional
	// +nullable
	// +kubebuilder:pruning:PreserveUnknownFields
	OpenAPIv3 runtime.RawExtension `json:"openAPIv3,omitempty" protobuf:"1"`
}

// IncludedSoftware is something that a version contains.
type IncludedSoftware struct {
	// Name of the software.
	// +optional
	DisplayName string `json:"displayName,omitempty" protobuf:"1"`
	// Version of the software.
	// +optional
	Version string `json:"version,omitempty" protobuf:"2"`
	// What the software does there.
	// +optional
	Description string `json:"description,omitempty" protobuf:"3"`
}

// VersionSelection is a set of versions.
type VersionSelection struct {
	// Range such as ">=1.25.0 <2.0.0". Default: every version.
	// +optional
	Constraints string `json:"constraints,omitempty" protobuf:"1"`
}

// PackageMetadataSpec describes all versions of something to install, for people.
type PackageMetadataSpec struct {
	// Name to show.
	// +optional
	DisplayName string `json:"displayName,omitempty" protobuf:"1"`
	// Description in a few sentences.
	// +optional
	LongDescription string `json:"longDescription,omitempty" protobuf:"2"`
	// Description in one line.
	// +optional
	ShortDescription string `json:"shortDescription,omitempty" protobuf:"3"`
	// Icon, an SVG image in base64.
	// +optional
	IconSVGBase64 string `json:"iconSVGBase64,omitempty" protobuf:"4"`
	// Who provides it.
	// +optional
	ProviderName string `json:"providerName,omitempty" protobuf:"5"`
	// Who maintains it.
	// +optional
	Maintainers []Maintainer `json:"maintainers,omitempty" protobuf:"6"`
	// Categories to find it by.
	// +optional
	Categories []string `json:"categories,omitempty" protobuf:"7"`
	// Where to get help.
	// +optional
	SupportDescription string `json:"supportDescription,omitempty" protobuf:"8"`
}

// Maintainer is somebody who maintains.
type Maintainer struct {
	// Name of the person or team.
	// +optional
	Name string `json:"name,omitempty" protobuf:"1"`
}
