package resolve_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/carvel-dev/semver/v4"
	"github.com/google/go-cmp/cmp"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/resolve"
)

type selection = v1alpha1.VersionSelectionSemver

func versions(list ...string) (out []resolve.Candidate) {
	for _, v := range list {
		out = append(out, resolve.Candidate{Version: v})
	}
	return out
}

func pre(identifiers ...string) *v1alpha1.VersionSelectionSemverPrereleases {
	return &v1alpha1.VersionSelectionSemverPrereleases{Identifiers: identifiers}
}

func TestChoose(t *testing.T) {
	two := versions("2.0.0", "3.0.0-rc.1")
	cases := map[string]struct {
		reason string
		req    resolve.Request
		want   string
	}{
		"Highest":         {"order is by precedence, not by text", resolve.Request{Candidates: versions("1.9.0", "1.10.0", "1.2.0"), Selection: &selection{}}, "1.10.0"},
		"Constraints":     {"the highest that fits", resolve.Request{Candidates: versions("1.0.0", "1.5.0", "2.0.0"), Selection: &selection{Constraints: ">=1.0.0 <2.0.0"}}, "1.5.0"},
		"Wildcard":        {"ranges may have an x", resolve.Request{Candidates: versions("1.0.0", "1.5.0", "2.0.0"), Selection: &selection{Constraints: "1.x"}}, "1.5.0"},
		"Either":          {"alternatives", resolve.Request{Candidates: versions("1.0.0", "1.5.0", "2.0.0"), Selection: &selection{Constraints: "<1.1.0 || 3.x"}}, "1.0.0"},
		"LeadingV":        {"stored before versions were validated", resolve.Request{Candidates: versions("v1.0.0", "0.9.0"), Selection: &selection{}}, "v1.0.0"},
		"Equals":          {"of the same precedence the last", resolve.Request{Candidates: versions("1.0.0", "v1.0.0"), Selection: &selection{}}, "v1.0.0"},
		"Build":           {"build metadata orders what is else equal", resolve.Request{Candidates: versions("1.0.0+10", "1.0.0+9", "1.0.0"), Selection: &selection{}}, "1.0.0+10"},
		"Broken":          {"what is no version does not hide the others", resolve.Request{Candidates: versions("latest", "1.0.0"), Selection: &selection{}}, "1.0.0"},
		"ExactPrerelease": {"who names one wants it", resolve.Request{Candidates: two, Selection: &selection{Constraints: "3.0.0-rc.1"}}, "3.0.0-rc.1"},
		"EqualPrerelease": {"also with a sign", resolve.Request{Candidates: two, Selection: &selection{Constraints: "=3.0.0-rc.1"}}, "3.0.0-rc.1"},
		"SpacedEqual":     {"and a space", resolve.Request{Candidates: two, Selection: &selection{Constraints: "== 3.0.0-rc.1"}}, "3.0.0-rc.1"},
		"NoPrereleases":   {"a range lets none in", resolve.Request{Candidates: two, Selection: &selection{Constraints: ">=2.0.0"}}, "2.0.0"},
		"Prereleases":     {"unless they are asked for", resolve.Request{Candidates: two, Selection: &selection{Constraints: ">=2.0.0", Prereleases: pre()}}, "3.0.0-rc.1"},
		"Identifier":      {"by one identifier", resolve.Request{Candidates: versions("1.0.0-beta.2", "1.0.0-alpha.3", "0.9.0"), Selection: &selection{Prereleases: pre("alpha", "dev")}}, "1.0.0-alpha.3"},
		"ReleaseToo":      {"releases need no identifier", resolve.Request{Candidates: versions("1.0.0-beta.2", "0.9.0"), Selection: &selection{Prereleases: pre("alpha")}}, "0.9.0"},
		"Number":          {"a number is an identifier too", resolve.Request{Candidates: versions("1.0.0-beta.2", "1.0.0-beta.3"), Selection: &selection{Prereleases: pre("2")}}, "1.0.0-beta.2"},
		"Kubernetes": {"what does not run here is left out", resolve.Request{
			Candidates: []resolve.Candidate{{Version: "1.0.0", Kubernetes: "<1.30.0"}, {Version: "2.0.0", Kubernetes: ">=1.99.0"}},
			Selection:  &selection{}, Kubernetes: "1.29.3",
		}, "1.0.0"},
		"KubernetesSuffix": {"vendors add to the version", resolve.Request{
			Candidates: []resolve.Candidate{{Version: "1.0.0", Kubernetes: ">=1.29.0"}}, Selection: &selection{}, Kubernetes: "v1.29.0-eks-1234+x",
		}, "1.0.0"},
		"IgnoreKubernetes": {"by annotation", resolve.Request{
			Candidates: []resolve.Candidate{{Version: "2.0.0", Kubernetes: ">=1.99.0"}}, Selection: &selection{}, IgnoreKubernetes: true,
		}, "2.0.0"},
		"Controller": {"what the controller is too old for", resolve.Request{
			Candidates: []resolve.Candidate{{Version: "1.0.0", Controller: ">=0.50.0"}, {Version: "2.0.0", Controller: ">=0.99.0"}},
			Selection:  &selection{}, Controller: "v0.54.0",
		}, "1.0.0"},
		"IgnoreController": {"by annotation", resolve.Request{
			Candidates: []resolve.Candidate{{Version: "2.0.0", Controller: ">=0.99.0"}}, Selection: &selection{}, Controller: "0.54.0", IgnoreController: true,
		}, "2.0.0"},
		"StoredNonsense": {"a range that cannot be read fits nothing and hides nothing", resolve.Request{
			Candidates: []resolve.Candidate{{Version: "2.0.0", Controller: ">>1"}, {Version: "1.0.0"}}, Selection: &selection{}, Controller: "0.54.0",
		}, "1.0.0"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := resolve.Choose(c.req)
			if got != c.want || err != nil {
				t.Errorf("%s: got %q, %v, want %q", c.reason, got, err, c.want)
			}
		})
	}
}

func TestChooseExplains(t *testing.T) {
	cases := map[string]struct {
		reason string
		req    resolve.Request
		want   string
	}{
		"NoSelection": {"required", resolve.Request{Candidates: versions("1.0.0")}, "Expected non-empty version selection"},
		"None": {"nothing of that name", resolve.Request{Selection: &selection{Constraints: "1.0.0"}},
			"Expected to find at least one version, but did not (details: all=0 -> after-prereleases-filter=0 -> after-kapp-controller-version-check=0 -> after-constraints-filter=0)"},
		"NoConstraints": {"that part is left out", resolve.Request{Selection: &selection{}},
			"Expected to find at least one version, but did not (details: all=0 -> after-prereleases-filter=0 -> after-kapp-controller-version-check=0)"},
		"Both": {"each version is told about", resolve.Request{Candidates: versions("2.0.0", "3.0.0-rc.1", "latest"), Selection: &selection{Constraints: ">=9.0.0"}},
			"Expected to find at least one version, but did not (details: all=2 -> after-prereleases-filter=1 -> after-kapp-controller-version-check=1 -> after-constraints-filter=0)\n" +
				"- 3.0.0-rc.1: a pre-release, which only prereleases: {} lets in\n" +
				"- 2.0.0: does not fit constraints '>=9.0.0'\n" +
				"- latest: not a semantic version"},
		"Identifiers": {"pre-releases of another kind", resolve.Request{Candidates: versions("1.0.0-rc.1"), Selection: &selection{Prereleases: pre("alpha", "beta")}},
			"Expected to find at least one version, but did not (details: all=1 -> after-prereleases-filter=0 -> after-kapp-controller-version-check=0)\n" +
				"- 1.0.0-rc.1: a pre-release without an identifier of 'alpha', 'beta'"},
		"Kubernetes": {"the check is named only if a version has constraints", resolve.Request{
			Candidates: []resolve.Candidate{{Version: "1.0.0", Kubernetes: ">=1.99.0"}, {Version: "1.1.0", Kubernetes: ">=x"}, {Version: "1.2.0", Kubernetes: ">=1.98.0"}},
			Selection:  &selection{Constraints: ">=1.0.0"}, Kubernetes: "1.37.2",
		}, "Expected to find at least one version, but did not (details: all=3 -> after-prereleases-filter=3 -> after-kubernetes-version-check=0 -> after-kapp-controller-version-check=0 -> after-constraints-filter=0)\n" +
			"- 1.2.0: for Kubernetes '>=1.98.0', this is 1.37.2\n" +
			"- 1.1.0: its Kubernetes constraints '>=x' cannot be read: Could not get version from string: \">=x\"\n" +
			"- 1.0.0: for Kubernetes '>=1.99.0', this is 1.37.2"},
		"Controller": {"a version that cannot be read fits no range", resolve.Request{
			Candidates: []resolve.Candidate{{Version: "1.0.0", Controller: ">=0.1.0"}}, Selection: &selection{}, Controller: "develop",
		}, "Expected to find at least one version, but did not (details: all=1 -> after-prereleases-filter=1 -> after-kapp-controller-version-check=0)\n" +
			"- 1.0.0: for controller '>=0.1.0', but the controller version 'develop' cannot be read"},
		"Syntax": {"the range is the user's", resolve.Request{Candidates: versions("1.0.0"), Selection: &selection{Constraints: "^1.0.0"}},
			`Selecting versions: Parsing version constraint '^1.0.0': Could not parse Range "^1.0.0": Could not parse comparator "^" in "^1.0.0"`},
		"EmptyAlternative": {"it would match nothing", resolve.Request{Candidates: versions("1.0.0"), Selection: &selection{Constraints: "2.0.0 || || 3.0.0"}},
			`Selecting versions: Parsing version constraint '2.0.0 || || 3.0.0': no version in "2.0.0 || || 3.0.0"`},
		"Blank": {"a space is no range", resolve.Request{Candidates: versions("1.0.0"), Selection: &selection{Constraints: " "}},
			"Selecting versions: Parsing version constraint ' ': Last element in range is '||'"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := resolve.Choose(c.req)
			if err == nil {
				t.Fatalf("%s: no error", c.reason)
			}
			if diff := cmp.Diff(c.want, err.Error()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

func TestExplanationsAreBounded(t *testing.T) {
	var list []resolve.Candidate
	for i := range 500 {
		list = append(list, resolve.Candidate{Version: fmt.Sprintf("1.%d.0", i), Kubernetes: strings.Repeat("ü", 4000)})
	}
	_, err := resolve.Choose(resolve.Request{Candidates: list, Selection: &selection{}, Kubernetes: "1.37.2"})
	if err == nil || len(err.Error()) > 4<<10 || !strings.Contains(err.Error(), "- and 490 more") || !strings.Contains(err.Error(), "\n- 1.499.0: ") {
		t.Errorf("%v", err)
	}
	if strings.ToValidUTF8(err.Error(), "?") != err.Error() {
		t.Error("a text was cut inside a rune")
	}
}

func TestDowngrade(t *testing.T) {
	cases := map[string]struct {
		reason, chosen, last string
		stopped              bool
	}{
		"First":      {"nothing was tried before", "1.0.0", "", false},
		"Same":       {"no change", "1.0.0", "1.0.0", false},
		"Up":         {"an upgrade", "1.10.0", "1.9.0", false},
		"Down":       {"a downgrade", "1.9.0", "1.10.0", true},
		"Prerelease": {"a pre-release is lower than its release", "1.0.0-rc.1", "1.0.0", true},
		"Build":      {"build metadata counts", "1.0.0+1", "1.0.0+2", true},
		"Unreadable": {"a stored status that makes no sense forbids nothing", "1.0.0", "latest", false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := resolve.Downgrade(c.chosen, c.last)
			want := ""
			if c.stopped {
				want = fmt.Sprintf("Stopped installing matched version '%s' since last attempted version '%s' is higher.\nhint: Add annotation packaging.carvel.dev/downgradable: \"\" to PackageInstall to proceed with downgrade", c.chosen, c.last)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

func TestNeedsKubernetes(t *testing.T) {
	r := resolve.Request{Candidates: versions("1.0.0")}
	if r.NeedsKubernetes() {
		t.Error("no version has a Kubernetes range")
	}
	r.Candidates[0].Kubernetes = ">=1.0.0"
	if !r.NeedsKubernetes() {
		t.Error("one has")
	}
	if r.IgnoreKubernetes = true; r.NeedsKubernetes() {
		t.Error("it is ignored")
	}
}

func TestAccepts(t *testing.T) {
	cases := map[string]struct {
		s       *selection
		version string
		want    bool
	}{
		"Fits":       {&selection{Constraints: "1.x"}, "1.2.0", true},
		"FitsNot":    {&selection{Constraints: "1.x"}, "2.0.0", false},
		"Prerelease": {&selection{}, "2.0.0-rc.1", false},
		"Nothing":    {nil, "2.0.0", false},
		"Nonsense":   {&selection{Constraints: "?"}, "2.0.0", false},
	}
	for name, c := range cases {
		if got := resolve.Accepts(c.s, c.version); got != c.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

func TestSimilar(t *testing.T) {
	names := []string{strings.Repeat("redis.", 50) + "example.org", "web.shop.example.com", "redis.example.com", "cert-manager.example.com", "web.example.org", "web.shop.example.com"}
	cases := map[string]struct {
		reason, name string
		want         []string
	}{
		"Typo":   {"letters exchanged", "reids.example.com", []string{"redis.example.com"}},
		"Domain": {"the same name elsewhere", "cert-manager.community.tanzu.vmware.com", []string{"cert-manager.example.com"}},
		"Closer": {"closest first", "web.example.com", []string{"web.example.org", "web.shop.example.com"}},
		"Other":  {"nothing is near", "postgres.acme.io", nil},
		"Empty":  {"no name at all", "", nil},
		"Long":   {"no Package can have it", strings.Repeat("redis.", 50) + "example.com", nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, resolve.Similar(c.name, names)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

// FuzzChoose: whatever stands in stored objects, the choice ends, and what is
// chosen is a candidate that the user's range lets in.
func FuzzChoose(f *testing.F) {
	f.Add("1.0.0", "2.0.0-rc.1", ">=1.0.0 <2.0.0", ">=1.20.0", "1.37.2", false)
	f.Add("v1.0.0+b", "x", "=3.0.0-rc.1", "1.x || !1.2.x", "v1.29.0-eks", true)
	f.Add("", "1.2.x", "||", "> <", "", true)
	f.Fuzz(func(t *testing.T, a, b, constraints, environment, version string, prereleases bool) {
		r := resolve.Request{
			Candidates: []resolve.Candidate{{Version: a, Kubernetes: environment}, {Version: b, Controller: environment}},
			Selection:  &selection{Constraints: constraints}, Kubernetes: version, Controller: version,
		}
		if prereleases {
			r.Selection.Prereleases = pre()
		}
		got, err := resolve.Choose(r)
		if err != nil {
			return
		}
		if got != a && got != b {
			t.Fatalf("%q is no candidate", got)
		}
		v, err := semver.Parse(strings.TrimPrefix(got, "v"))
		if err != nil {
			t.Fatalf("chose %q: %v", got, err)
		}
		if constraints != "" && !resolve.Accepts(&selection{Constraints: constraints, Prereleases: pre()}, v.String()) {
			t.Fatalf("%q does not fit %q", got, constraints)
		}
		if text := resolve.Downgrade(got, got); text != "" {
			t.Fatalf("%q to itself: %s", got, text)
		}
	})
}

func ExampleChoose() {
	fmt.Println(resolve.Choose(resolve.Request{
		Candidates: versions("1.0.0", "1.1.0", "2.0.0"),
		Selection:  &selection{Constraints: "1.x"},
	}))
	// Output: 1.1.0 <nil>
}
