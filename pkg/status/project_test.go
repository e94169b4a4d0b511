package status_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/status"
	"github.com/garboard-dev/garboard/pkg/tool"
)

var (
	at   = time.Date(2026, 1, 2, 3, 4, 5, 600, time.UTC)
	atMS = metav1.NewTime(at.Truncate(time.Second))
	kapp = &v1alpha1.KappDeployStatus{AssociatedResources: v1alpha1.AssociatedResources{Label: "kapp.k14s.io/app=1", Namespaces: []string{"t"}}}
)

// before is the status of an App whose first generation failed to template after
// an earlier successful deploy.
func before() v1alpha1.AppStatus {
	return v1alpha1.AppStatus{
		Fetch:                        &v1alpha1.AppStatusFetch{Stdout: "old lock", UpdatedAt: atMS},
		Template:                     &v1alpha1.AppStatusTemplate{Stderr: "E1", ExitCode: 1, Error: "Templating dir: Error"},
		Deploy:                       &v1alpha1.AppStatusDeploy{Stdout: "old deploy", Finished: true, KappDeployStatus: kapp},
		Inspect:                      &v1alpha1.AppStatusInspect{Stdout: "old table"},
		ConsecutiveReconcileFailures: 2,
		GenericStatus: v1alpha1.GenericStatus{
			ObservedGeneration: 1, UsefulErrorMessage: "E1", FriendlyDescription: "Reconcile failed: Templating dir: Error",
			Conditions: []v1alpha1.Condition{{Type: v1alpha1.ReconcileFailed, Status: corev1.ConditionTrue, Message: "Templating dir: Error"}},
		},
	}
}

func ok(out string) *status.Stage { return &status.Stage{Stdout: out, StartedAt: at, EndedAt: at} }

func cond(t v1alpha1.ConditionType, message string) []v1alpha1.Condition {
	return []v1alpha1.Condition{{Type: t, Status: corev1.ConditionTrue, Message: message}}
}

func TestProjectApp(t *testing.T) {
	failed := &status.Stage{Stderr: "vendir: Error: boom\n", ExitCode: 1, Err: "Fetching resources: Error (see .status.usefulErrorMessage for details)", StartedAt: at, EndedAt: at}
	cases := map[string]struct {
		reason string
		out    status.Outcome
		want   func(*v1alpha1.AppStatus)
	}{
		"StartedSameGeneration": {"a retry keeps the message of the try before", status.Outcome{Generation: 1}, func(s *v1alpha1.AppStatus) {
			s.Conditions, s.FriendlyDescription = cond(v1alpha1.Reconciling, ""), "Reconciling"
		}},
		"StartedNewGeneration": {"an error of another spec must not be shown for this one", status.Outcome{Generation: 2}, func(s *v1alpha1.AppStatus) {
			s.ObservedGeneration, s.UsefulErrorMessage = 2, ""
			s.Conditions, s.FriendlyDescription = cond(v1alpha1.Reconciling, ""), "Reconciling"
		}},
		"Paused": {"nothing but generation and description moves", status.Outcome{Generation: 2, Paused: true}, func(s *v1alpha1.AppStatus) {
			s.ObservedGeneration, s.FriendlyDescription = 2, "Canceled/paused"
		}},
		"FetchFailed": {"later stages keep their old outcome", status.Outcome{Generation: 2, Fetch: failed, Done: true}, func(s *v1alpha1.AppStatus) {
			s.ObservedGeneration, s.UsefulErrorMessage = 2, "vendir: Error: boom\n"
			s.Fetch = &v1alpha1.AppStatusFetch{Stderr: failed.Stderr, ExitCode: 1, Error: failed.Err, StartedAt: atMS, UpdatedAt: atMS}
			s.Conditions = cond(v1alpha1.ReconcileFailed, failed.Err)
			s.FriendlyDescription, s.ConsecutiveReconcileFailures, s.Inspect = "Reconcile failed: "+failed.Err, 3, nil
		}},
		"FetchFailedNotDone": {"until the end it is reconciling, whatever a stage says", status.Outcome{Generation: 1, Fetch: failed}, func(s *v1alpha1.AppStatus) {
			s.Fetch = &v1alpha1.AppStatusFetch{Stderr: failed.Stderr, ExitCode: 1, Error: failed.Err, StartedAt: atMS, UpdatedAt: atMS}
			s.Conditions, s.FriendlyDescription = cond(v1alpha1.Reconciling, ""), "Reconciling"
		}},
		"DeployRunning": {"live output, no verdict, the record of before", status.Outcome{Generation: 1, Deploy: ok("so far"), Running: true}, func(s *v1alpha1.AppStatus) {
			s.Deploy = &v1alpha1.AppStatusDeploy{Stdout: "so far", StartedAt: atMS, UpdatedAt: atMS, KappDeployStatus: kapp}
			s.Conditions, s.FriendlyDescription = cond(v1alpha1.Reconciling, ""), "Reconciling"
		}},
		"Succeeded": {"counters turn, messages go", status.Outcome{Generation: 2, Fetch: ok("lock"), Template: ok("ignored"), Deploy: ok("done"), Inspect: ok("table"), Done: true}, func(s *v1alpha1.AppStatus) {
			s.Fetch = &v1alpha1.AppStatusFetch{Stdout: "lock", StartedAt: atMS, UpdatedAt: atMS}
			s.Template = &v1alpha1.AppStatusTemplate{UpdatedAt: atMS}
			s.Deploy = &v1alpha1.AppStatusDeploy{Stdout: "done", Finished: true, StartedAt: atMS, UpdatedAt: atMS, KappDeployStatus: kapp}
			s.Inspect = &v1alpha1.AppStatusInspect{Stdout: "table", UpdatedAt: atMS}
			s.ObservedGeneration, s.ConsecutiveReconcileSuccesses, s.ConsecutiveReconcileFailures = 2, 1, 0
			s.Conditions, s.FriendlyDescription, s.UsefulErrorMessage = cond(v1alpha1.ReconcileSucceeded, ""), "Reconcile succeeded", ""
		}},
		"Broken": {"a failure before the first stage is told too", status.Outcome{Generation: 1, Err: "no work folder", Done: true}, func(s *v1alpha1.AppStatus) {
			s.Conditions, s.FriendlyDescription = cond(v1alpha1.ReconcileFailed, "no work folder"), "Reconcile failed: no work folder"
			s.UsefulErrorMessage, s.ConsecutiveReconcileFailures, s.Inspect = "no work folder", 3, nil
		}},
		"Deleting": {"delete has its own words", status.Outcome{Generation: 2, Deleting: true}, func(s *v1alpha1.AppStatus) {
			s.ObservedGeneration, s.UsefulErrorMessage = 2, ""
			s.Conditions, s.FriendlyDescription = cond(v1alpha1.Deleting, ""), "Deleting"
		}},
		"DeleteFailed": {"and its own failure", status.Outcome{Generation: 1, Deleting: true, Done: true, Deploy: &status.Stage{Err: "Deleting: no", ExitCode: -1, StartedAt: at, EndedAt: at}}, func(s *v1alpha1.AppStatus) {
			s.Deploy = &v1alpha1.AppStatusDeploy{Finished: true, ExitCode: -1, Error: "Deleting: no", StartedAt: atMS, UpdatedAt: atMS, KappDeployStatus: kapp}
			s.Conditions, s.FriendlyDescription = cond(v1alpha1.DeleteFailed, "Deleting: no"), "Delete failed: Deleting: no"
			s.UsefulErrorMessage, s.ConsecutiveReconcileFailures = "Deleting: no", 3
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			want, old := before(), before()
			c.want(&want)
			if diff := cmp.Diff(want, status.ProjectApp(old, c.out)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
			if diff := cmp.Diff(before(), old); diff != "" {
				t.Errorf("the old status was changed:\n%s", diff)
			}
		})
	}
}

// TestCutOffDeploy: a deploy that was cut off does not look as if it went on.
func TestCutOffDeploy(t *testing.T) {
	for name, out := range map[string]status.Outcome{
		"Begun": {Generation: 2}, "Paused": {Generation: 2, Paused: true}, "FetchFailed": {Generation: 2, Fetch: &status.Stage{Err: "no"}, Done: true},
	} {
		old := before()
		old.Deploy.Finished = false
		if d := status.ProjectApp(old, out).Deploy; !d.Finished || d.ExitCode != -1 || d.Error != "Deploying: Interrupted" || d.Stdout != "old deploy" {
			t.Errorf("%s: %+v", name, d)
		}
	}
	if d := status.ProjectApp(before(), status.Outcome{Generation: 1, Deploy: ok("so far"), Running: true}).Deploy; d.Finished {
		t.Error("a deploy that goes on is finished")
	}
}

// FuzzProject: whatever a run did and whatever was before, the status has one
// outcome, is valid JSON and UTF-8 and within its budget once fitted, and is about
// the generation that was acted on.
func FuzzProject(f *testing.F) {
	f.Add("lock", "kapp: Error: x\n", uint8(0), uint8(0), int64(3), 64<<10)
	f.Add(strings.Repeat("<&>\x00✓\n", 90), "\xff\xfe", uint8(5), uint8(7), int64(-1), 4096)
	f.Fuzz(func(t *testing.T, stdout, stderr string, did, was uint8, generation int64, budget int) {
		if budget < 4096 || budget > 1<<20 {
			return
		}
		long := strings.Repeat(stdout, 40)
		stage := &status.Stage{Stdout: long, Stderr: stderr, ExitCode: int(did) % 3, StartedAt: at, EndedAt: at}
		if did&1 != 0 {
			stage.Err = "Deploying: " + stderr
		}
		o := status.Outcome{Generation: generation, Deleting: did&2 != 0, Done: did&4 != 0, Running: did&8 != 0, Paused: did&16 != 0, Err: stdout, Kapp: kapp}
		for i, to := range []**status.Stage{&o.Fetch, &o.Template, &o.Deploy, &o.Inspect} {
			if was>>i&1 != 0 {
				*to = stage
			}
		}
		old := v1alpha1.AppStatus{GenericStatus: v1alpha1.GenericStatus{Conditions: cond(v1alpha1.ReconcileSucceeded, "")}}
		if was&16 != 0 {
			old = before()
			old.Deploy.Stdout, old.UsefulErrorMessage = long+stderr, long
		}
		got := status.FitApp(status.ProjectApp(old, o), budget)
		body, err := json.Marshal(got)
		if err != nil || len(body) > budget+2048 || !utf8.Valid(body) {
			t.Fatalf("%d bytes for a budget of %d, error %v", len(body), budget, err)
		}
		back := v1alpha1.AppStatus{}
		if err := json.Unmarshal(body, &back); err != nil || len(back.Conditions) != 1 || back.ObservedGeneration != generation || back.FriendlyDescription == "" {
			t.Fatalf("error %v, conditions %+v, generation %d, description %q", err, back.Conditions, back.ObservedGeneration, back.FriendlyDescription)
		}
		if done, failed := o.Done && !o.Paused, o.Failure() != nil; done {
			want := v1alpha1.ReconcileSucceeded
			switch {
			case failed && o.Deleting:
				want = v1alpha1.DeleteFailed
			case failed:
				want = v1alpha1.ReconcileFailed
			case o.Deleting:
				want = v1alpha1.Deleting
			}
			if got := back.Conditions[0].Type; got != want {
				t.Fatalf("condition %s, want %s", got, want)
			}
		}
	})
}

func TestFromRun(t *testing.T) {
	cases := map[string]struct {
		reason string
		res    tool.Result
		err    error
		want   status.Stage
	}{
		"Success":   {"no text", tool.Result{Stdout: []byte("out")}, nil, status.Stage{Stdout: "out"}},
		"ExitOne":   {"1 says nothing, so the reader is sent to stderr", tool.Result{ExitCode: 1, Stderr: []byte("why\n")}, nil, status.Stage{Stderr: "why\n", ExitCode: 1, Err: "Doing: Error (see .status.usefulErrorMessage for details)"}},
		"ExitTwo":   {"other codes are told", tool.Result{ExitCode: 2}, nil, status.Stage{ExitCode: 2, Err: "Doing: exit status 2"}},
		"NoProcess": {"no exit code is -1", tool.Result{}, errors.New("not allowed"), status.Stage{ExitCode: -1, Err: "Doing: not allowed"}},
		"Wrapped":   {"a wrapped exit code is found", tool.Result{}, fmt.Errorf("x: %w", &tool.ExitError{Code: 3}), status.Stage{ExitCode: 3, Err: "Doing: x: exit status 3"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, status.FromRun("Doing: ", c.res, c.err)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

func ExampleProjectApp() {
	s := status.ProjectApp(v1alpha1.AppStatus{}, status.Outcome{Generation: 1, Err: "Expected at least one fetch option", Done: true})
	fmt.Println(s.FriendlyDescription)
	// Output: Reconcile failed: Expected at least one fetch option
}
