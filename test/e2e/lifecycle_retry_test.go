package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
)

// TestFailuresAreRetried: what failed is tried again long before the sync period is
// over, a restart of the controller does not make the pauses short again, and the first
// try that works ends the row. It is not parallel: it kills the controller.
func TestFailuresAreRetried(t *testing.T) {
	w := newWorld(t)
	url := servers.Files.URL() + "/retried.yml"
	w.app("retried", fmt.Sprintf("syncPeriod: 10h\nfetch: [{http: {url: %q}}]\n", url)+deployAll)
	failures := func(n int) func(*v1alpha1.App) string {
		return func(a *v1alpha1.App) string {
			if got := a.Status.ConsecutiveReconcileFailures; got < n {
				return fmt.Sprintf("%d failures, want %d", got, n)
			}
			return ended(a, v1alpha1.ReconcileFailed)
		}
	}
	before := w.until("retried", failures(2)).Status.ConsecutiveReconcileFailures
	garboard.Controller.Kill()
	states := w.history("retried")
	if err := garboard.Controller.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.until("retried", failures(before+1))
	servers.Files.Put("retried.yml", []byte(cm("retried-config", "v", "1")))
	app := w.succeeded("retried")
	if app.Generation != 1 || app.Status.ConsecutiveReconcileFailures != 0 || app.Status.ConsecutiveReconcileSuccesses != 1 {
		t.Errorf("generation %d, %+v", app.Generation, app.Status.GenericStatus)
	}
	w.wantConfigMap("retried-config", map[string]string{"v": "1"})
	for _, s := range states() {
		c := s.Status.Conditions
		if got := s.Status.ConsecutiveReconcileFailures; got < before && !slices.ContainsFunc(c, func(c v1alpha1.Condition) bool { return c.Type == v1alpha1.ReconcileSucceeded }) {
			t.Errorf("%d failures after the restart, %d before it: %+v", got, before, c)
		}
	}
	if tries := servers.Files.Count("/retried.yml"); tries < before+2 {
		t.Errorf("%d requests for %d failures and a success", tries, before+1)
	}
}

// TestAppliedTogether: Secrets and ConfigMaps that are applied just before the App that
// names them give no reason for a second run: clients look at the first.
func TestAppliedTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	name := func(i int) string { return fmt.Sprintf("together-%d", i) }
	const apps = 8
	for i := range apps {
		w.apply(fmt.Sprintf(`
apiVersion: v1
kind: Secret
metadata: {name: %[1]s}
stringData: {cm.yml: %[2]q}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: %[1]s-values}
data: {values.yml: "{}"}
---
apiVersion: kappctrl.k14s.io/v1alpha1
kind: App
metadata: {name: %[1]s}
spec:
  syncPeriod: 10h
  serviceAccountName: deployer
  fetch: [{inline: {pathsFrom: [{secretRef: {name: %[1]s}}]}}]
  template: [{ytt: {valuesFrom: [{configMapRef: {name: %[1]s-values}}]}}]
  deploy: [{kapp: {}}]
`, name(i), cm(name(i)+"-config")))
	}
	for i := range apps {
		if s := w.succeeded(name(i)).Status; s.ConsecutiveReconcileSuccesses != 1 || s.ObservedGeneration != 1 {
			t.Errorf("%s: %+v", name(i), s.GenericStatus)
		}
	}
	// A change of one Secret comes after all events of before: once its App has run,
	// they have been seen.
	w.apply(fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {name: %s}, stringData: {cm.yml: %q}}", name(0), cm(name(0)+"-config", "v", "2")))
	w.untilConfigMap(name(0)+"-config", map[string]string{"v": "2"})
	for i := 1; i < apps; i++ {
		if begun, _ := w.runs(t.Context(), name(i)); begun != 1 {
			t.Errorf("%s: %v runs", name(i), begun)
		}
	}
}

// TestUnknownFields: a field that an App does not have is told to whoever asks the API
// server to be strict, which kubectl does, and stops nobody who does not.
func TestUnknownFields(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	app := func() *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "kappctrl.k14s.io/v1alpha1", "kind": "App", "metadata": map[string]any{"name": "typo", "namespace": w.ns},
			"spec": map[string]any{"serviceAccountName": "deployer", "fetch": []any{map[string]any{"git": map[string]any{"url": "https://example.com", "reff": "main"}}}},
		}}
	}
	strict := client.WithFieldValidation(kube, "Strict")
	if err := strict.Create(t.Context(), app()); err == nil || !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), `unknown field "spec.fetch[0].git.reff"`) {
		t.Errorf("strict: %v", err)
	}
	if err := client.WithFieldValidation(kube, "Ignore").Create(t.Context(), app()); err != nil {
		t.Errorf("not strict: %v", err)
	}
}

// TestSecretMadeAnew: a Secret that goes and is back at once is noticed each time,
// whether or not a run found it missing meanwhile.
func TestSecretMadeAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	set := func(v string) {
		w.apply(fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {name: anew}, stringData: {cm.yml: %q}}", cm("anew-config", "v", v)))
	}
	set("0")
	w.app("anew", "syncPeriod: 10h\nfetch: [{inline: {pathsFrom: [{secretRef: {name: anew}}]}}]\n"+deployAll)
	w.succeeded("anew")
	for i := 1; i <= 4; i++ {
		v := fmt.Sprint(i)
		w.deleteSecret("anew")
		set(v)
		w.untilConfigMap("anew-config", map[string]string{"v": v})
	}
	w.succeeded("anew")
}
