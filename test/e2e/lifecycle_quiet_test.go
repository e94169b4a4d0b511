package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/test/testenv"
	"github.com/garboard-dev/garboard/test/testenv/controlplane"
)

func (w world) deleteSecret(name string) {
	w.Helper()
	if err := env.Core.CoreV1().Secrets(w.ns).Delete(w.Context(), name, metav1.DeleteOptions{}); err != nil {
		w.Fatal(err)
	}
}

// runs is how often an App was begun and how often it succeeded, as the present
// controller counts.
func (w world) runs(ctx context.Context, name string) (begun, succeeded float64) {
	w.Helper()
	of := func(counter string) float64 {
		return metric(ctx, w, fmt.Sprintf("kappctrl_app_reconcile_%s_total{controller=\"App\",name=%q,namespace=%q}", counter, name, w.ns))
	}
	return of("attempt"), of("success")
}

// untilRuns waits until an App has succeeded so often.
func (w world) untilRuns(name string, want float64) {
	w.Helper()
	testenv.Eventually(w, patience, func(ctx context.Context) string {
		if _, got := w.runs(ctx, name); got < want {
			return fmt.Sprintf("%s: %v successes, want %v", name, got, want)
		}
		return ""
	})
}

// TestSyncWritesNothing: a sync that finds everything as it was leaves the App's
// object alone. The second run still writes, as kapp has nothing to do any more.
func TestSyncWritesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if _, err := servers.Git.Commit(t.Context(), "quiet", file("cm.yml", cm("quiet-git")), "first"); err != nil {
		t.Fatal(err)
	}
	const period = "syncPeriod: 30s\n"
	w.app("inline", period+yttApp(map[string]string{"a.yml": cm("quiet-inline")}))
	w.app("inspected", period+strings.Replace(yttApp(map[string]string{"a.yml": cm("quiet-inspected")}), "kapp: {}", "kapp: {inspect: {}}", 1))
	w.app("git", period+fmt.Sprintf("fetch: [{git: {url: %q, ref: origin/main}}]\n", servers.Git.RepoURL("quiet"))+deployAll)
	names := []string{"inline", "inspected", "git"}
	settled := map[string]string{}
	for _, name := range names {
		w.succeeded(name)
		w.untilRuns(name, 2)
	}
	for _, name := range names {
		settled[name] = w.until(name, successes(2)).ResourceVersion
	}
	since := time.Now()
	for _, name := range names {
		w.untilRuns(name, 3)
	}
	// A write would come right after the run is counted: another App's whole run is
	// long enough for it.
	w.app("later", yttApp(map[string]string{"a.yml": cm("quiet-later")}))
	w.succeeded("later")
	for _, name := range names {
		if app := w.get(name); app.ResourceVersion != settled[name] {
			t.Errorf("%s was written: %+v", name, app.Status)
		}
		if n := env.AuditCount(t, controlplane.Filter{User: testenv.ControllerUser, Resource: "apps", Namespace: w.ns, Name: name, Since: since}); n > 0 {
			t.Errorf("%s: %d requests for its object", name, n)
		}
	}
}

// TestRestartRunsNothing is not parallel: it restarts the controller. What is in
// order and not due is left alone, also if it names Secrets; what changed while no
// controller ran is taken up.
func TestRestartRunsNothing(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"same", "other"} {
		w.apply(fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {name: %s}, stringData: {cm.yml: %q}}", name, cm(name+"-config", "v", "1")))
		w.app(name, "syncPeriod: 10h\nfetch: [{inline: {pathsFrom: [{secretRef: {name: "+name+"}}]}}]\n"+deployAll)
	}
	var began time.Time
	for _, name := range []string{"same", "other"} {
		if s := w.succeeded(name).Status; s.ConsecutiveReconcileSuccesses != 1 {
			t.Errorf("%s: %d successes", name, s.ConsecutiveReconcileSuccesses)
		} else if at := s.Fetch.StartedAt.Time; at.After(began) {
			began = at
		}
	}
	// Times of objects and statuses have whole seconds: the change comes in a later one.
	<-time.After(time.Until(began.Add(2 * time.Second)))
	garboard.Controller.Kill()
	w.apply(fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {name: other}, stringData: {cm.yml: %q}}", cm("other-config", "v", "2")))
	if err := garboard.Controller.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.untilConfigMap("other-config", map[string]string{"v": "2"})
	w.until("other", successes(2))
	// Whatever there was to look at has been looked at.
	testenv.Eventually(t, patience, func(ctx context.Context) string {
		left := 0.0
		for _, n := range metrics(ctx, t, `workqueue_depth{controller="app"`) {
			left += n
		}
		if looks := metric(ctx, t, `controller_runtime_reconcile_total{controller="app",result="requeue_after"}`); looks < 2 || left > 0 {
			return fmt.Sprintf("%v looks at Apps, %v to come", looks, left)
		}
		return ""
	})
	if begun, _ := w.runs(t.Context(), "same"); begun != 0 {
		t.Errorf("%v runs of an App that was in order", begun)
	}
	if got := w.get("same").Status.ConsecutiveReconcileSuccesses; got != 1 {
		t.Errorf("%d successes", got)
	}
}

// deny is a webhook that makes the API server refuse what the rule names.
const deny = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: %[1]s}
webhooks:
- name: deny.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  clientConfig: {url: "https://127.0.0.1:1/"}
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}
  rules: [{apiGroups: [kappctrl.k14s.io], apiVersions: ["*"], resources: [apps/status], operations: [UPDATE]}]
`

// TestOutcomeIsNotLost: while no status can be written the deploy is not repeated,
// and its outcome is there when it can.
func TestOutcomeIsNotLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(fmt.Sprintf(deny, w.ns))
	webhooks := env.Core.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	t.Cleanup(func() {
		// The test's own context has ended. It is gone already unless the test failed.
		_ = webhooks.Delete(context.Background(), w.ns, metav1.DeleteOptions{})
	})
	refused := func(since time.Time) int {
		all, err := env.Audit().Requests(controlplane.Filter{User: testenv.ControllerUser, Verb: "update", Resource: "apps", Subresource: "status", Namespace: w.ns, Since: since})
		if err != nil {
			t.Fatal(err)
		}
		return len(slices.DeleteFunc(all, func(r controlplane.Request) bool { return r.Code < 500 }))
	}
	w.waitForWebhook()
	since := time.Now()
	w.app("told-late", "syncPeriod: 10h\n"+yttApp(map[string]string{"a.yml": cm("told-late-config", "v", "1")}))
	w.untilConfigMap("told-late-config", map[string]string{"v": "1"})
	w.untilRuns("told-late", 1)
	testenv.Eventually(t, patience, func(context.Context) string {
		if n := refused(since); n < 5 {
			return fmt.Sprintf("%d refused writes", n)
		}
		return ""
	})
	if err := webhooks.Delete(t.Context(), w.ns, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := w.succeeded("told-late").Status.ConsecutiveReconcileSuccesses; got != 1 {
		t.Errorf("%d successes", got)
	}
	if begun, _ := w.runs(t.Context(), "told-late"); begun != 1 {
		t.Errorf("%v runs", begun)
	}
	changes := env.AuditCount(t, controlplane.Filter{User: "system:serviceaccount:" + w.ns + ":deployer", Verb: "create", Resource: "configmaps", Namespace: w.ns, Name: "told-late-config"})
	if changes > 1 {
		t.Errorf("the ConfigMap was created %d times", changes)
	}
}

// waitForWebhook waits until the API server refuses statuses in the namespace.
func (w world) waitForWebhook() {
	w.Helper()
	app := &v1alpha1.App{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "probe"}}
	app.Spec.Paused = true
	if err := kube.Create(w.Context(), app); err != nil {
		w.Fatal(err)
	}
	testenv.Eventually(w, patience, func(ctx context.Context) string {
		if err := kube.Get(ctx, client.ObjectKeyFromObject(app), app); err != nil {
			return err.Error()
		}
		app.Status.FriendlyDescription = time.Now().String()
		app.Status.Conditions = []v1alpha1.Condition{{Type: v1alpha1.Reconciling, Status: corev1.ConditionTrue}}
		if err := kube.Status().Update(ctx, app); err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
			return fmt.Sprintf("the write was not refused: %v", err)
		}
		return ""
	})
}
