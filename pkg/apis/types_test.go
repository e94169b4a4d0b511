package apis_test

import (
	"encoding/json"
	"math/rand"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/apitesting/roundtrip"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/randfill"

	datapackaging "github.com/garboard-dev/garboard/pkg/apis/datapackaging/v1alpha1"
	internalpackaging "github.com/garboard-dev/garboard/pkg/apis/internalpackaging/v1alpha1"
	kappctrl "github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	packaging "github.com/garboard-dev/garboard/pkg/apis/packaging/v1alpha1"
)

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		kappctrl.AddToScheme, packaging.AddToScheme, internalpackaging.AddToScheme, datapackaging.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

// ourFuncs fills what may hold any JSON with JSON, and durations with one or with
// text that is none, but not with both.
func ourFuncs(serializer.CodecFactory) []any {
	return []any{
		func(r *runtime.RawExtension, c randfill.Continue) {
			if c.Bool() {
				r.Raw = []byte(`{"properties":{"replicas":{"default":1,"type":"integer"}},"x-unknown":true}`)
			}
		},
		func(d *kappctrl.Duration, c randfill.Continue) {
			if *d = (kappctrl.Duration{Invalid: "1d"}); c.Bool() {
				*d = kappctrl.Duration{Duration: time.Duration(c.Int63())}
			}
		},
	}
}

func newFuzzer(scheme *runtime.Scheme) *randfill.Filler {
	funcs := fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs, ourFuncs)
	return fuzzer.FuzzerFor(funcs, rand.NewSource(1), serializer.NewCodecFactory(scheme))
}

// TestTypesRoundTrip writes and reads random objects of every kind as JSON, YAML
// and CBOR and expects the same object.
func TestTypesRoundTrip(t *testing.T) {
	scheme := newScheme(t)
	roundtrip.RoundTripExternalTypesWithoutProtobuf(t, scheme, serializer.NewCodecFactory(scheme), newFuzzer(scheme), nil)
}

// TestSchemasKeepEveryField prunes random objects as the API server does. What is
// lost is a field of the Go type that the CRD lacks.
func TestSchemasKeepEveryField(t *testing.T) {
	scheme := newScheme(t)
	fill := newFuzzer(scheme)
	for file, crd := range loadCRDs(t) {
		t.Run(file, func(t *testing.T) {
			structural := structuralOf(t, crd)
			for range 50 {
				obj, err := scheme.New(schema.GroupVersionKind{Group: crd.Spec.Group, Version: "v1alpha1", Kind: crd.Spec.Names.Kind})
				if err != nil {
					t.Fatal(err)
				}
				fill.Fill(obj)
				want := toMap(t, obj)
				got := runtime.DeepCopyJSON(want)
				pruning.Prune(got, structural, true)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("pruned (-before +after):\n%s", diff)
				}
			}
		})
	}
}

func structuralOf(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) *structuralschema.Structural {
	t.Helper()
	internal := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(schemaOf(crd), internal, nil); err != nil {
		t.Fatal(err)
	}
	structural, err := structuralschema.NewStructural(internal)
	if err != nil {
		t.Fatal(err)
	}
	if errs := structuralschema.ValidateStructural(nil, structural); len(errs) > 0 {
		t.Fatalf("not structural: %v", errs.ToAggregate())
	}
	return structural
}

func toMap(t *testing.T, obj any) map[string]any {
	t.Helper()
	data, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]any{}
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestEncodings pins what clients see for empty values.
func TestEncodings(t *testing.T) {
	tests := map[string]struct {
		reason string
		in     any
		want   string
	}{
		"EmptyStatus": {
			reason: "clients read these three without asking whether they are there",
			in:     kappctrl.AppStatus{},
			want:   `{"observedGeneration":0,"conditions":null,"friendlyDescription":""}`,
		},
		"EmptyConditions": {
			reason: "an empty list stays a list",
			in:     kappctrl.AppStatus{GenericStatus: kappctrl.GenericStatus{Conditions: []kappctrl.Condition{}}},
			want:   `{"observedGeneration":0,"conditions":[],"friendlyDescription":""}`,
		},
		"EmptyPackageInstallStatus": {
			reason: "the shared part is inline",
			in:     packaging.PackageInstallStatus{},
			want:   `{"observedGeneration":0,"conditions":null,"friendlyDescription":""}`,
		},
		"EmptyPackageRepositoryStatus": {
			reason: "the shared part is inline",
			in:     packaging.PackageRepositoryStatus{},
			want:   `{"observedGeneration":0,"conditions":null,"friendlyDescription":""}`,
		},
		"EmptyFetch": {
			reason: "exit code and times are always there",
			in:     kappctrl.AppStatusFetch{},
			want:   `{"exitCode":0,"startedAt":null,"updatedAt":null}`,
		},
		"EmptyTemplate": {
			reason: "no output and no start time",
			in:     kappctrl.AppStatusTemplate{},
			want:   `{"exitCode":0,"updatedAt":null}`,
		},
		"EmptyDeploy": {
			reason: "finished is always there",
			in:     kappctrl.AppStatusDeploy{},
			want:   `{"finished":false,"exitCode":0,"startedAt":null,"updatedAt":null}`,
		},
		"EmptyInspect": {
			reason: "exit code and time are always there",
			in:     kappctrl.AppStatusInspect{},
			want:   `{"exitCode":0,"updatedAt":null}`,
		},
		"Condition": {
			reason: "no transition time, no generation",
			in:     kappctrl.Condition{Type: kappctrl.Reconciling, Status: "True"},
			want:   `{"type":"Reconciling","status":"True"}`,
		},
		"InvalidPeriod": {
			reason: "what is no duration is written back as it was read",
			in:     kappctrl.AppSpec{SyncPeriod: &kappctrl.Duration{Invalid: "1d"}},
			want:   `{"syncPeriod":"1d"}`,
		},
		"AnyPrerelease": {
			reason: "present and empty means all, absent means none",
			in:     kappctrl.VersionSelectionSemver{Prereleases: &kappctrl.VersionSelectionSemverPrereleases{}},
			want:   `{"prereleases":{}}`,
		},
		"Package": {
			reason: "repositories made for kapp-controller compare equal with these zero values",
			in:     datapackaging.PackageSpec{CapacityRequirementsDescription: "1 GiB"},
			want: `{"releasedAt":null,"capacityRequirementsDescription":"1 GiB",` +
				`"template":{"spec":null},"valuesSchema":{"openAPIv3":null}}`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := json.Marshal(tt.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
			}
		})
	}
}

// TestDurations: text that is no duration must not keep the object from being
// read. The schema takes any text, and one App that cannot be read would end the
// watch on all.
func TestDurations(t *testing.T) {
	tests := map[string]struct {
		text    string
		want    kappctrl.Duration
		invalid bool
	}{
		"Hours":    {"1h30m", kappctrl.Duration{Duration: 90 * time.Minute}, false},
		"Negative": {"-1h", kappctrl.Duration{Duration: -time.Hour}, false},
		"Empty":    {"", kappctrl.Duration{}, false},
		"Days":     {"1d", kappctrl.Duration{Invalid: "1d"}, true},
		"Number":   {"30", kappctrl.Duration{Invalid: "30"}, true},
		"Huge":     {"99999999999h", kappctrl.Duration{Invalid: "99999999999h"}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var app kappctrl.App
			if err := json.Unmarshal([]byte(`{"spec":{"syncPeriod":"`+tt.text+`"}}`), &app); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&tt.want, app.Spec.SyncPeriod); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if err := app.Spec.SyncPeriod.Err(); (err != nil) != tt.invalid {
				t.Errorf("error %v", err)
			}
		})
	}
}
