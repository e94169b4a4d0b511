package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/test/testenv"
)

// events are those about an App, as `kubectl events` finds them.
func (w world) events(name string) []corev1.Event {
	w.Helper()
	list, err := env.Core.CoreV1().Events(w.ns).List(w.Context(), metav1.ListOptions{FieldSelector: "involvedObject.kind=App,involvedObject.name=" + name})
	if err != nil {
		w.Fatal(err)
	}
	return list.Items
}

// wantEvents waits for exactly these events: type, reason, text, and how often.
func (w world) wantEvents(name string, want ...string) {
	w.Helper()
	slices.Sort(want)
	testenv.Eventually(w, patience, func(context.Context) string {
		var got []string
		for _, e := range w.events(name) {
			got = append(got, fmt.Sprintf("%s %s %s %d", e.Type, e.Reason, e.Message, e.Count))
			if e.InvolvedObject.UID == "" || e.Source.Component != "garboard" || len(e.Message) > 1024 {
				w.Errorf("event %+v", e)
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			return "-want +got:\n" + diff
		}
		return ""
	})
}

// TestEvents: each new outcome of an App is told once, however often it is tried.
func TestEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.app("told", "syncPeriod: 10h\n"+yttApp(map[string]string{"a.yml": "v: #@ missing_one"}))
	w.until("told", func(a *v1alpha1.App) string {
		if a.Status.ConsecutiveReconcileFailures < 3 {
			return fmt.Sprintf("%d failures", a.Status.ConsecutiveReconcileFailures)
		}
		return ""
	})
	one := "Warning ReconcileFailed Templating dir: ytt: Error: - undefined: missing_one a.yml:1 | v: #@ missing_one 1"
	w.wantEvents("told", one)

	w.app("told", "syncPeriod: 10h\n"+yttApp(map[string]string{"a.yml": cm("told-config")}))
	w.succeeded("told")
	ok := "Normal ReconcileSucceeded Reconcile succeeded 1"
	w.wantEvents("told", one, ok)

	// The same edit and its outcome are another event than the ones before.
	w.app("told", "syncPeriod: 10h\nserviceAccountName: nobody\n"+strings.Replace(yttApp(map[string]string{"a.yml": cm("told-config")}), "serviceAccountName: deployer", "", 1))
	w.failed("told")
	gone := `Warning ReconcileFailed Preparing kapp: Getting service account: serviceaccounts "nobody" not found`
	testenv.Eventually(t, patience, func(context.Context) string {
		for _, e := range w.events("told") {
			if strings.HasPrefix(fmt.Sprintf("%s %s %s", e.Type, e.Reason, e.Message), gone) && e.Count == 1 {
				return ""
			}
		}
		return fmt.Sprintf("%+v", w.events("told"))
	})
	w.delete("told")
	testenv.Eventually(t, patience, func(context.Context) string {
		for _, e := range w.events("told") {
			if e.Reason == "DeleteFailed" && e.Type == "Warning" {
				return ""
			}
		}
		return "no event of the delete that failed"
	})
	w.edit("told", func(a *v1alpha1.App) { a.Spec.ServiceAccountName = "deployer" })
	w.gone("told")
	testenv.Eventually(t, patience, func(context.Context) string {
		for _, e := range w.events("told") {
			if e.Reason == "Deleted" && e.Type == "Normal" && e.Message == "Delete succeeded" && e.Count == 1 {
				return ""
			}
		}
		return "no event of the delete"
	})
}

// TestEventsKeepSecrets: what a run read from a Secret is in none of its events.
func TestEventsKeepSecrets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const secret = "hunter2-and-more"
	w.apply("{apiVersion: v1, kind: Secret, metadata: {name: values}, stringData: {values.yml: 'password: " + secret + "'}}")
	w.app("loud", "fetch:\n"+inline(map[string]string{
		"a.yml":      "#@ load(\"@ytt:data\", \"data\")\n#@ load(\"@ytt:assert\", \"assert\")\nv: #@ assert.fail(\"the password is \" + data.values.password)\n",
		"schema.yml": "#@data/values-schema\n---\npassword: ''\n",
	})+"template: [{ytt: {valuesFrom: [{secretRef: {name: values}}]}}]\ndeploy: [{kapp: {}}]\n")
	w.failed("loud")
	testenv.Eventually(t, patience, func(context.Context) string {
		all := w.events("loud")
		if len(all) != 1 {
			return fmt.Sprintf("%d events", len(all))
		}
		if strings.Contains(all[0].Message, secret) || !strings.Contains(all[0].Message, "the password is") {
			t.Fatalf("event: %s", all[0].Message)
		}
		return ""
	})
}
