package status_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/status"
)

const hint = "Deploying: Error (see .status.usefulErrorMessage for details)"

// with is a status of a generation with a condition.
func with(generation int64, t v1alpha1.ConditionType, message, useful string) v1alpha1.AppStatus {
	return v1alpha1.AppStatus{GenericStatus: v1alpha1.GenericStatus{ObservedGeneration: generation, Conditions: cond(t, message), UsefulErrorMessage: useful}}
}

func TestTransition(t *testing.T) {
	const ok, failed, running = v1alpha1.ReconcileSucceeded, v1alpha1.ReconcileFailed, v1alpha1.Reconciling
	success := status.Event{Reason: "ReconcileSucceeded", Text: "Reconcile succeeded"}
	failure := func(text string) status.Event {
		return status.Event{Warning: true, Reason: "ReconcileFailed", Text: text}
	}
	known := func(e status.Event) *status.Event { e.Known = true; return &e }
	maybe := func(e status.Event) *status.Event { return &e }
	cases := map[string]struct {
		reason    string
		old, next v1alpha1.AppStatus
		want      *status.Event
	}{
		"First":            {"a new App", v1alpha1.AppStatus{}, with(1, ok, "", ""), maybe(success)},
		"StaysGood":        {"a sync is no news", with(1, ok, "", ""), with(1, ok, "", ""), nil},
		"NewGeneration":    {"the outcome of an edit is", with(1, ok, "", ""), with(2, ok, "", ""), known(success)},
		"Recovers":         {"so is a recovery", with(1, failed, "a", ""), with(1, ok, "", ""), known(success)},
		"Fails":            {"and a failure", with(1, ok, "", ""), with(1, failed, "Fetching: no", ""), known(failure("Fetching: no"))},
		"FailsAgain":       {"not each try", with(1, failed, "Fetching: no", ""), with(1, failed, "Fetching: no", ""), nil},
		"FailsOtherwise":   {"but another cause", with(1, failed, "Fetching: no", ""), with(1, failed, "Fetching: never", ""), known(failure("Fetching: never"))},
		"FailsByNumber":    {"a port is no other cause", with(1, failed, "read 127.0.0.1:4011: refused", ""), with(1, failed, "read 127.0.0.1:4012: refused", ""), nil},
		"FailsEdited":      {"an edit that does not help", with(1, failed, "Fetching: no", ""), with(2, failed, "Fetching: no", ""), known(failure("Fetching: no"))},
		"ToolSays":         {"the tool's words, not where to look for them", v1alpha1.AppStatus{}, with(1, failed, hint, "Warning: x\nytt: Error: first\nkapp: Error: \n  no  such kind\n"), maybe(failure("Deploying: kapp: Error: no such kind"))},
		"ToolSaysOther":    {"other words are another cause", with(1, failed, hint, "kapp: Error: a"), with(1, failed, hint, "kapp: Error: b"), known(failure("Deploying: kapp: Error: b"))},
		"ToolSaysSame":     {"what it says before them is not", with(1, failed, hint, "3:04:05PM: x\nkapp: Error: a"), with(1, failed, hint, "4:04:05PM: y\nkapp: Error: a"), nil},
		"Unwrapped":        {"a tool that does not call it an error", v1alpha1.AppStatus{}, with(1, failed, "Fetching: "+strings.TrimPrefix(hint, "Deploying: "), "fatal: repository not found\n"), maybe(failure("Fetching: fatal: repository not found"))},
		"NoTimes":          {"durations and points in time change with each try", v1alpha1.AppStatus{}, with(1, failed, "Timed out waiting after 15m0s (at 2026-01-02T03:04:05Z, 3:04:05PM, 1.5s)", ""), maybe(failure("Timed out waiting after (time) (at (time), (time), (time))"))},
		"Quantity":         {"thousandths of a processor are no minutes", v1alpha1.AppStatus{}, with(1, failed, "exceeded quota: requests.cpu=100m", ""), maybe(failure("exceeded quota: requests.cpu=100m"))},
		"CutOff":           {"nobody knows what was told before", with(1, running, "", ""), with(1, failed, "Fetching: no", ""), maybe(failure("Fetching: no"))},
		"Runs":             {"while it runs there is no outcome", with(1, ok, "", ""), with(2, running, "", ""), nil},
		"Deleting":         {"nor while it is deleted", with(1, ok, "", ""), with(1, v1alpha1.Deleting, "", ""), nil},
		"DeleteFails":      {"a delete that fails", with(1, ok, "", ""), with(1, v1alpha1.DeleteFailed, "Deleting: no", ""), known(status.Event{Warning: true, Reason: "DeleteFailed", Text: "Deleting: no"})},
		"DeleteFailsAgain": {"once", with(1, v1alpha1.DeleteFailed, "Deleting: no", ""), with(1, v1alpha1.DeleteFailed, "Deleting: no", ""), nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var got *status.Event
			if e, ok := status.Transition(c.old, c.next); ok {
				got = &e
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

// FuzzTransition: an event is one line that fits, whatever tools print, and a
// status is never news about itself.
func FuzzTransition(f *testing.F) {
	f.Add(hint, "kapp: Error: x\n", int64(1))
	f.Add("Fetching: \xff 12:34:56", strings.Repeat("✓ 3m2s ", 300), int64(2))
	f.Fuzz(func(t *testing.T, message, useful string, generation int64) {
		next := with(generation, v1alpha1.ReconcileFailed, message, useful)
		// What is stored is valid: see FuzzFit.
		next = status.FitApp(next, status.DefaultBudget)
		e, _ := status.Transition(v1alpha1.AppStatus{}, next)
		if len(e.Text) > 1000 || !utf8.ValidString(e.Text) || strings.ContainsAny(e.Text, "\n\r\t") {
			t.Fatalf("event of %d bytes: %q", len(e.Text), e.Text)
		}
		if e, ok := status.Transition(next, next); ok {
			t.Fatalf("told again: %+v", e)
		}
	})
}

func ExampleTransition() {
	e, _ := status.Transition(v1alpha1.AppStatus{}, with(1, v1alpha1.ReconcileFailed, hint, "kapp: Error: Timed out waiting after 15m0s"))
	fmt.Println(e.Reason, e.Text)
	// Output: ReconcileFailed Deploying: kapp: Error: Timed out waiting after (time)
}
