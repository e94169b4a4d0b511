package protobuf_test

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/randfill"

	"github.com/garboard-dev/garboard/pkg/apis/datapackaging/protobuf"
	data "github.com/garboard-dev/garboard/pkg/apis/datapackaging/v1alpha1"
	kappctrl "github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
)

func field(n protowire.Number, content string) string {
	return string(protowire.AppendBytes(protowire.AppendTag(nil, n, protowire.BytesType), []byte(content)))
}

// TestNumbers compares with bytes made of kapp-controller's numbers.
func TestNumbers(t *testing.T) {
	p := &data.Package{
		ObjectMeta: metav1.ObjectMeta{Name: "n"},
		Spec: data.PackageSpec{
			RefName: "r", Version: "v", Licenses: []string{"a", ""},
			Template: data.AppTemplateSpec{Spec: &kappctrl.AppSpec{
				Fetch: []kappctrl.AppFetch{{ImgpkgBundle: &kappctrl.AppFetchImgpkgBundle{
					Image: "i", TagSelection: &kappctrl.VersionSelection{Semver: &kappctrl.VersionSelectionSemver{Prereleases: &kappctrl.VersionSelectionSemverPrereleases{}}},
				}}},
				Template:   []kappctrl.AppTemplate{{Ytt: &kappctrl.AppTemplateYtt{Inline: &kappctrl.AppFetchInline{Paths: map[string]string{"b": "2", "a": "1"}}}}},
				NoopDelete: true, SyncPeriod: &kappctrl.Duration{Duration: 1},
			}},
			KubernetesVersionSelection: &data.VersionSelection{Constraints: "c"},
		},
	}
	app := field(3, field(6, field(1, "i")+field(3, field(1, field(2, ""))))) +
		field(4, field(1, field(3, field(1, field(1, "a")+field(2, "1"))+field(1, field(1, "b")+field(2, "2"))))) +
		field(8, "\x08\x01") + "\x48\x01"
	spec := field(1, "r") + field(2, "v") + field(3, "a") + field(3, "") + field(7, field(1, app)) + field(11, field(1, "c"))
	got, err := p.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if want := field(2, spec); !strings.HasSuffix(string(got), want) {
		t.Errorf("got  %q\nwant %q at the end", got, want)
	}
}

// TestEveryFieldHasANumber: a field without one would be lost in protobuf.
func TestEveryFieldHasANumber(t *testing.T) {
	seen := map[reflect.Type]bool{}
	var check func(reflect.Type)
	check = func(typ reflect.Type) {
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct || seen[typ] || !strings.HasPrefix(typ.PkgPath(), "github.com/garboard-dev/") {
			return
		}
		seen[typ] = true
		numbers := map[string]string{}
		for i := range typ.NumField() {
			f := typ.Field(i)
			n := f.Tag.Get("protobuf")
			if f.Type == reflect.TypeFor[metav1.TypeMeta]() {
				continue
			}
			if n == "" || numbers[n] != "" {
				t.Errorf("%s.%s: give it a number of its own, protobuf:\"101\" or more if kapp-controller does not have the field", typ, f.Name)
			}
			numbers[n] = f.Name
			check(f.Type)
		}
	}
	check(reflect.TypeFor[data.PackageList]())
	check(reflect.TypeFor[data.PackageMetadataList]())
	if len(seen) < 40 {
		t.Errorf("only %d types were looked at", len(seen))
	}
}

func filler(seed int64) *randfill.Filler {
	ours := func(serializer.CodecFactory) []any {
		return []any{
			func(r *runtime.RawExtension, c randfill.Continue) {
				if r.Raw = nil; c.Bool() {
					r.Raw = []byte(`{"a":1}`)
				}
			},
			func(d *kappctrl.Duration, c randfill.Continue) {
				if *d = (kappctrl.Duration{Invalid: "1d"}); c.Bool() {
					*d = kappctrl.Duration{Duration: time.Duration(c.Int63())}
				}
			},
		}
	}
	return fuzzer.FuzzerFor(fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs, ours), rand.NewSource(seed), serializer.NewCodecFactory(runtime.NewScheme()))
}

// TestRoundTrip compares by JSON, in which absent and empty are the same too.
func TestRoundTrip(t *testing.T) {
	f := filler(1)
	for range 200 {
		p, back := &data.Package{}, &data.Package{}
		f.Fill(p)
		p.TypeMeta = metav1.TypeMeta{}
		wire, err := p.Marshal()
		if err == nil {
			err = back.Unmarshal(wire)
		}
		if err != nil {
			t.Fatal(err)
		}
		want, _ := json.Marshal(p)
		got, _ := json.Marshal(back)
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	}
}

func TestUnmarshalRefuses(t *testing.T) {
	for reason, wire := range map[string]string{
		"a tag that does not end":        "\xff",
		"less content than it says":      "\x12\x09abc",
		"a number where a text is":       field(2, "\x08\x01"),
		"text where a number is":         field(2, field(7, field(1, field(9, "x")))),
		"metadata that cannot be read":   field(1, "\x0a\x09"),
		"a map entry that is no message": field(2, field(7, field(1, field(3, field(1, "\x08\x01"))))),
	} {
		if err := protobuf.Unmarshal([]byte(wire), &data.Package{}); err == nil {
			t.Errorf("%s: accepted", reason)
		}
	}
	p := &data.Package{}
	if err := p.Unmarshal([]byte(field(99, "new") + field(2, field(1, "r")))); err != nil || p.Spec.RefName != "r" {
		t.Errorf("a field of a later version: %v, %q", err, p.Spec.RefName)
	}
}

// FuzzUnmarshal: what was read is written in a form that reads the same.
func FuzzUnmarshal(f *testing.F) {
	for seed := range int64(20) {
		l := &data.PackageList{Items: make([]data.Package, 1)}
		filler(seed).Fill(&l.Items[0])
		wire, err := l.Marshal()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(wire)
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		l, again := &data.PackageList{}, &data.PackageList{}
		if l.Unmarshal(wire) != nil {
			return
		}
		first, err := l.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if err := again.Unmarshal(first); err != nil {
			t.Fatalf("%q: %v", first, err)
		}
		if second, err := again.Marshal(); err != nil || string(second) != string(first) {
			t.Fatalf("error %v, %q became %q", err, first, second)
		}
	})
}

func ExampleMarshal() {
	wire, err := protobuf.Marshal(&data.Maintainer{Name: "shop"})
	fmt.Printf("%q %v\n", wire, err)
	// Output: "\n\x04shop" <nil>
}

func BenchmarkMarshal(b *testing.B) {
	l := &data.PackageList{Items: make([]data.Package, 500)}
	for i := range l.Items {
		p := &l.Items[i]
		p.Name, p.Spec.RefName, p.Spec.Version = "web.example.com.1.0.0", "web.example.com", "1.0.0"
		p.Spec.ValuesSchema.OpenAPIv3.Raw = make([]byte, 5<<10)
		p.Spec.Template.Spec = &kappctrl.AppSpec{Deploy: []kappctrl.AppDeploy{{Kapp: &kappctrl.AppDeployKapp{}}}}
	}
	b.Run("packages=500", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := l.Marshal(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
