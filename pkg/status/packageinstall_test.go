package status_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	kappctrl "github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	packaging "github.com/garboard-dev/garboard/pkg/apis/packaging/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/status"
)

func generic(generation int64, c kappctrl.ConditionType, message, friendly, useful string) kappctrl.GenericStatus {
	s := kappctrl.GenericStatus{ObservedGeneration: generation, FriendlyDescription: friendly, UsefulErrorMessage: useful}
	if c != "" {
		s.Conditions = []kappctrl.Condition{{Type: c, Status: "True", Message: message}}
	}
	return s
}

func TestProjectPackageInstall(t *testing.T) {
	const see = "Error (see .status.usefulErrorMessage for details)"
	app := func(change func(*kappctrl.App)) *kappctrl.App {
		a := &kappctrl.App{}
		a.Generation = 7
		a.Status.GenericStatus = generic(7, kappctrl.ReconcileSucceeded, "", "Reconcile succeeded", "")
		change(a)
		return a
	}
	is := func(c kappctrl.ConditionType, useful string) func(*kappctrl.App) {
		return func(a *kappctrl.App) { a.Status.GenericStatus = generic(7, c, "", "", useful) }
	}
	pausedApp := func(c kappctrl.ConditionType) func(*kappctrl.App) {
		return func(a *kappctrl.App) {
			a.Spec.Paused = true
			a.Status.GenericStatus = generic(7, c, "", "Canceled/paused", "")
		}
	}
	old := packaging.PackageInstallStatus{
		GenericStatus: generic(1, kappctrl.ReconcileFailed, "old", "Reconcile failed: old", "old"),
		Version:       "1.0.0", LastAttemptedVersion: "1.0.0", Warnings: []string{"old"},
	}
	cases := map[string]struct {
		reason string
		in     status.Install
		want   kappctrl.GenericStatus
	}{
		"Created":    {"an App that has done nothing yet", status.Install{App: app(func(a *kappctrl.App) { a.Status = kappctrl.AppStatus{} })}, generic(2, kappctrl.Reconciling, "", "Reconciling", "")},
		"Changed":    {"the App's success is that of its old spec", status.Install{App: app(func(a *kappctrl.App) { a.Generation = 8 })}, generic(2, kappctrl.Reconciling, "", "Reconciling", "")},
		"NoApp":      {"about to be made", status.Install{}, generic(2, kappctrl.Reconciling, "", "Reconciling", "")},
		"Works":      {"the App works", status.Install{App: app(is(kappctrl.Reconciling, ""))}, generic(2, kappctrl.Reconciling, "", "Reconciling", "")},
		"Succeeded":  {"and is done", status.Install{App: app(func(*kappctrl.App) {})}, generic(2, kappctrl.ReconcileSucceeded, "", "Reconcile succeeded", "")},
		"Failed":     {"or is not", status.Install{App: app(is(kappctrl.ReconcileFailed, "kapp: no"))}, generic(2, kappctrl.ReconcileFailed, see, "Reconcile failed: "+see, "kapp: no")},
		"Selection":  {"no version: the text is in all places", status.Install{Failure: "short"}, generic(2, kappctrl.ReconcileFailed, "short", "Reconcile failed: short", "short")},
		"Hidden":     {"the downgrade rule's form", status.Install{Failure: "stopped\nhint", Hidden: true}, generic(2, kappctrl.ReconcileFailed, see, "Reconcile failed: "+see, "stopped\nhint")},
		"Lines":      {"the description has the first line", status.Install{Failure: "one\ntwo"}, generic(2, kappctrl.ReconcileFailed, "one\ntwo", "Reconcile failed: one...", "one\ntwo")},
		"Long":       {"and at most 80 bytes", status.Install{Failure: strings.Repeat("x", 81)}, generic(2, kappctrl.ReconcileFailed, strings.Repeat("x", 81), "Reconcile failed: "+strings.Repeat("x", 80)+"...", strings.Repeat("x", 81))},
		"Rune":       {"a rune stays whole", status.Install{Failure: strings.Repeat("x", 79) + "ü"}, generic(2, kappctrl.ReconcileFailed, strings.Repeat("x", 79)+"ü", "Reconcile failed: "+strings.Repeat("x", 79)+"...", strings.Repeat("x", 79)+"ü")},
		"PausedNew":  {"paused when it was created: nothing goes on", status.Install{App: app(pausedApp(""))}, generic(2, "", "", "Canceled/paused", "")},
		"PausedLate": {"paused after a success", status.Install{App: app(pausedApp(kappctrl.ReconcileSucceeded))}, generic(2, kappctrl.ReconcileSucceeded, "", "Canceled/paused", "")},
		"Canceled":   {"a run was cut short", status.Install{App: app(pausedApp(kappctrl.Reconciling))}, generic(2, "", "", "Canceled/paused", "")},
		"PausedSoon": {"the App has not noticed yet", status.Install{App: app(func(a *kappctrl.App) { pausedApp("")(a); a.Generation++ })}, generic(2, kappctrl.Reconciling, "", "Reconciling", "")},
		"AppGoes":    {"somebody deletes the App", status.Install{App: app(is(kappctrl.Deleting, ""))}, generic(2, kappctrl.Reconciling, "", "Reconciling", "")},
		"Deleting":   {"the App is being deleted", status.Install{Deleting: true, App: app(is(kappctrl.Deleting, ""))}, generic(2, kappctrl.Deleting, "", "Deleting", "")},
		"DeleteSoon": {"its success is not ours", status.Install{Deleting: true, App: app(func(*kappctrl.App) {})}, generic(2, kappctrl.Deleting, "", "Deleting", "")},
		"DeleteFail": {"the App cannot be deleted", status.Install{Deleting: true, App: app(is(kappctrl.DeleteFailed, "no rights"))}, generic(2, kappctrl.DeleteFailed, see, "Delete failed: "+see, "no rights")},
		"DeleteErr":  {"the App cannot be reached", status.Install{Deleting: true, Failure: "forbidden"}, generic(2, kappctrl.DeleteFailed, "forbidden", "Delete failed: forbidden", "forbidden")},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.in.Generation = 2
			got := status.ProjectPackageInstall(old, c.in)
			want := packaging.PackageInstallStatus{GenericStatus: c.want, Version: "1.0.0", LastAttemptedVersion: "1.0.0"}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
	got := status.ProjectPackageInstall(old, status.Install{Version: "2.0.0", Warnings: []string{"w"}})
	if got.Version != "2.0.0" || got.LastAttemptedVersion != "1.0.0" || got.Warnings[0] != "w" || old.Warnings[0] != "old" {
		t.Errorf("versions and warnings: %+v", got)
	}
}

// FuzzFitPackageInstall: a status of any texts fits and is text.
func FuzzFitPackageInstall(f *testing.F) {
	f.Add("failure", "warning", 100)
	f.Add("\xff<\n", "ü", 1)
	f.Fuzz(func(t *testing.T, failure, warning string, times int) {
		n := 1 + int(uint(times)%300)
		in := status.Install{Failure: strings.Repeat(failure, n)}
		for range n {
			in.Warnings = append(in.Warnings, strings.Repeat(warning, n))
		}
		const budget = 64 << 10
		s := status.FitPackageInstall(status.ProjectPackageInstall(packaging.PackageInstallStatus{}, in), budget)
		size := len(s.UsefulErrorMessage) + len(s.FriendlyDescription) + len(s.Conditions[0].Message)
		for _, text := range append(s.Warnings, s.UsefulErrorMessage, s.FriendlyDescription, s.Conditions[0].Message) {
			if !utf8.ValidString(text) {
				t.Fatalf("%q is no text", text)
			}
		}
		for _, w := range s.Warnings {
			size += len(w)
		}
		if size > 2*budget {
			t.Fatalf("%d bytes", size)
		}
	})
}
