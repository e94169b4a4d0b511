package e2e

import (
	"strings"
	"testing"
	"time"
)

// TestStatusOfASuccess: every stage's outcome is in the status, as clients expect it.
func TestStatusOfASuccess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.app("simple", strings.Replace(yttApp(map[string]string{"config.yml": cm("simple", "key", "value")}), "kapp: {}", "kapp: {inspect: {}}", 1))
	app := w.succeeded("simple")
	w.wantConfigMap("simple", map[string]string{"key": "value"})

	s := app.Status
	if s.ObservedGeneration != app.Generation || s.ConsecutiveReconcileSuccesses != 1 || s.ConsecutiveReconcileFailures != 0 {
		t.Errorf("generation %d observed as %d, %d successes, %d failures", app.Generation, s.ObservedGeneration, s.ConsecutiveReconcileSuccesses, s.ConsecutiveReconcileFailures)
	}
	if s.Fetch == nil || s.Fetch.ExitCode != 0 || !strings.Contains(s.Fetch.Stdout, "kind: LockConfig") {
		t.Errorf("fetch: %+v", s.Fetch)
	}
	if s.Template == nil || s.Template.ExitCode != 0 {
		t.Errorf("template: %+v", s.Template)
	}
	if s.Deploy == nil || !s.Deploy.Finished || s.Deploy.ExitCode != 0 || !strings.HasPrefix(s.Deploy.Stdout, "Target cluster '") || !strings.HasSuffix(s.Deploy.Stdout, "Succeeded") {
		t.Errorf("deploy: %+v", s.Deploy)
	}
	if s.Inspect == nil || !strings.Contains(s.Inspect.Stdout, "Resources in app 'simple.app'") {
		t.Errorf("inspect: %+v", s.Inspect)
	}
	for _, times := range [][2]time.Time{
		{s.Fetch.StartedAt.Time, s.Fetch.UpdatedAt.Time}, {s.Fetch.UpdatedAt.Time, s.Template.UpdatedAt.Time},
		{s.Template.UpdatedAt.Time, s.Deploy.UpdatedAt.Time}, {s.Deploy.StartedAt.Time, s.Deploy.UpdatedAt.Time},
	} {
		if times[0].IsZero() || times[1].Before(times[0]) {
			t.Errorf("stage times out of order: %v", times)
		}
	}
	res := s.Deploy.KappDeployStatus.AssociatedResources
	if !strings.HasPrefix(res.Label, "kapp.k14s.io/app=") || len(res.Namespaces) != 1 || res.Namespaces[0] != w.ns || len(res.GroupKinds) != 1 || res.GroupKinds[0].Kind != "ConfigMap" {
		t.Errorf("associated resources: %+v", res)
	}
	if len(app.Finalizers) != 1 || app.Finalizers[0] != "finalizers.kapp-ctrl.k14s.io/delete" {
		t.Errorf("finalizers: %v", app.Finalizers)
	}
}
