package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	packaging "github.com/garboard-dev/garboard/pkg/apis/packaging/v1alpha1"
	"github.com/garboard-dev/garboard/test/testenv"
)

// TestInstallSelection: which version is chosen, and what is said when none is.
func TestInstallSelection(t *testing.T) {
	t.Parallel()
	w := newInstalls(t)
	w.offerWeb("2.0.0", "3.0.0-rc.1")
	w.offer(w.ns, "4.0.0", "  kubernetesVersionSelection: {constraints: '>=99.0.0'}\n"+strings.ReplaceAll(webTemplate, "${VERSION}", "4.0.0"))
	w.offer(w.ns, "5.0.0", "  kappControllerVersionSelection: {constraints: '>=99.0.0'}\n"+strings.ReplaceAll(webTemplate, "${VERSION}", "5.0.0"))
	w.offer(w.ns, "6.0.0", "  kubernetesVersionSelection: {constraints: '1.2.0 || || 1.3.0'}\n"+strings.ReplaceAll(webTemplate, "${VERSION}", "6.0.0"))

	w.install("3.0.0-rc.1", "")
	w.installed("3.0.0-rc.1")
	w.annotate("packaging.carvel.dev/downgradable", "")
	w.selects(">=2.0.0")
	w.installed("2.0.0")
	w.selects("=3.0.0-rc.1")
	w.installed("3.0.0-rc.1")
	w.selects("2.0.0")
	w.installed("2.0.0")
	w.editPKGI(func(p *packaging.PackageInstall) {
		p.Spec.PackageRef.VersionSelection.Constraints = ">=2.0.0"
		p.Spec.PackageRef.VersionSelection.Prereleases = &v1alpha1.VersionSelectionSemverPrereleases{}
	})
	w.installed("3.0.0-rc.1")

	w.selects(">=9.0.0")
	p := w.failedPKGI("Expected to find at least one version, but did not (details: all=5 -> after-prereleases-filter=5 -> after-kubernetes-version-check=3 -> after-kapp-controller-version-check=2 -> after-constraints-filter=0)\n- 6.0.0: its Kubernetes constraints")
	for _, want := range []string{"\n- 5.0.0: for controller '>=99.0.0', this is ", "\n- 4.0.0: for Kubernetes '>=99.0.0', this is ", "\n- 3.0.0-rc.1: does not fit constraints '>=9.0.0'", "\n- 2.0.0: does not"} {
		if problem := contains(p.Status.UsefulErrorMessage, want); problem != "" {
			t.Error(problem)
		}
	}
	if p.Status.Conditions[0].Message != p.Status.UsefulErrorMessage || !strings.HasSuffix(p.Status.FriendlyDescription, "...") {
		t.Errorf("the failure reads %+v", p.Status)
	}
	w.untilWeb("3.0.0-rc.1", "default")
	w.selects("4.0.0")
	w.failedPKGI("Expected to find at least one version")
	w.annotate("packaging.carvel.dev/ignore-kubernetes-version-selection", "")
	w.installed("4.0.0")
	w.selects("5.0.0")
	w.failedPKGI("Expected to find at least one version")
	w.annotate("packaging.carvel.dev/ignore-kapp-controller-version-selection", "")
	w.installed("5.0.0")

	w.selects("~> 1")
	w.failedPKGI("Selecting versions: Parsing version constraint '~> 1': ")
	w.editPKGI(func(p *packaging.PackageInstall) { p.Spec.PackageRef.RefName = w.ns + ".wbe.example.com" })
	w.failedPKGI("Selecting versions: Parsing")
	w.selects("1.x")
	p = w.failedPKGI("Expected to find at least one version, but did not (details: all=0 ")
	if problem := contains(p.Status.UsefulErrorMessage, "did you mean '"+w.refName+"'"); problem != "" {
		t.Error(problem)
	}
	w.editPKGI(func(p *packaging.PackageInstall) { p.Spec.Values = make([]packaging.PackageInstallValues, 2) })
	w.failedPKGI("Invalid fields: [spec.values[0].secretRef: Required value, spec.values[1].secretRef: Required value]")
	w.editPKGI(func(p *packaging.PackageInstall) { p.Spec.Values, p.Spec.PackageRef.VersionSelection = nil, nil })
	w.failedPKGI("Expected non-empty version selection")
}

// TestInstallVanished: what is installed stays when its version is not offered any
// more, and flags still reach it.
func TestInstallVanished(t *testing.T) {
	t.Parallel()
	w := newInstalls(t)
	w.secret("values", "values.yml", "v: one")
	w.offerWeb("1.1.0", "1.2.0")
	w.install("1.x", "  values: [{secretRef: {name: values}}]\n")
	w.installed("1.2.0")
	generation := w.get("web").Generation
	vanished := func(want string) {
		t.Helper()
		w.untilPKGI("web", func(p *packaging.PackageInstall) string {
			if !slices.ContainsFunc(p.Status.Warnings, func(s string) bool { return strings.HasSuffix(s, want) }) {
				return fmt.Sprintf("no warning %q: %+v", want, p.Status)
			}
			return endedPKGI(p, v1alpha1.ReconcileSucceeded)
		})
	}
	w.withdraw("1.2.0")
	vanished("Version '1.2.0' of Package '" + w.refName + "' is not offered any more; it stays installed (the highest that is offered: '1.1.0')")
	w.withdraw("1.1.0")
	vanished("it stays installed")
	p := w.installed("1.2.0")
	if app := w.get("web"); app.Generation != generation {
		t.Errorf("the App changed from generation %d to %d", generation, app.Generation)
	}
	w.untilWeb("1.2.0", "one")
	w.wantEventOf(p, "Doubtful")

	w.editPKGI(func(p *packaging.PackageInstall) { p.Spec.Paused = true })
	w.until("web", func(a *v1alpha1.App) string { return contains(a.Status.FriendlyDescription, "Canceled/paused") })
	w.editPKGI(func(p *packaging.PackageInstall) { p.Spec.Paused = false; p.Spec.Values = nil })
	w.failedPKGI("Version '1.2.0' of Package '" + w.refName + "' is not offered any more. What is installed stays")
	w.offerWeb("1.3.0")
	if p := w.installed("1.3.0"); len(p.Status.Warnings) > 0 {
		t.Errorf("warnings that are over: %q", p.Status.Warnings)
	}
	w.untilWeb("1.3.0", "default")
}

// wantEventOf waits for an Event of the PackageInstall with the reason.
func (w installs) wantEventOf(p *packaging.PackageInstall, reason string, parts ...string) {
	w.Helper()
	testenv.Eventually(w, patience, func(ctx context.Context) string {
		list := &corev1.EventList{}
		if err := kube.List(ctx, list, client.InNamespace(w.ns)); err != nil {
			return err.Error()
		}
		var seen []string
		for _, e := range list.Items {
			if e.InvolvedObject.UID != p.UID {
				continue
			}
			seen = append(seen, e.Reason+": "+e.Message)
			if e.Reason == reason && !slices.ContainsFunc(parts, func(s string) bool { return !strings.Contains(e.Message, s) }) {
				return ""
			}
		}
		return fmt.Sprintf("no Event %s with %q in %q", reason, parts, seen)
	})
}

// TestInstallValues: several Secrets in order, overlays by annotation, values as
// overlays, and a values file that does not fit the schema.
func TestInstallValues(t *testing.T) {
	t.Parallel()
	w := newInstalls(t)
	const schema = "  valuesSchema: {openAPIv3: {type: object, additionalProperties: false, properties: {v: {type: string, default: default}, w: {type: string, default: default}, list: {type: array, items: {type: string}, default: []}, map: {type: object, default: {}}}}}\n"
	w.offer(w.ns, "1.0.0", schema+strings.ReplaceAll(webTemplate, "${VERSION}", "1.0.0"))
	w.secret("a", "values.yml", "v: a\nw: a")
	w.secret("b", "values.yml", "v: b")
	w.install("1.x", "  values: [{secretRef: {name: a}}, {secretRef: {name: b, key: other}}]\n")
	p := w.installed("1.0.0")
	w.wantConfigMap("web", map[string]string{"version": "1.0.0", "v": "b", "w": "a"})
	if want := []string{"spec.values[1].secretRef.key is not used: every key of Secret 'b' is a values file"}; !slices.Equal(p.Status.Warnings, want) {
		t.Errorf("warnings %q, want %q", p.Status.Warnings, want)
	}

	w.secret("b", "values.yml", "v: 12345\nx: hunter2")
	p = w.untilPKGI("web", func(p *packaging.PackageInstall) string {
		if len(p.Status.Warnings) != 3 {
			return fmt.Sprintf("want 3 warnings, have %+v", p.Status)
		}
		return ""
	})
	if want := []string{"values: v: want string, have number", "values: x: not a key of the schema"}; !slices.Equal(p.Status.Warnings[1:], want) {
		t.Errorf("warnings %q, want %q", p.Status.Warnings, want)
	}
	w.wantEventOf(p, "Doubtful", "values: v: want string, have number")
	w.secret("b", "values.yml", "v: c")
	w.untilWeb("1.0.0", "c")
	w.untilPKGI("web", func(p *packaging.PackageInstall) string {
		if len(p.Status.Warnings) != 1 {
			return fmt.Sprintf("want 1 warning, have %+v", p.Status)
		}
		return endedPKGI(p, v1alpha1.ReconcileSucceeded)
	})

	w.secret("overlay", "overlay.yml", "#@ load(\"@ytt:overlay\", \"overlay\")\n#@overlay/match by=overlay.all\n---\ndata:\n  #@overlay/match missing_ok=True\n  more: overlaid\n")
	w.annotate("ext.packaging.carvel.dev/ytt-paths-from-secret-name.0", "overlay")
	w.untilConfigMap("web", map[string]string{"version": "1.0.0", "v": "c", "w": "a", "more": "overlaid"})
	w.secret("a", "values.yml", "#@data/values\n---\nv: overlay\n")
	w.editPKGI(func(p *packaging.PackageInstall) {
		p.Annotations["ext.packaging.carvel.dev/ytt-data-values-overlays"] = ""
		p.Spec.Values = p.Spec.Values[:1]
	})
	w.untilConfigMap("web", map[string]string{"version": "1.0.0", "v": "overlay", "w": "default", "more": "overlaid"})
}

// TestInstallOwnership: an App that nobody owns is taken over, one of somebody else
// is not touched, and an App that is controlled by hand neither.
func TestInstallOwnership(t *testing.T) {
	t.Parallel()
	t.Run("Adopted", func(t *testing.T) {
		t.Parallel()
		w := newInstalls(t)
		w.app("web", yttApp(map[string]string{"a.yml": cm("before")}))
		w.succeeded("web")
		w.offerWeb("1.0.0")
		w.install("1.x", "")
		w.installed("1.0.0")
		w.untilWeb("1.0.0", "default")
		w.noConfigMap("before")
		w.deletePKGI()
		w.gonePKGI()
		w.gone("web")
	})
	t.Run("Foreign", func(t *testing.T) {
		t.Parallel()
		w := newInstalls(t)
		owner := &corev1.ConfigMap{}
		owner.Namespace, owner.Name = w.ns, "owner"
		if err := kube.Create(t.Context(), owner); err != nil {
			t.Fatal(err)
		}
		w.app("web", "paused: true\n"+yttApp(map[string]string{"a.yml": cm("before")}))
		yes := true
		w.edit("web", func(a *v1alpha1.App) {
			a.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: owner.UID, Controller: &yes}}
		})
		before := w.get("web")
		w.offerWeb("1.0.0")
		w.install("1.x", "")
		w.failedPKGI("Object " + w.ns + "/web is already owned by another ConfigMap controller owner")
		w.deletePKGI()
		w.gonePKGI()
		if after := w.get("web"); after.Generation != before.Generation || !after.DeletionTimestamp.IsZero() {
			t.Errorf("the App was changed: %+v", after)
		}
	})
	t.Run("Manual", func(t *testing.T) {
		t.Parallel()
		w := newInstalls(t)
		w.offerWeb("1.0.0")
		w.install("1.x", "")
		w.installed("1.0.0")
		w.edit("web", func(a *v1alpha1.App) {
			a.Annotations["ext.packaging.carvel.dev/manually-controlled"] = ""
			a.Spec.NoopDelete = true
		})
		generation := w.get("web").Generation
		w.offerWeb("1.1.0")
		w.installed("1.1.0")
		if got := w.get("web").Generation; got != generation {
			t.Errorf("the App went from generation %d to %d", generation, got)
		}
		w.untilWeb("1.0.0", "default")
		// Without the annotation the App becomes what it should be again.
		w.edit("web", func(a *v1alpha1.App) { delete(a.Annotations, "ext.packaging.carvel.dev/manually-controlled") })
		w.untilWeb("1.1.0", "default")
		if w.get("web").Spec.NoopDelete {
			t.Error("the App keeps what was edited")
		}
	})
}

// patchJSON is what `kctrl package installed pause` and kick send.
func (w installs) patchJSON(op string, value any) {
	w.Helper()
	patch := map[string]any{"op": op, "path": "/spec/paused"}
	if value != nil {
		patch["value"] = value
	}
	text, err := json.Marshal([]any{patch})
	if err != nil {
		w.Fatal(err)
	}
	p := &packaging.PackageInstall{}
	p.Namespace, p.Name = w.ns, "web"
	if err := kube.Patch(w.Context(), p, client.RawPatch(types.JSONPatchType, text)); err != nil {
		w.Fatal(err)
	}
}

// TestInstallPaused: paused, kicked, created paused, deleted while paused.
func TestInstallPaused(t *testing.T) {
	t.Parallel()
	paused := func(p *packaging.PackageInstall) string {
		s := p.Status
		if s.ObservedGeneration != p.Generation || s.FriendlyDescription != "Canceled/paused" {
			return fmt.Sprintf("not paused: %+v", s)
		}
		for _, c := range s.Conditions {
			if c.Type == v1alpha1.Reconciling {
				return fmt.Sprintf("it claims to work: %+v", s)
			}
		}
		return ""
	}
	t.Run("Kick", func(t *testing.T) {
		t.Parallel()
		w := newInstalls(t)
		w.offerWeb("1.0.0")
		w.install("1.x", "")
		w.installed("1.0.0")
		w.patchJSON("add", true)
		w.until("web", func(a *v1alpha1.App) string {
			if a.Status.ObservedGeneration != a.Generation {
				return "not observed"
			}
			return contains(a.Status.FriendlyDescription, "Canceled/paused")
		})
		w.untilPKGI("web", paused)
		w.patchJSON("remove", nil)
		w.until("web", func(a *v1alpha1.App) string {
			if a.Generation != 3 {
				return "the App is still paused"
			}
			return ended(a, v1alpha1.ReconcileSucceeded)
		})
		w.installed("1.0.0")
	})
	t.Run("Created", func(t *testing.T) {
		t.Parallel()
		w := newInstalls(t)
		w.offerWeb("1.0.0")
		w.install("1.x", "  paused: true\n")
		p := w.untilPKGI("web", paused)
		if len(p.Status.Conditions) > 0 {
			t.Errorf("conditions of what has done nothing: %+v", p.Status)
		}
		w.deletePKGI()
		w.gonePKGI()
		w.gone("web")
	})
	t.Run("Deleted", func(t *testing.T) {
		t.Parallel()
		w := newInstalls(t)
		w.offerWeb("1.0.0")
		w.install("1.x", "")
		w.installed("1.0.0")
		w.editPKGI(func(p *packaging.PackageInstall) { p.Spec.Paused = true })
		w.untilPKGI("web", paused)
		w.deletePKGI()
		w.gonePKGI()
		w.noConfigMap("web")
	})
	t.Run("Canceled", func(t *testing.T) {
		t.Parallel()
		w := newInstalls(t)
		stuck := strings.ReplaceAll(indent(deployment("stuck", nowhere)), "\n", "\n            ")
		w.offer(w.ns, "1.0.0", "  template:\n    spec:\n      fetch:\n      - inline:\n          paths:\n            d.yml: |\n            "+stuck+"\n      template: [{ytt: {}}]\n      deploy: [{kapp: {}}]\n")
		w.install("1.x", "")
		w.until("web", waiting)
		w.editPKGI(func(p *packaging.PackageInstall) { p.Spec.Canceled = true })
		w.untilPKGI("web", paused)
		w.deletePKGI()
		w.gonePKGI()
	})
}

// TestInstallDelete: with nothing left of it, or all; with its namespace; and what
// is said when its App cannot be deleted.
func TestInstallDelete(t *testing.T) {
	t.Parallel()
	t.Run("Noop", func(t *testing.T) {
		t.Parallel()
		w := newInstalls(t)
		w.offerWeb("1.0.0")
		w.install("1.x", "")
		w.installed("1.0.0")
		w.editPKGI(func(p *packaging.PackageInstall) { p.Spec.NoopDelete = true })
		w.deletePKGI()
		w.gonePKGI()
		w.gone("web")
		w.configMap("web")
	})
	t.Run("Namespace", func(t *testing.T) {
		t.Parallel()
		w := newInstalls(t)
		w.offerWeb("1.0.0")
		w.install("1.x", "")
		w.installed("1.0.0")
		w.deleteNamespace()
		w.namespaceGone()
	})
	t.Run("Failed", func(t *testing.T) {
		t.Parallel()
		w := newInstalls(t)
		w.offerWeb("1.0.0")
		w.install("1.x", "")
		w.installed("1.0.0")
		w.editPKGI(func(p *packaging.PackageInstall) { p.Spec.ServiceAccountName = "nobody" })
		w.deletePKGI()
		p := w.untilPKGI("web", func(p *packaging.PackageInstall) string { return endedPKGI(p, v1alpha1.DeleteFailed) })
		if problem := contains(p.Status.UsefulErrorMessage, `serviceaccounts "nobody" not found`); problem != "" {
			t.Error(problem)
		}
		if want := "Delete failed: Error (see .status.usefulErrorMessage for details)"; p.Status.FriendlyDescription != want {
			t.Errorf("%q, want %q", p.Status.FriendlyDescription, want)
		}
		// The way out is taken up although the App is being deleted already.
		w.editPKGI(func(p *packaging.PackageInstall) { p.Spec.ServiceAccountName = "deployer" })
		w.gonePKGI()
		w.noConfigMap("web")
	})
	t.Run("Never", func(t *testing.T) {
		t.Parallel()
		w := newInstalls(t)
		w.install("1.x", "")
		w.untilPKGI("web", func(p *packaging.PackageInstall) string { return endedPKGI(p, v1alpha1.ReconcileFailed) })
		w.deletePKGI()
		w.gonePKGI()
	})
}

// TestInstallGlobal: Packages of the global namespace are offered to all others,
// local ones replace them, and a namespace may do without.
func TestInstallGlobal(t *testing.T) {
	t.Parallel()
	w := newInstalls(t)
	t.Cleanup(func() {
		// The test's own context has ended.
		for _, v := range []string{"1.0.0", "1.1.0"} {
			p := &metav1.PartialObjectMetadata{}
			p.APIVersion, p.Kind = "internal.packaging.carvel.dev/v1alpha1", "InternalPackage"
			p.Namespace, p.Name = testenv.GlobalNamespace, storedName(w.refName, v)
			if err := kube.Delete(context.Background(), p); err != nil && !apierrors.IsNotFound(err) {
				t.Error(err)
			}
		}
	})
	w.offer(testenv.GlobalNamespace, "1.0.0", strings.ReplaceAll(webTemplate, "${VERSION}", "global"))
	w.install(">=1.0.0", "")
	w.installed("1.0.0")
	w.untilWeb("global", "default")
	w.offerWeb("1.0.0") // the local one wins
	w.untilWeb("1.0.0", "default")
	w.offer(testenv.GlobalNamespace, "1.1.0", strings.ReplaceAll(webTemplate, "${VERSION}", "global"))
	w.installed("1.1.0")

	exclude := func(value string) {
		t.Helper()
		patch := fmt.Sprintf(`{"metadata":{"annotations":{"kapp-controller.carvel.dev/exclude-global-packages":%s}}}`, value)
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.ns}}
		if err := kube.Patch(t.Context(), ns, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			t.Fatal(err)
		}
	}
	exclude(`""`)
	w.untilPKGI("web", func(p *packaging.PackageInstall) string {
		if len(p.Status.Warnings) == 1 && strings.Contains(p.Status.Warnings[0], "'1.1.0'") {
			return endedPKGI(p, v1alpha1.ReconcileSucceeded)
		}
		return fmt.Sprintf("the global version is still offered: %+v", p.Status)
	})
	w.annotate("packaging.carvel.dev/downgradable", "")
	w.installed("1.0.0")
	exclude("null")
	w.installed("1.1.0")
}
