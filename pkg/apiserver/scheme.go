package apiserver

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	data "github.com/garboard-dev/garboard/pkg/apis/datapackaging/v1alpha1"
	stored "github.com/garboard-dev/garboard/pkg/apis/internalpackaging/v1alpha1"
)

// newScheme knows what is served. With one version, the form that handlers work on
// is that version itself.
func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	must(data.AddToScheme(scheme))
	scheme.AddKnownTypes(schema.GroupVersion{Group: data.SchemeGroupVersion.Group, Version: runtime.APIVersionInternal},
		&data.Package{}, &data.PackageList{}, &data.PackageMetadata{}, &data.PackageMetadataList{})
	must(scheme.SetVersionPriority(data.SchemeGroupVersion))
	must(scheme.AddFieldLabelConversionFunc(data.SchemeGroupVersion.WithKind("Package"), func(label, value string) (string, string, error) {
		switch label {
		case "spec.refName", "metadata.name", "metadata.namespace":
			return label, value, nil
		}
		return "", "", fmt.Errorf("field label %q not supported for Package", label)
	}))
	v1 := schema.GroupVersion{Version: "v1"}
	metav1.AddToGroupVersion(scheme, v1)
	scheme.AddUnversionedTypes(v1, &metav1.Status{}, &metav1.APIVersions{}, &metav1.APIGroupList{}, &metav1.APIGroup{}, &metav1.APIResourceList{})
	return scheme
}

// namedScheme knows what OpenAPI names: only what clients know.
func namedScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	must(data.AddToScheme(scheme))
	return scheme
}

// newStoredScheme knows what is stored.
func newStoredScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	must(stored.AddToScheme(scheme))
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	return scheme
}

// must is for what only a wrong program can make fail.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
