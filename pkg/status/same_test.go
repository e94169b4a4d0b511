package status_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/status"
)

// synced is the status of an App that was found in order at a time.
func synced(at time.Time) v1alpha1.AppStatus {
	s := with(1, v1alpha1.ReconcileSucceeded, "", "")
	now := metav1.NewTime(at)
	s.FriendlyDescription, s.ConsecutiveReconcileSuccesses = "Reconcile succeeded", at.Minute()
	s.Fetch = &v1alpha1.AppStatusFetch{Stdout: "lock", StartedAt: now, UpdatedAt: now}
	s.Template = &v1alpha1.AppStatusTemplate{UpdatedAt: now}
	s.Deploy = &v1alpha1.AppStatusDeploy{Stdout: "Succeeded", Finished: true, StartedAt: now, UpdatedAt: now, KappDeployStatus: kapp}
	return s
}

const inspected = `Resources in app 'web.app'
Namespace  Name  Kind        Owner  Rs  Ri  Age
shop       web   Deployment  kapp   ok  -   59s
shop       data  ConfigMap   kapp   ok  -   2h`

const inspectedLater = `Resources in app 'web.app'
Namespace  Name  Kind        Owner  Rs  Ri  Age
shop       web   Deployment  kapp   ok  -   1m2s
shop       data  ConfigMap   kapp   ok  -   10h`

func TestUnchanged(t *testing.T) {
	inspect := func(table string) func(*v1alpha1.AppStatus) {
		return func(s *v1alpha1.AppStatus) {
			s.Inspect = &v1alpha1.AppStatusInspect{Stdout: table, UpdatedAt: s.Fetch.UpdatedAt}
		}
	}
	nothing := func(*v1alpha1.AppStatus) {}
	cases := map[string]struct {
		reason    string
		old, next func(*v1alpha1.AppStatus)
		want      bool
	}{
		"Times":      {"only times and the counter differ", nothing, nothing, true},
		"Commit":     {"another commit", nothing, func(s *v1alpha1.AppStatus) { s.Fetch.Stdout = "other" }, false},
		"Warning":    {"a tool warns", nothing, func(s *v1alpha1.AppStatus) { s.Template.Stderr = "deprecated" }, false},
		"Deployed":   {"kapp did something", nothing, func(s *v1alpha1.AppStatus) { s.Deploy.Stdout = "1 update" }, false},
		"Resources":  {"the App has other objects", nothing, func(s *v1alpha1.AppStatus) { s.Deploy.KappDeployStatus = nil }, false},
		"Generation": {"another spec", nothing, func(s *v1alpha1.AppStatus) { s.ObservedGeneration = 2 }, false},
		"Recovered":  {"it had failed before", func(s *v1alpha1.AppStatus) { *s = with(1, v1alpha1.ReconcileFailed, "no", "no") }, nothing, false},
		"Failed": {"a failure is written even if it is the same", func(s *v1alpha1.AppStatus) { *s = with(1, v1alpha1.ReconcileFailed, "no", "no") },
			func(s *v1alpha1.AppStatus) { *s = with(1, v1alpha1.ReconcileFailed, "no", "no") }, false},
		"Paused":     {"it was paused before", func(s *v1alpha1.AppStatus) { s.FriendlyDescription = "Canceled/paused" }, nothing, false},
		"Ages":       {"objects grow older", inspect(inspected), inspect(inspectedLater), true},
		"Inspected":  {"an object is not ready any more", inspect(inspected), inspect("Resources in app 'web.app'\nshop  web  Deployment  kapp  fail  -  59s"), false},
		"NoInspect":  {"the table is gone", inspect(inspected), nothing, false},
		"Unreadable": {"bytes that are not UTF-8 are stored as other ones", func(s *v1alpha1.AppStatus) { s.Fetch.Stderr = "\uFFFD" }, func(s *v1alpha1.AppStatus) { s.Fetch.Stderr = "\xff" }, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			old, next := synced(at), synced(at.Add(3*time.Minute))
			c.old(&old)
			c.next(&next)
			if got := status.Unchanged(old, next); got != c.want {
				t.Errorf("%s: unchanged %t, want %t", c.reason, got, c.want)
			}
		})
	}
}
