package apis_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// facts is what clients of kapp-controller rely on in a CRD.
type facts struct {
	Group, Kind, ListKind  string
	Plural, Singular       string
	ShortNames, Categories []string
	// Columns are name, JSON path and type, with a space between them.
	Columns []string
	// Required holds the required lists by the path of their object.
	Required    map[string][]string
	Annotations map[string]string
}

var (
	conditionRequires = []string{"status", "type"}
	groupKindRequires = []string{"group", "kind"}
	crdFacts          = map[string]facts{
		"kappctrl.k14s.io_apps.yaml": {
			Group: "kappctrl.k14s.io", Kind: "App", ListKind: "AppList", Plural: "apps", Singular: "app",
			Categories: []string{"carvel"},
			Columns: []string{
				"Description .status.friendlyDescription string",
				"Since-Deploy .status.deploy.startedAt date",
				"Age .metadata.creationTimestamp date",
			},
			Required: map[string][]string{
				"": {"spec"}, ".status.conditions[]": conditionRequires,
				".status.deploy.kapp.associatedResources.groupKinds[]": groupKindRequires,
			},
		},
		"packaging.carvel.dev_packageinstalls.yaml": {
			Group: "packaging.carvel.dev", Kind: "PackageInstall", ListKind: "PackageInstallList",
			Plural: "packageinstalls", Singular: "packageinstall",
			ShortNames: []string{"pkgi"}, Categories: []string{"carvel"},
			Columns: []string{
				"Package name .spec.packageRef.refName string",
				"Package version .status.version string",
				"Description .status.friendlyDescription string",
				"Age .metadata.creationTimestamp date",
			},
			Required: map[string][]string{"": {"spec"}, ".status.conditions[]": conditionRequires},
		},
		"packaging.carvel.dev_packagerepositories.yaml": {
			Group: "packaging.carvel.dev", Kind: "PackageRepository", ListKind: "PackageRepositoryList",
			Plural: "packagerepositories", Singular: "packagerepository",
			ShortNames: []string{"pkgr"}, Categories: []string{"carvel"},
			Columns: []string{
				"Age .metadata.creationTimestamp date",
				"Description .status.friendlyDescription string",
			},
			Required: map[string][]string{
				"": {"spec"}, ".spec": {"fetch"}, ".status.conditions[]": conditionRequires,
				".status.conflicts[]": {"kind", "name"}, // kapp-controller has no such list
				".status.deploy.kapp.associatedResources.groupKinds[]": groupKindRequires,
			},
			Annotations: map[string]string{
				"packaging.carvel.dev/global-namespace": "kapp-controller-packaging-global",
			},
		},
		"internal.packaging.carvel.dev_internalpackages.yaml": {
			Group: "internal.packaging.carvel.dev", Kind: "InternalPackage", ListKind: "InternalPackageList",
			Plural: "internalpackages", Singular: "internalpackage",
			Required: map[string][]string{"": {"spec"}, ".spec.template": {"spec"}},
		},
		"internal.packaging.carvel.dev_internalpackagemetadatas.yaml": {
			Group: "internal.packaging.carvel.dev", Kind: "InternalPackageMetadata", ListKind: "InternalPackageMetadataList",
			Plural: "internalpackagemetadatas", Singular: "internalpackagemetadata",
			Required: map[string][]string{"": {"spec"}},
		},
	}
)

// TestCRDsSayWhatClientsKnow holds the CRDs against what clients of
// kapp-controller rely on.
func TestCRDsSayWhatClientsKnow(t *testing.T) {
	crds := loadCRDs(t)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(crdFacts)), slices.Sorted(maps.Keys(crds))); diff != "" {
		t.Errorf("files in config/crd (-want +got):\n%s", diff)
	}
	for file, crd := range crds {
		t.Run(file, func(t *testing.T) {
			if diff := cmp.Diff(crdFacts[file], factsOf(t, crd)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestSchemasHaveDocsAndPlainConstraints keeps every field documented, and keeps
// out constraints that would reject objects which kapp-controller accepts.
func TestSchemasHaveDocsAndPlainConstraints(t *testing.T) {
	// What may be null, and what takes any content.
	nullable := []string{".spec.releasedAt", ".spec.valuesSchema.openAPIv3"}
	open := []string{".spec.valuesSchema.openAPIv3"}
	for file, crd := range loadCRDs(t) {
		walk(schemaOf(crd), "", func(path string, s *apiextensionsv1.JSONSchemaProps) {
			constrained := len(s.Enum) > 0 || s.Default != nil || s.Pattern != "" || s.Minimum != nil || s.Maximum != nil ||
				s.MinLength != nil || s.MaxLength != nil || s.MinItems != nil || s.MaxItems != nil || len(s.XValidations) > 0
			if constrained {
				t.Errorf("%s: %s has an enum, a default, a pattern, a bound or a rule", file, path)
			}
			if s.Nullable != slices.Contains(nullable, path) {
				t.Errorf("%s: %s: nullable is %v", file, path, s.Nullable)
			}
			if (s.XPreserveUnknownFields != nil) != slices.Contains(open, path) {
				t.Errorf("%s: %s: preserves unknown fields, or does not where it should", file, path)
			}
			if s.Description == "" && needsDescription(path) {
				t.Errorf("%s: %s has no description", file, path)
			}
		})
	}
}

// needsDescription is false for what takes its description from the list or map
// that it is in, and for metadata, which every client knows.
func needsDescription(path string) bool {
	return path != ".metadata" && !strings.HasSuffix(path, "[]")
}

// loadCRDs returns the CRDs in config/crd by file name.
func loadCRDs(t *testing.T) map[string]*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	files, err := filepath.Glob("../../config/crd/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	crds := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(data, crd); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		crds[filepath.Base(file)] = crd
	}
	return crds
}

func factsOf(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) facts {
	t.Helper()
	names := crd.Spec.Names
	f := facts{
		Group: crd.Spec.Group, Kind: names.Kind, ListKind: names.ListKind, Plural: names.Plural, Singular: names.Singular,
		ShortNames: names.ShortNames, Categories: names.Categories, Required: map[string][]string{},
	}
	if len(crd.Spec.Versions) != 1 || crd.Spec.Scope != apiextensionsv1.NamespaceScoped || crd.Spec.Conversion != nil {
		t.Fatalf("%d versions, scope %s, conversion %v", len(crd.Spec.Versions), crd.Spec.Scope, crd.Spec.Conversion)
	}
	v := crd.Spec.Versions[0]
	if v.Name != "v1alpha1" || !v.Served || !v.Storage || v.Subresources == nil || v.Subresources.Status == nil || v.Subresources.Scale != nil {
		t.Errorf("version %s served %v storage %v subresources %v", v.Name, v.Served, v.Storage, v.Subresources)
	}
	for _, c := range v.AdditionalPrinterColumns {
		f.Columns = append(f.Columns, c.Name+" "+c.JSONPath+" "+c.Type)
	}
	for name, value := range crd.Annotations {
		// The tool's own mark; its version may change.
		if name == "controller-gen.kubebuilder.io/version" {
			continue
		}
		if f.Annotations == nil {
			f.Annotations = map[string]string{}
		}
		f.Annotations[name] = value
	}
	walk(schemaOf(crd), "", func(path string, s *apiextensionsv1.JSONSchemaProps) {
		if len(s.Required) > 0 {
			f.Required[path] = s.Required
		}
		if path == ".metadata" && (s.Type != "object" || len(s.Properties) > 0 || s.Description != "") {
			t.Errorf("metadata is not a plain object")
		}
	})
	return f
}

func schemaOf(crd *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.JSONSchemaProps {
	return crd.Spec.Versions[0].Schema.OpenAPIV3Schema
}

// walk calls visit for s and all schemas in it; path is a JSON path with [] for
// the items of a list and the values of a map.
func walk(s *apiextensionsv1.JSONSchemaProps, path string, visit func(string, *apiextensionsv1.JSONSchemaProps)) {
	visit(path, s)
	for name, p := range s.Properties {
		walk(&p, path+"."+name, visit)
	}
	if s.Items != nil && s.Items.Schema != nil {
		walk(s.Items.Schema, path+"[]", visit)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		walk(s.AdditionalProperties.Schema, path+"[]", visit)
	}
}
