package refs_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/refs"
)

// isRef says whether a field refers to another object: by its own name or that of
// its type, so that neither a new field nor an oddly named one is missed.
func isRef(field reflect.StructField) bool {
	t := field.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Kind() == reflect.Struct && (strings.HasSuffix(field.Name, "Ref") || strings.HasSuffix(t.Name(), "Ref"))
}

// fill gives each reference below v a name of its own and returns the keys that
// OfApp has to find for them.
func fill(v reflect.Value, path string, want map[refs.Key]string) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), path, want)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), path, want)
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			if !field.IsExported() {
				continue
			}
			at := path + "." + field.Name
			fill(v.Field(i), at, want)
			if isRef(field) && !field.Anonymous {
				kind := refs.Secret
				if field.Name == "ConfigMapRef" {
					kind = refs.ConfigMap
				}
				name := fmt.Sprintf("n%d", len(want))
				reflect.Indirect(v.Field(i)).FieldByName("Name").SetString(name)
				want[refs.Key{Kind: kind, Name: name}] = at
			}
		}
	}
}

// TestOfAppFindsEveryRef walks the types, so that a new reference cannot be
// forgotten.
func TestOfAppFindsEveryRef(t *testing.T) {
	var spec v1alpha1.AppSpec
	want := map[refs.Key]string{}
	fill(reflect.ValueOf(&spec).Elem(), "spec", want)
	paths := slices.Collect(maps.Values(want))
	for _, path := range []string{
		"spec.Cluster.KubeconfigSecretRef", "spec.Fetch.Inline.PathsFrom.ConfigMapRef", "spec.Fetch.Git.SecretRef",
		"spec.Fetch.HelmChart.Repository.SecretRef", "spec.Template.Ytt.Inline.PathsFrom.SecretRef", "spec.Template.Cue.ValuesFrom.SecretRef",
		"spec.Template.Jsonnet.ValuesFrom.ConfigMapRef", "spec.Template.Sops.PGP.PrivateKeysSecretRef", "spec.Template.Sops.Age.PrivateKeysSecretRef",
	} {
		if !slices.Contains(paths, path) {
			t.Errorf("the walk did not come by %s", path)
		}
	}
	for _, key := range refs.OfApp(spec) {
		if _, ok := want[key]; !ok {
			t.Errorf("%v is no reference", key)
		}
		delete(want, key)
	}
	for key, path := range want {
		t.Errorf("%s (%s) is missing", path, key.Kind)
	}
}

func TestOfAppSortsAndMerges(t *testing.T) {
	ref := func(name string) *v1alpha1.AppTemplateValuesSourceRef {
		return &v1alpha1.AppTemplateValuesSourceRef{Name: name}
	}
	spec := v1alpha1.AppSpec{Template: []v1alpha1.AppTemplate{
		{}, {Ytt: &v1alpha1.AppTemplateYtt{ValuesFrom: []v1alpha1.AppTemplateValuesSource{
			{}, {SecretRef: ref("b")}, {SecretRef: ref("a")}, {ConfigMapRef: ref("b")}, {SecretRef: ref("b")}, {SecretRef: ref("")},
		}}},
	}}
	want := []refs.Key{{Kind: refs.ConfigMap, Name: "b"}, {Kind: refs.Secret, Name: "a"}, {Kind: refs.Secret, Name: "b"}}
	if diff := cmp.Diff(want, refs.OfApp(spec)); diff != "" {
		t.Error(diff)
	}
	if got := refs.OfApp(v1alpha1.AppSpec{}); len(got) != 0 {
		t.Errorf("an empty spec refers to %v", got)
	}
}

func ExampleOfApp() {
	fmt.Println(refs.OfApp(v1alpha1.AppSpec{Fetch: []v1alpha1.AppFetch{
		{Git: &v1alpha1.AppFetchGit{SecretRef: &v1alpha1.AppFetchLocalRef{Name: "login"}}},
	}}))
	// Output: [{Secret login}]
}
