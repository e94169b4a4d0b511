package status_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	packaging "github.com/garboard-dev/garboard/pkg/apis/packaging/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/status"
)

func TestProjectRepository(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	stage := func(s status.Stage) *status.Stage {
		s.StartedAt, s.EndedAt = at, at
		return &s
	}
	conflict := []packaging.PackageConflict{{Kind: "Package", Name: "a", Repository: "t/other", Reason: "mismatch in spec.template"}}
	old := packaging.PackageRepositoryStatus{ConsecutiveReconcileFailures: 2, Conflicts: conflict}
	old.ObservedGeneration, old.UsefulErrorMessage, old.FriendlyDescription = 1, "old words", "Reconcile failed: old"
	failed := status.Stage{Stderr: "words"}.Fail("Deploying: ", fmt.Errorf("exit status 1"))
	cases := map[string]struct {
		reason    string
		out       status.Outcome
		conflicts []packaging.PackageConflict
		// what is read: description, useful message, successes, failures, conflicts.
		want []any
	}{
		"Begun":     {"the words of the old generation go, what is listed stays until it is known", status.Outcome{Generation: 2}, nil, []any{"Reconciling", "", 0, 2, 1}},
		"Paused":    {"not the words for Apps", status.Outcome{Generation: 2, Paused: true}, nil, []any{"Paused", "old words", 0, 2, 1}},
		"Succeeded": {"no conflict is left", status.Outcome{Generation: 2, Done: true, Fetch: stage(status.Stage{}), Template: stage(status.Stage{}), Deploy: stage(status.Stage{})}, nil, []any{"Reconcile succeeded", "", 1, 0, 0}},
		"Conflicts": {"they are listed", status.Outcome{Generation: 2, Done: true, Deploy: stage(failed)}, append(conflict, conflict...), []any{"Reconcile failed: Deploying: Error (see .status.usefulErrorMessage for details)", "words", 0, 3, 2}},
		"NoDeploy":  {"a failed fetch says nothing about conflicts", status.Outcome{Generation: 2, Done: true, Fetch: stage(failed)}, nil, []any{"Reconcile failed: Deploying: Error (see .status.usefulErrorMessage for details)", "words", 0, 3, 1}},
		"Deleting":  {"nor does a delete", status.Outcome{Generation: 2, Done: true, Deleting: true, Deploy: stage(failed)}, nil, []any{"Delete failed: Deploying: Error (see .status.usefulErrorMessage for details)", "words", 0, 3, 1}},
		"Many":      {"the list is bounded", status.Outcome{Generation: 2, Done: true, Deploy: stage(failed)}, make([]packaging.PackageConflict, 1000), []any{"Reconcile failed: Deploying: Error (see .status.usefulErrorMessage for details)", "words", 0, 3, 100}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := status.ProjectRepository(old, c.out, c.conflicts)
			got := []any{s.FriendlyDescription, s.UsefulErrorMessage, s.ConsecutiveReconcileSuccesses, s.ConsecutiveReconcileFailures, len(s.Conflicts)}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s:\n%s", c.reason, diff)
			}
			if s.ObservedGeneration != 2 || s.Deploy != nil && s.Deploy.KappDeployStatus != nil {
				t.Errorf("generation %d, deploy %+v", s.ObservedGeneration, s.Deploy)
			}
		})
	}
}

// FuzzFitRepository: whatever is told, it fits, and is valid JSON and UTF-8.
func FuzzFitRepository(f *testing.F) {
	f.Add("reason", "output\n", 3, 4096)
	f.Add("\xff<>", strings.Repeat("x", 5000), 200, 2048)
	f.Fuzz(func(t *testing.T, reason, output string, count, budget int) {
		if budget < 2048 || budget > 1<<20 || count < 0 || count > 500 || len(reason) > 10000 {
			return
		}
		in := packaging.PackageRepositoryStatus{Deploy: &v1alpha1.AppStatusDeploy{Stderr: output}}
		in.UsefulErrorMessage = output
		for range count {
			in.Conflicts = append(in.Conflicts, packaging.PackageConflict{Kind: "Package", Name: reason, Repository: reason, Reason: reason})
		}
		out := status.FitRepository(in, budget)
		text, err := json.Marshal(out)
		if err != nil {
			t.Fatal(err)
		}
		// Names of fields and times are beside the budget for texts.
		if len(text) > budget+1024+64*len(out.Conflicts) {
			t.Errorf("%d bytes for a budget of %d, %d conflicts", len(text), budget, len(out.Conflicts))
		}
	})
}
