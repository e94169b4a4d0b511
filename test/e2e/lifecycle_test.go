package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/test/testenv"
	"github.com/garboard-dev/garboard/test/testenv/controlplane"
)

// deployment is a Deployment that becomes ready, or with a node selector never is scheduled.
func deployment(name, nodeSelector string) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      nodeSelector: {%[2]s}
      containers: [{name: web, image: "registry.example.com/web:1"}]
`, name, nodeSelector)
}

const nowhere = `disk: "none-has-it"`

func TestDelete(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		change func(world)
		stays  bool
	}{
		"Deletes":  {"what was deployed goes with the App", func(world) {}, false},
		"Noop":     {"noopDelete leaves it", func(w world) { w.edit("a", func(a *v1alpha1.App) { a.Spec.NoopDelete = true }) }, true},
		"Paused":   {"a paused App can be deleted", func(w world) { w.edit("a", func(a *v1alpha1.App) { a.Spec.Paused = true }) }, false},
		"Canceled": {"and a canceled one", func(w world) { w.edit("a", func(a *v1alpha1.App) { a.Spec.Canceled = true }) }, false},
		"Failing": {"one that fails by now still knows what it deployed", func(w world) {
			w.edit("a", func(a *v1alpha1.App) { a.Spec.Template = nil })
			w.failed("a")
		}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.app("a", yttApp(map[string]string{"a.yml": cm("a-config")}))
			w.succeeded("a")
			c.change(w)
			w.delete("a")
			w.gone("a")
			if c.stays {
				w.configMap("a-config")
			} else {
				w.noConfigMap("a-config")
			}
		})
	}
}

func contains(text, part string) string {
	if strings.Contains(text, part) {
		return ""
	}
	return fmt.Sprintf("%q does not contain %q", text, part)
}

// TestDeleteWithoutAccount: an App that never deployed anything goes, although
// its service account never existed; one that did says what is missing.
func TestDeleteWithoutAccount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	spec := indent(yttApp(map[string]string{"a.yml": cm("a-config")}))
	w.apply("apiVersion: kappctrl.k14s.io/v1alpha1\nkind: App\nmetadata: {name: never}\nspec:\n  serviceAccountName: nobody\n" + spec)
	w.failed("never")
	w.delete("never")
	w.gone("never")

	w.app("once", yttApp(map[string]string{"a.yml": cm("a-config")}))
	w.succeeded("once")
	w.edit("once", func(a *v1alpha1.App) { a.Spec.ServiceAccountName = "nobody" })
	w.failed("once")
	w.delete("once")
	app := w.until("once", func(a *v1alpha1.App) string { return ended(a, v1alpha1.DeleteFailed) })
	if problem := contains(app.Status.FriendlyDescription, `Delete failed: Preparing kapp: Getting service account: serviceaccounts "nobody" not found`); problem != "" {
		t.Error(problem)
	}
	w.edit("once", func(a *v1alpha1.App) { a.Spec.NoopDelete = true })
	w.gone("once")
	w.configMap("a-config")
}

// TestDeleteEndsARunningDeploy: a delete does not wait for a deploy that waits.
func TestDeleteEndsARunningDeploy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.app("stuck", yttApp(map[string]string{"d.yml": deployment("stuck", nowhere)}))
	w.until("stuck", waiting)
	w.delete("stuck")
	w.gone("stuck")
	if err := kube.Get(t.Context(), client.ObjectKey{Namespace: w.ns, Name: "stuck"}, &appsv1.Deployment{}); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the Deployment is still there: %v", err)
	}
}

// waiting says whether the live output shows that a deploy waits.
func waiting(a *v1alpha1.App) string {
	if a.Status.Deploy == nil || a.Status.Deploy.Finished {
		return "no deploy is running"
	}
	return contains(a.Status.Deploy.Stdout, "waiting on")
}

func TestCancelEndsARunningDeploy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.app("stuck", yttApp(map[string]string{"d.yml": deployment("stuck", nowhere)}))
	if s := w.until("stuck", waiting).Status; s.FriendlyDescription != "Reconciling" || s.Conditions[0].Type != v1alpha1.Reconciling || s.Deploy.ExitCode != 0 {
		t.Errorf("while it runs: %q %+v exit code %d", s.FriendlyDescription, s.Conditions, s.Deploy.ExitCode)
	}
	w.edit("stuck", func(a *v1alpha1.App) { a.Spec.Canceled = true })
	app := w.until("stuck", func(a *v1alpha1.App) string {
		if a.Status.ObservedGeneration != a.Generation {
			return "the cancel was not seen"
		}
		return contains(a.Status.FriendlyDescription, "Canceled/paused")
	})
	if problem := contains(app.Status.Deploy.Error, "Deploying: Process was canceled"); problem != "" {
		t.Error(problem)
	}
	w.edit("stuck", func(a *v1alpha1.App) {
		a.Spec.Canceled = false
		a.Spec.Fetch[0].Inline.Paths["d.yml"] = deployment("stuck", "")
	})
	w.succeeded("stuck")
}

func TestPause(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.app("p", yttApp(map[string]string{"a.yml": cm("p-config", "v", "1")}))
	w.succeeded("p")
	w.edit("p", func(a *v1alpha1.App) { a.Spec.Paused = true })
	w.until("p", func(a *v1alpha1.App) string { return contains(a.Status.FriendlyDescription, "Canceled/paused") })
	w.edit("p", func(a *v1alpha1.App) { a.Spec.Fetch[0].Inline.Paths["a.yml"] = cm("p-config", "v", "2") })
	app := w.until("p", func(a *v1alpha1.App) string {
		if a.Status.ObservedGeneration != a.Generation {
			return "the edit was not seen"
		}
		return ""
	})
	if app.Status.Conditions[0].Type != v1alpha1.ReconcileSucceeded || app.Status.FriendlyDescription != "Canceled/paused" {
		t.Errorf("a paused App reads %q %+v", app.Status.FriendlyDescription, app.Status.Conditions)
	}
	w.wantConfigMap("p-config", map[string]string{"v": "1"})
	w.edit("p", func(a *v1alpha1.App) { a.Spec.Paused = false })
	w.succeeded("p")
	w.wantConfigMap("p-config", map[string]string{"v": "2"})
}

// TestMissingReferenceAppears: an App that failed for want of a Secret runs as
// soon as it exists, without waiting for its back-off.
func TestMissingReferenceAppears(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.app("early", "syncPeriod: 10h\nfetch: [{inline: {pathsFrom: [{secretRef: {name: files}}]}}]\n"+deployAll)
	w.until("early", func(a *v1alpha1.App) string {
		if a.Status.ConsecutiveReconcileFailures < 5 {
			return fmt.Sprintf("%d failures: the back-off is still short", a.Status.ConsecutiveReconcileFailures)
		}
		return ""
	})
	w.apply(fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {name: files}, stringData: {a.yml: %q}}", cm("early-config")))
	w.succeeded("early")
	if got := w.get("early").Status.ConsecutiveReconcileSuccesses; got != 1 {
		t.Errorf("%d successes, want 1", got)
	}
}

// TestClusterFailures: what only a cluster can refuse.
func TestClusterFailures(t *testing.T) {
	t.Parallel()
	t.Run("Ownership", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.app("first", yttApp(map[string]string{"a.yml": cm("shared")}))
		w.succeeded("first")
		w.app("second", yttApp(map[string]string{"a.yml": cm("shared")}))
		app := w.failed("second")
		checkFailure(t, app, "deploy", "Deploying: Error (see .status.usefulErrorMessage for details)", []string{
			"kapp: Error: Ownership errors", "configmap/shared", "first.app",
		})
		w.app("second", yttApp(map[string]string{"a.yml": cm("own")}))
		w.succeeded("second")
	})
	t.Run("Forbidden", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.app("intruder", yttApp(map[string]string{"a.yml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: default}\n"}))
		app := w.failed("intruder")
		checkFailure(t, app, "deploy", "Deploying: Error", []string{"kapp: Error:", `User "system:serviceaccount:` + w.ns + `:deployer" cannot`, "default"})
		w.app("intruder", yttApp(map[string]string{"a.yml": cm("c")}))
		w.succeeded("intruder")
	})
	t.Run("Unschedulable", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.app("big", strings.Replace(yttApp(map[string]string{"d.yml": deployment("big", nowhere)}), "kapp: {}", "kapp: {rawOptions: ['--wait-timeout=6s', '--wait-check-interval=1s']}", 1))
		app := w.failed("big")
		checkFailure(t, app, "deploy", "Deploying: Error", []string{"kapp: Error:", "Timed out waiting after 6s", "deployment/big"})
		if problem := contains(app.Status.Deploy.Stdout, "nodes are available"); problem != "" {
			t.Errorf("the reason why nothing was scheduled is not shown: %s", problem)
		}
		w.app("big", yttApp(map[string]string{"d.yml": deployment("big", "")}))
		w.succeeded("big")
	})
}

// TestSyncPeriodCorrects: what someone changed by hand is as declared again after
// the sync period, and a quiet reconcile writes the status once.
func TestSyncPeriodCorrects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.app("sync", "syncPeriod: 30s\n"+yttApp(map[string]string{"a.yml": cm("sync-config", "v", "declared")}))
	w.succeeded("sync")
	w.apply(cm("sync-config", "v", "by hand"))
	since := time.Now()
	w.untilConfigMap("sync-config", map[string]string{"v": "declared"})
	w.until("sync", func(a *v1alpha1.App) string {
		if got := a.Status.ConsecutiveReconcileSuccesses; got != 2 {
			return fmt.Sprintf("%d reconciles, want 2", got)
		}
		return ""
	})
	testenv.Eventually(t, patience, func(context.Context) string {
		got := env.AuditCount(t, controlplane.Filter{User: testenv.ControllerUser, Verb: "update", Resource: "apps", Subresource: "status", Namespace: w.ns, Since: since})
		if got < 1 || got > 3 {
			return fmt.Sprintf("%d status writes", got)
		}
		return ""
	})
}
