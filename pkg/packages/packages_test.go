package packages_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carvel-dev/semver/v4"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	data "github.com/garboard-dev/garboard/pkg/apis/datapackaging/v1alpha1"
	kappctrl "github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/packages"
)

func pkg(namespace, refName, version string) *data.Package {
	return &data.Package{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: refName + "." + version},
		Spec:       data.PackageSpec{RefName: refName, Version: version, Template: data.AppTemplateSpec{Spec: &kappctrl.AppSpec{}}},
	}
}

func TestConversionsAreInverse(t *testing.T) {
	managed := func(version string) []metav1.ManagedFieldsEntry {
		return []metav1.ManagedFieldsEntry{{Manager: "m", APIVersion: version}, {Manager: "other", APIVersion: "v1"}}
	}
	p := pkg("team", "web.example.com", "1.0.0+B.1")
	p.ManagedFields, p.UID, p.Labels = managed("data.packaging.carvel.dev/v1alpha1"), "u", map[string]string{"a": "b"}
	in := packages.StorePackage(p, "")
	if diff := cmp.Diff(managed("internal.packaging.carvel.dev/v1alpha1"), in.ManagedFields); diff != "" || in.Name != packages.EncodeName(p.Name) {
		t.Errorf("stored as %q; managed fields (-want +got):\n%s", in.Name, diff)
	}
	back, err := packages.LoadPackage(in, "")
	if diff := cmp.Diff(p, back); err != nil || diff != "" {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
	if in.Labels["a"], in.Spec.Template.Spec.Paused = "changed", true; p.Labels["a"] != "b" || back.Spec.Template.Spec.Paused {
		t.Error("the forms share memory")
	}

	m := &data.PackageMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web.example.com", ManagedFields: managed("data.packaging.carvel.dev/v1alpha1")}}
	m.Spec.Categories = []string{"c"}
	stored := packages.StoreMetadata(m, "")
	if diff := cmp.Diff(managed("internal.packaging.carvel.dev/v1alpha1"), stored.ManagedFields); diff != "" {
		t.Errorf("managed fields (-want +got):\n%s", diff)
	}
	loaded, err := packages.LoadMetadata(stored, "")
	if diff := cmp.Diff(m, loaded); err != nil || diff != "" {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
}

func TestNamespaceOfTheRequest(t *testing.T) {
	p, err := packages.LoadPackage(packages.StorePackage(pkg("global", "web.example.com", "1.0.0"), ""), "team")
	if err != nil || p.Namespace != "team" {
		t.Errorf("read through team: %v, %v", p, err)
	}
	if in := packages.StorePackage(p, "other"); in.Namespace != "other" {
		t.Errorf("stored in %q", in.Namespace)
	}
	in := packages.StorePackage(p, "")
	in.Name = "NOT-ENCODED"
	if _, err := packages.LoadPackage(in, ""); err == nil {
		t.Error("a name that no Package has was accepted")
	}
}

func TestSeesGlobal(t *testing.T) {
	cases := map[string]struct {
		reason, global string
		change         func(*corev1.Namespace)
		want           bool
	}{
		"Usual":       {"namespaces see global packages", "global", func(*corev1.Namespace) {}, true},
		"None":        {"there is no global namespace", "", func(*corev1.Namespace) {}, false},
		"Itself":      {"its packages are local there", "team", func(*corev1.Namespace) {}, false},
		"Excluded":    {"any value of the annotation", "global", func(n *corev1.Namespace) { n.Annotations = map[string]string{packages.ExcludeGlobalAnnotation: ""} }, false},
		"Terminating": {"else it never looks empty", "global", func(n *corev1.Namespace) { n.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}
			c.change(ns)
			if got := packages.SeesGlobal(ns, c.global); got != c.want {
				t.Errorf("%s: got %t", c.reason, got)
			}
		})
	}
}

func TestMerge(t *testing.T) {
	names := func(list []*data.Package) (out []string) {
		for _, p := range list {
			out = append(out, p.Namespace+"/"+p.Spec.Version)
		}
		return out
	}
	g := func(versions ...string) (out []*data.Package) {
		for _, v := range versions {
			out = append(out, pkg("g", "web.example.com", v))
		}
		return out
	}
	l := func(versions ...string) (out []*data.Package) {
		for _, v := range versions {
			out = append(out, pkg("l", "web.example.com", v))
		}
		return out
	}
	cases := map[string]struct {
		reason        string
		global, local []*data.Package
		want          []string
	}{
		"Nothing":   {"no packages at all", nil, nil, nil},
		"Global":    {"only global ones", g("1.0.0", "2.0.0"), nil, []string{"g/1.0.0", "g/2.0.0"}},
		"Local":     {"only local ones", nil, l("1.0.0"), []string{"l/1.0.0"}},
		"Replaced":  {"the same key replaces in place", g("1.0.0", "2.0.0"), l("1.0.0"), []string{"l/1.0.0", "g/2.0.0"}},
		"Appended":  {"others come after", g("1.0.0"), l("3.0.0", "2.0.0"), []string{"g/1.0.0", "l/3.0.0", "l/2.0.0"}},
		"Build":     {"build metadata is part of the key", g("1.0.0+a"), l("1.0.0+b"), []string{"g/1.0.0+a", "l/1.0.0+b"}},
		"Duplicate": {"a key appears once", g("1.0.0", "1.0.0"), l("1.0.0"), []string{"l/1.0.0"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, names(packages.Merge(c.global, c.local))); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

func TestMatches(t *testing.T) {
	p := pkg("team", "web.example.com", "1.0.0")
	m := &data.PackageMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web.example.com"}}
	cases := map[string]struct {
		selector          string
		wantPkg, wantMeta bool
	}{
		"All":       {"", true, true},
		"RefName":   {"spec.refName=web.example.com", true, false},
		"Not":       {"spec.refName!=web.example.com", false, true},
		"Name":      {"metadata.name=web.example.com.1.0.0", true, false},
		"Namespace": {"metadata.namespace=team", true, true},
		"Both":      {"metadata.namespace=team,spec.refName=other", false, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			selector := fields.ParseSelectorOrDie(c.selector)
			if got := packages.Matches(selector, p); got != c.wantPkg {
				t.Errorf("Package: %t", got)
			}
			if got := packages.Matches(selector, m); got != c.wantMeta {
				t.Errorf("PackageMetadata: %t", got)
			}
		})
	}
}

func TestValidatePackage(t *testing.T) {
	cases := map[string]struct {
		reason string
		change func(*data.Package)
		want   []string
	}{
		"Valid":      {"the base of the other cases", func(*data.Package) {}, nil},
		"Build":      {"build metadata and pre-releases are versions", func(p *data.Package) { *p = *pkg("", "web.example.com", "1.0.0-RC.1+b.2") }, nil},
		"Name":       {"only the name is wrong", func(p *data.Package) { p.Name = "web" }, []string{"metadata.name: Invalid value: \"web\": must be <spec.refName> + '.' + <spec.version>"}},
		"NoRefName":  {"it is required", func(p *data.Package) { p.Spec.RefName = "" }, []string{"spec.refName: Required value: can not be empty", "metadata.name"}},
		"ShortName":  {"two segments", func(p *data.Package) { *p = *pkg("", "example.com", "1.0.0") }, []string{"spec.refName: Invalid value: \"example.com\": should be a domain with at least three segments separated by dots"}},
		"UpperCase":  {"not a domain", func(p *data.Package) { *p = *pkg("", "Web.example.com", "1.0.0") }, []string{"spec.refName: Invalid value: \"Web.example.com\": a lowercase RFC 1123 subdomain"}},
		"NoVersion":  {"it is required", func(p *data.Package) { *p = *pkg("", "web.example.com", "") }, []string{"spec.version: Required value: cannot be empty"}},
		"V":          {"a leading v", func(p *data.Package) { *p = *pkg("", "web.example.com", "v1.0.0") }, []string{"spec.version: Invalid value: \"v1.0.0\": must be valid semver: "}},
		"TwoNumbers": {"not semantic", func(p *data.Package) { *p = *pkg("", "web.example.com", "1.0") }, []string{"spec.version: Invalid value: \"1.0\": must be valid semver: "}},
		"Constraints": {"both ranges are checked", func(p *data.Package) {
			p.Spec.KubernetesVersionSelection, p.Spec.KappControllerVersionSelection = &data.VersionSelection{Constraints: ">=x"}, &data.VersionSelection{}
		}, []string{"spec.kappControllerVersionSelection.constraints", "spec.kubernetesVersionSelection.constraints"}},
		"Nothing": {"an alternative that is nothing", func(p *data.Package) {
			p.Spec.KubernetesVersionSelection = &data.VersionSelection{Constraints: ">=1.25.0 || || <1.20.0"}
		}, []string{"spec.kubernetesVersionSelection.constraints: Invalid value: \">=1.25.0 || || <1.20.0\": the alternative \" \" has no version"}},
		"Short": {"an alternative that the parser drops", func(p *data.Package) {
			p.Spec.KappControllerVersionSelection = &data.VersionSelection{Constraints: ">=1.25.0 || 1"}
		}, []string{"spec.kappControllerVersionSelection.constraints: Invalid value: \">=1.25.0 || 1\": "}},
		"Alternatives": {"a range of two", func(p *data.Package) {
			p.Spec.KubernetesVersionSelection = &data.VersionSelection{Constraints: " >= 1.25.0  <1.27.x ||  !1.20.0  "}
		}, nil},
		"Range": {"a range", func(p *data.Package) {
			p.Spec.KubernetesVersionSelection = &data.VersionSelection{Constraints: ">=1.25.0 <2.0.0"}
		}, nil},
		"Long": {"the encoded name has 255 characters", func(p *data.Package) { *p = *pkg("", strings.Repeat("w", 141)+".example.com", "1.0.0") }, []string{"metadata.name: Invalid value: \"" + strings.Repeat("w", 141) + ".example.com.1.0.0\": has 159 bytes, more than the 158 that can be stored"}},
		"Longest": {"the encoded name has 253 characters", func(p *data.Package) {
			*p = *pkg("", strings.Repeat("w", 60)+"."+strings.Repeat("x", 79)+".example.com", "1.0.0")
		}, []string{}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := pkg("", "web.example.com", "1.0.0")
			c.change(p)
			got := packages.ValidatePackage(p)
			if len(got) != len(c.want) {
				t.Fatalf("%s: got %v", c.reason, got)
			}
			for i, text := range c.want {
				if !strings.HasPrefix(got[i].Error(), text) {
					t.Errorf("%s: got %q, want %q", c.reason, got[i].Error(), text)
				}
			}
		})
	}
}

func TestValidateMetadata(t *testing.T) {
	for name, want := range map[string]string{
		"web.example.com":  "",
		"":                 "metadata.name: Required value",
		"example.com":      "metadata.name: Invalid value: \"example.com\": should be a domain with at least three segments separated by dots",
		"web.example.com.": "metadata.name: Invalid value: \"web.example.com.\": a lowercase RFC 1123 subdomain",
	} {
		got := packages.ValidateMetadata(&data.PackageMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}})
		if fmt.Sprint(len(got) == 0) != fmt.Sprint(want == "") || len(got) > 0 && !strings.HasPrefix(got[0].Error(), want) {
			t.Errorf("%q: got %v, want %q", name, got, want)
		}
	}
}

// FuzzValidatePackage: whatever a Package says, it is judged, and what is accepted
// can be stored, read again and compared with versions.
func FuzzValidatePackage(f *testing.F) {
	f.Add("web.example.com", "1.0.0", ">=1.0.0")
	f.Add("web.example.com", "1.0.0-rc.1+b", "<1.0.0 || >2.0.0")
	f.Add("Web", "v1", "~>")
	f.Add("web.example.com", "1.0.0", ">1.0.0 || || <2.0.0")
	f.Add("web.example.com", "1.0.0", ">1.0.0 || 1 || <2.0.0")
	f.Fuzz(func(t *testing.T, refName, version, constraints string) {
		p := pkg("team", refName, version)
		p.Spec.KubernetesVersionSelection = &data.VersionSelection{Constraints: constraints}
		if len(packages.ValidatePackage(p)) > 0 {
			return
		}
		fits, err := semver.ParseRange(constraints)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range []string{"0.0.0", "1.0.0-rc.1", "1.5.0", "99.0.0"} {
			fits(semver.MustParse(v)) // does not panic
		}
		back, err := packages.LoadPackage(packages.StorePackage(p, ""), "")
		if diff := cmp.Diff(p, back); err != nil || diff != "" {
			t.Fatalf("error %v (-want +got):\n%s", err, diff)
		}
	})
}

func ExampleMerge() {
	global := []*data.Package{pkg("global", "web.example.com", "1.0.0"), pkg("global", "web.example.com", "2.0.0")}
	local := []*data.Package{pkg("team", "web.example.com", "2.0.0")}
	for _, p := range packages.Merge(global, local) {
		fmt.Println(p.Namespace, p.Name)
	}
	// Output:
	// global web.example.com.1.0.0
	// team web.example.com.2.0.0
}

func BenchmarkMerge(b *testing.B) {
	var global, local []*data.Package
	for i := range 5000 {
		global = append(global, pkg("global", "web.example.com", fmt.Sprintf("1.%d.0", i)))
		if i%10 == 0 {
			local = append(local, pkg("team", "web.example.com", fmt.Sprintf("1.%d.0", i)))
		}
	}
	b.Run("global=5000,local=500", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			packages.Merge(global, local)
		}
	})
}
