package packageinstall

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	data "github.com/garboard-dev/garboard/pkg/apis/datapackaging/v1alpha1"
	kappctrl "github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	packaging "github.com/garboard-dev/garboard/pkg/apis/packaging/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/status"
)

const refName = "web.shop.example.com"

func offered(versions ...string) (out []*data.Package) {
	for _, v := range versions {
		p := &data.Package{Spec: data.PackageSpec{RefName: refName, Version: v}}
		p.Spec.Template.Spec = &kappctrl.AppSpec{Template: []kappctrl.AppTemplate{{Ytt: &kappctrl.AppTemplateYtt{}}}}
		out = append(out, p)
	}
	return out
}

// valid is a state in which 1.1.0 is installed by values Secret v.
func valid() state {
	pkgi := &packaging.PackageInstall{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web", UID: "u1", Annotations: map[string]string{}}}
	pkgi.Spec.ServiceAccountName = "sa"
	pkgi.Spec.PackageRef = &packaging.PackageRef{RefName: refName, VersionSelection: &kappctrl.VersionSelectionSemver{Constraints: "1.x"}}
	pkgi.Spec.Values = []packaging.PackageInstallValues{{SecretRef: &packaging.PackageInstallValuesSecretRef{Name: "v"}}}
	pkgi.Status.LastAttemptedVersion = "1.1.0"
	s := state{pkgi: pkgi, versions: offered("1.0.0", "1.1.0"), controller: "0.54.0", syncPeriod: 10 * time.Minute}
	s.app, _ = makeApp(nil, pkgi, s.versions[1], s.syncPeriod)
	return s
}

const downgraded = "Stopped installing matched version '1.0.0' since last attempted version '1.1.0' is higher.\n" +
	"hint: Add annotation packaging.carvel.dev/downgradable: \"\" to PackageInstall to proceed with downgrade"

func TestDecide(t *testing.T) {
	cases := map[string]struct {
		reason string
		with   func(*state)
		want   status.Install
		// app says what becomes of the App: "" leaves it, else its version.
		app string
	}{
		"Installed": {"nothing changed", func(*state) {}, status.Install{Version: "1.1.0", Attempted: "1.1.0"}, "1.1.0"},
		"New":       {"the first install", func(s *state) { s.app = nil; s.pkgi.Status = packaging.PackageInstallStatus{} }, status.Install{Version: "1.1.0", Attempted: "1.1.0"}, "1.1.0"},
		"Upgrade":   {"a higher version", func(s *state) { s.versions = append(s.versions, offered("1.2.0", "2.0.0")...) }, status.Install{Version: "1.2.0", Attempted: "1.2.0"}, "1.2.0"},
		"Adopted": {"an App that nobody controls", func(s *state) { s.app.OwnerReferences = nil },
			status.Install{Version: "1.1.0", Attempted: "1.1.0"}, "1.1.0"},
		"Foreign": {"an App of somebody else", func(s *state) {
			yes := true
			s.app.OwnerReferences = []metav1.OwnerReference{{Kind: "Fleet", Name: "f", UID: "u9", Controller: &yes}}
		}, status.Install{Version: "1.1.0", Attempted: "1.1.0", Failure: "Object team/web is already owned by another Fleet controller f"}, ""},
		"Manual": {"an App that is left alone", func(s *state) {
			s.app.Annotations[manuallyControlledAnnotation] = ""
			s.versions = append(s.versions, offered("1.2.0")...)
		}, status.Install{Version: "1.2.0", Attempted: "1.2.0"}, ""},
		"NoRef": {"nothing to install", func(s *state) { s.pkgi.Spec.PackageRef = nil }, status.Install{Failure: "Expected non nil PackageRef"}, ""},
		"NoSelection": {"no version", func(s *state) { s.pkgi.Spec.PackageRef.VersionSelection = nil },
			status.Install{Failure: "Expected non-empty version selection"}, ""},
		"NoSecret": {"told before the version is chosen", func(s *state) {
			s.pkgi.Spec.Values = make([]packaging.PackageInstallValues, 1)
			s.versions = nil
		}, status.Install{Failure: "Invalid fields: spec.values[0].secretRef: Required value"}, ""},
		"NoSecrets": {"all at once", func(s *state) {
			s.pkgi.Spec.Values = []packaging.PackageInstallValues{{}, {SecretRef: &packaging.PackageInstallValuesSecretRef{}}}
		}, status.Install{Failure: "Invalid fields: [spec.values[0].secretRef: Required value, spec.values[1].secretRef.name: Required value]"}, ""},
		"SecretKey": {"accepted, without effect, and told", func(s *state) { s.pkgi.Spec.Values[0].SecretRef.Key = "k" },
			status.Install{Version: "1.1.0", Attempted: "1.1.0", Warnings: []string{"spec.values[0].secretRef.key is not used: every key of Secret 'v' is a values file"}}, "1.1.0"},
		"NoStep": {"values that no step takes", func(s *state) {
			s.versions[1].Spec.Template.Spec.Template = []kappctrl.AppTemplate{{Cue: &kappctrl.AppTemplateCue{}}}
		}, status.Install{Version: "1.1.0", Attempted: "1.1.0", Warnings: []string{"spec.values are not used: the Package has no ytt and no helmTemplate step"}}, "1.1.0"},
		"NoTemplate": {"old data without one", func(s *state) { s.versions[1].Spec.Template.Spec = nil },
			status.Install{Version: "1.1.0", Failure: "Package web.shop.example.com.1.1.0 has no template.spec, so there is nothing to install"}, ""},
		"NoPackages": {"none at all", func(s *state) { s.versions, s.app = nil, nil }, status.Install{Failure: "Package web.shop.example.com not found"}, ""},
		"OtherPackages": {"none of that name", func(s *state) {
			s.versions, s.app, s.refNames = nil, nil, []string{"web.shop.example.org", "redis.example.com"}
		}, status.Install{Failure: "Expected to find at least one version, but did not (details: all=0 -> after-prereleases-filter=0 -> after-kapp-controller-version-check=0 -> after-constraints-filter=0)\n" +
			"- no Package 'web.shop.example.com' in this namespace, nor a global one (hint: did you mean 'web.shop.example.org'?)"}, ""},
		"Edited": {"a selection that nothing fits is told, whatever is installed", func(s *state) { s.pkgi.Spec.PackageRef.VersionSelection.Constraints = ">=9.0.0" },
			status.Install{Failure: "Expected to find at least one version, but did not (details: all=2 -> after-prereleases-filter=2 -> after-kapp-controller-version-check=2 -> after-constraints-filter=0)\n" +
				"- 1.1.0: does not fit constraints '>=9.0.0'\n- 1.0.0: does not fit constraints '>=9.0.0'"}, ""},
		"Kubernetes": {"a cluster that does not answer", func(s *state) { s.kubernetesErr = errors.New("no route") },
			status.Install{Failure: "Unable to get kubernetes version: no route"}, ""},
		"Downgrade": {"an edit that asks for a lower version", func(s *state) { s.pkgi.Spec.PackageRef.VersionSelection.Constraints = "1.0.0" },
			status.Install{Version: "1.0.0", Failure: downgraded, Hidden: true}, ""},
		"Downgradable": {"and that is allowed", func(s *state) {
			s.pkgi.Spec.PackageRef.VersionSelection.Constraints = "1.0.0"
			s.pkgi.Annotations[downgradableAnnotation] = ""
		}, status.Install{Version: "1.0.0", Attempted: "1.0.0"}, "1.0.0"},
		"Vanished": {"the installed version stays", func(s *state) { s.versions = offered("1.0.0") },
			status.Install{Version: "1.1.0", Warnings: []string{"Version '1.1.0' of Package 'web.shop.example.com' is not offered any more; it stays installed (the highest that is offered: '1.0.0')"}}, "1.1.0"},
		"AllVanished": {"also without any other", func(s *state) { s.versions = nil },
			status.Install{Version: "1.1.0", Warnings: []string{"Version '1.1.0' of Package 'web.shop.example.com' is not offered any more; it stays installed"}}, "1.1.0"},
		"VanishedHigher": {"a higher one is an upgrade", func(s *state) { s.versions = offered("1.0.0", "1.2.0") }, status.Install{Version: "1.2.0", Attempted: "1.2.0"}, "1.2.0"},
		"VanishedAllowed": {"a lower one if that is allowed", func(s *state) {
			s.versions = offered("1.0.0")
			s.pkgi.Annotations[downgradableAnnotation] = ""
		}, status.Install{Version: "1.0.0", Attempted: "1.0.0"}, "1.0.0"},
		"VanishedValues": {"other values cannot be applied, and that is told", func(s *state) { s.versions, s.pkgi.Spec.Values[0].SecretRef.Name = nil, "w" },
			status.Install{Version: "1.1.0", Failure: "Version '1.1.0' of Package 'web.shop.example.com' is not offered any more. What is installed stays, but changes of values or annotations need the Package " +
				"(hint: offer that version again, or choose another; for a lower one add annotation packaging.carvel.dev/downgradable: \"\")"}, ""},
		"VanishedManual": {"an App that is left alone", func(s *state) { s.versions, s.app.Annotations[manuallyControlledAnnotation] = nil, "" },
			status.Install{Version: "1.1.0", Warnings: []string{"Version '1.1.0' of Package 'web.shop.example.com' is not offered any more; it stays installed"}}, ""},
		"VanishedEarlier": {"an App of another version proves nothing", func(s *state) {
			s.versions = offered("1.0.0")
			s.app.Annotations[versionAnnotation] = "1.0.5"
		}, status.Install{Version: "1.0.0", Failure: downgraded, Hidden: true}, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := valid()
			c.with(&s)
			d := decide(s)
			if diff := cmp.Diff(c.want, d.outcome); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
			got := ""
			if d.app != nil {
				got = d.app.Annotations[versionAnnotation]
			}
			if got != c.app {
				t.Errorf("%s: the App becomes %q, want %q", c.reason, got, c.app)
			}
		})
	}
}

// TestVanishedTakesFlags: what needs no Package still reaches the App.
func TestVanishedTakesFlags(t *testing.T) {
	s := valid()
	s.versions = nil
	if d := decide(s); !same(s.app, d.app) {
		t.Errorf("without an edit the App changes:\n%s", cmp.Diff(s.app, d.app))
	}
	s.pkgi.Spec.Paused, s.pkgi.Spec.ServiceAccountName = true, "other"
	d := decide(s)
	if d.app == nil || !d.app.Spec.Paused || d.app.Spec.ServiceAccountName != "other" {
		t.Errorf("the App became %+v", d.app)
	}
}

// TestRequestReadsPackages: what Packages and annotations say reaches the choice.
func TestRequestReadsPackages(t *testing.T) {
	s := valid()
	s.versions[0].Spec.KubernetesVersionSelection = &data.VersionSelection{Constraints: ">=1.30.0"}
	s.versions[1].Spec.KappControllerVersionSelection = &data.VersionSelection{Constraints: ">=0.99.0"}
	if r := s.request(); !r.NeedsKubernetes() {
		t.Error("the cluster's version is not asked for")
	}
	s.kubernetes = "1.29.0"
	text := decide(s).outcome.Failure
	for _, want := range []string{"after-kubernetes-version-check=1 -> after-kapp-controller-version-check=0", "- 1.1.0: for controller '>=0.99.0', this is 0.54.0", "- 1.0.0: for Kubernetes '>=1.30.0', this is 1.29.0"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q does not say %q", text, want)
		}
	}
	s.pkgi.Annotations[ignoreControllerAnnotation] = ""
	if got := decide(s).outcome.Version; got != "1.1.0" {
		t.Errorf("ignoring the controller's version: %q", got)
	}
	s.pkgi.Annotations[ignoreKubernetesAnnotation], s.versions[0].Spec.Version = "", "1.9.0"
	if got := decide(s).outcome.Version; got != "1.9.0" || s.request().NeedsKubernetes() {
		t.Errorf("ignoring Kubernetes' version: %q", got)
	}
}

// TestTheLastOfEqualsIsInstalled: the version that is told is the one installed.
func TestTheLastOfEqualsIsInstalled(t *testing.T) {
	s := valid()
	s.versions = append(offered("1.1.0"), offered("1.1.0")...)
	s.versions[1].Spec.Template.Spec.Deploy = []kappctrl.AppDeploy{{}}
	if d := decide(s); len(d.app.Spec.Deploy) != 1 {
		t.Errorf("another Package was installed: %+v", d.app.Spec)
	}
}

// oddities are texts that stored objects may hold where names, versions and ranges
// are expected.
var oddities = []string{
	"", " ", refName, "1.0.0", "1.1.0", "1.x", "x", "v1.0.0", "=1.0.0-rc.1", ">=1.0.0 <2.0.0", "a || || b", "||", "1.0.0+b.1", ">", "\xff", "é", "0", "a/b", "..",
	"99999999999999999999.0.0", strings.Repeat("a", 300),
}

// TestDecideAnything: no stored object makes a decision fail to end, and what fails
// changes no App.
func TestDecideAnything(t *testing.T) {
	for seed := range uint64(5000) {
		rng := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // repeatable, no secret
		odd := func() string { return oddities[rng.IntN(len(oddities))] }
		ref, version, constraints, last, secret, suffix, bits := odd(), odd(), odd(), odd(), odd(), odd(), uint8(rng.IntN(256)) //nolint:gosec // fits
		s := valid()
		bit := func(i int) bool { return bits&(1<<i) != 0 }
		s.versions = offered(version, "1.0.0")
		s.versions[0].Spec.KappControllerVersionSelection = &data.VersionSelection{Constraints: constraints}
		s.pkgi.Spec.PackageRef.RefName, s.pkgi.Spec.PackageRef.VersionSelection.Constraints = ref, constraints
		s.pkgi.Status.LastAttemptedVersion, s.pkgi.Spec.Values[0].SecretRef.Name = last, secret
		s.pkgi.Annotations[yttPathsAnnotation+"."+suffix] = secret
		s.pkgi.Annotations[fmt.Sprintf(fetchSecretAnnotation, int(bits))] = secret
		if bit(0) {
			s.app = nil
		}
		if bit(1) {
			s.versions[0].Spec.Template.Spec = nil
		}
		if bit(2) {
			s.versions = nil
		}
		if bit(3) {
			s.pkgi.Annotations[downgradableAnnotation] = ""
		}
		if bit(4) {
			s.refNames = []string{version, ref}
		}
		d := decide(s)
		if d.outcome.Failure != "" && d.app != nil {
			t.Fatalf("seed %d: %q, and yet the App becomes %+v", seed, d.outcome.Failure, d.app)
		}
		if d.outcome.Failure == "" && d.outcome.Version == "" {
			t.Fatalf("seed %d: neither a failure nor a version", seed)
		}
	}
}
