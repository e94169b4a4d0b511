package plan_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/garboard-dev/garboard/pkg/plan"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// idle is an App that succeeded ten seconds ago and has nothing to do.
func idle() plan.State {
	return plan.State{
		Now: now, Generation: 2, ObservedGeneration: 2, HasFinalizer: true,
		LastAttempt: now.Add(-10 * time.Second), SyncPeriod: 30 * time.Second, Jitter: 0.5,
	}
}

func TestDecide(t *testing.T) {
	cases := map[string]struct {
		reason string
		with   func(*plan.State)
		want   plan.Decision
	}{
		"Idle": {"the rest of the period, plus half the jitter", func(*plan.State) {},
			plan.Decision{Rung: plan.Nothing, Reason: "NotDue", Wake: 22500 * time.Millisecond}},
		"Due": {"the period is over", func(s *plan.State) { s.LastAttempt = now.Add(-30 * time.Second) },
			plan.Decision{Rung: plan.Full, Reason: "SyncPeriod", Routine: true}},
		"RestartOverdue": {"after a restart the overdue take turns", func(s *plan.State) {
			s.LastAttempt, s.Since, s.Spread, s.Jitter = now.Add(-time.Hour), now.Add(-10*time.Second), 0.5, 0
		}, plan.Decision{Rung: plan.Nothing, Reason: "NotDue", Wake: 5 * time.Second}},
		"RestartTurn": {"and each comes", func(s *plan.State) {
			s.LastAttempt, s.Since, s.Spread = now.Add(-time.Hour), now.Add(-15*time.Second), 0.5
		}, plan.Decision{Rung: plan.Full, Reason: "SyncPeriod", Routine: true}},
		"RestartLongPeriod": {"within minutes, however long the period: a controller that restarts daily must get there", func(s *plan.State) {
			s.LastAttempt, s.Since, s.Spread, s.SyncPeriod, s.Jitter = now.Add(-48*time.Hour), now, 0.999, 10*time.Hour, 0
		}, plan.Decision{Rung: plan.Nothing, Reason: "NotDue", Wake: 299700 * time.Millisecond}},
		"RestartNotDue": {"what is not due keeps its time", func(s *plan.State) { s.Since, s.Jitter = now, 0 },
			plan.Decision{Rung: plan.Nothing, Reason: "NotDue", Wake: 20 * time.Second}},
		"RestartFailed": {"a failure keeps its back-off, and is told again", func(s *plan.State) {
			s.Failed, s.Failures, s.Since, s.Spread = true, 3, now, 0.9
		}, plan.Decision{Rung: plan.Full, Reason: "Retry"}},
		"NewGeneration": {"an edit does not wait", func(s *plan.State) { s.Generation = 3 },
			plan.Decision{Rung: plan.Full, Reason: "NewGeneration"}},
		"NewGenerationAfterFailure": {"an edit ends the back-off", func(s *plan.State) { s.Generation = 3; s.Failed = true; s.Failures = 9 },
			plan.Decision{Rung: plan.Full, Reason: "NewGeneration"}},
		"NeverRun": {"a status without any stage has nothing to wait for", func(s *plan.State) { s.LastAttempt = time.Time{} },
			plan.Decision{Rung: plan.Full, Reason: "NeverRun"}},
		"RefsChanged": {"a changed Secret does not wait for the period", func(s *plan.State) { s.RefsChanged = true },
			plan.Decision{Rung: plan.Full, Reason: "ReferencesChanged"}},
		"Interrupted": {"a restart resumes at once, however long the period", func(s *plan.State) { s.Reconciling = true; s.SyncPeriod = time.Hour },
			plan.Decision{Rung: plan.Full, Reason: "Interrupted"}},
		"FailedWaits": {"2^3 s from the attempt, no jitter", func(s *plan.State) { s.Failed = true; s.Failures = 3; s.LastAttempt = now.Add(-time.Second) },
			plan.Decision{Rung: plan.Nothing, Reason: "NotDue", Wake: 7 * time.Second}},
		"FailedRetries": {"2^3 s are over", func(s *plan.State) { s.Failed = true; s.Failures = 3 },
			plan.Decision{Rung: plan.Full, Reason: "Retry"}},
		"Paused": {"pausing wins over a new generation", func(s *plan.State) { s.Paused = true; s.Generation = 3 },
			plan.Decision{Rung: plan.StatusOnly, Reason: "Paused"}},
		"Deleting": {"deletion runs at once", func(s *plan.State) { s.Deleting = true; s.Generation = 3 },
			plan.Decision{Rung: plan.Delete, Reason: "Deleting"}},
		"DeletingPaused": {"a paused App can be deleted", func(s *plan.State) { s.Deleting = true; s.Paused = true },
			plan.Decision{Rung: plan.Delete, Reason: "Deleting"}},
		"DeletingWithoutFinalizer": {"nothing was deployed, or it is done", func(s *plan.State) { s.Deleting = true; s.HasFinalizer = false },
			plan.Decision{Rung: plan.Nothing, Reason: "Deleted"}},
		"DeleteFailedWaits": {"a failing delete must not spin", func(s *plan.State) {
			s.Deleting, s.Failed, s.Failures, s.LastAttempt = true, true, 2, now.Add(-time.Second)
		}, plan.Decision{Rung: plan.Nothing, Reason: "NotDue", Wake: 3 * time.Second}},
		"DeleteFailedRetries": {"back-off is over", func(s *plan.State) { s.Deleting, s.Failed, s.Failures = true, true, 2 },
			plan.Decision{Rung: plan.Delete, Reason: "RetryDelete"}},
		"DeleteFailedEdited": {"an edit, such as noopDelete, ends the wait", func(s *plan.State) {
			s.Deleting, s.Failed, s.Failures, s.LastAttempt, s.Generation = true, true, 2, now, 3
		}, plan.Decision{Rung: plan.Delete, Reason: "Deleting"}},
		"ClockSetBack": {"a future attempt counts as now", func(s *plan.State) { s.LastAttempt = now.Add(time.Hour); s.Jitter = 0 },
			plan.Decision{Rung: plan.Nothing, Reason: "NotDue", Wake: 30 * time.Second}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := idle()
			c.with(&s)
			if diff := cmp.Diff(c.want, plan.Decide(s)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

func TestBackoff(t *testing.T) {
	cases := map[string]struct {
		reason   string
		failures int
		period   time.Duration
		want     time.Duration
	}{
		"First":       {"2^1", 1, 30 * time.Second, 2 * time.Second},
		"Fourth":      {"2^4", 4, 30 * time.Second, 16 * time.Second},
		"Capped":      {"2^5 is over the period", 5, 30 * time.Second, 30 * time.Second},
		"LongPeriod":  {"hours of sync period do not mean hours of waiting", 12, 10 * time.Hour, 5 * time.Minute},
		"NoOverflow":  {"large counts cap", 1 << 40, 30 * time.Second, 30 * time.Second},
		"NotACounter": {"zero and less mean no count", -1, 30 * time.Second, 30 * time.Second},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := plan.Backoff(c.failures, c.period); got != c.want {
				t.Errorf("%s: got %v, want %v", c.reason, got, c.want)
			}
		})
	}
}

func TestSyncPeriod(t *testing.T) {
	own := func(d time.Duration) *time.Duration { return &d }
	cases := map[string]struct {
		reason             string
		own                *time.Duration
		byDefault, minimum time.Duration
		want               time.Duration
	}{
		"Default":     {"no own period", nil, time.Minute, 0, time.Minute},
		"Own":         {"own period wins over the default", own(time.Hour), time.Minute, 0, time.Hour},
		"BelowFloor":  {"30s is the least", own(time.Second), time.Minute, 0, 30 * time.Second},
		"BelowMin":    {"an admin's minimum holds", own(time.Minute), time.Minute, time.Hour, time.Hour},
		"Negative":    {"nonsense becomes the floor", own(-time.Hour), 0, 0, 30 * time.Second},
		"NothingSet":  {"the floor is the default", nil, 0, 0, 30 * time.Second},
		"DefaultLow":  {"a default below the floor is raised", nil, time.Second, 0, 30 * time.Second},
		"MinOverrule": {"minimum raises the default too", nil, time.Minute, 2 * time.Minute, 2 * time.Minute},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := plan.SyncPeriod(c.own, c.byDefault, c.minimum); got != c.want {
				t.Errorf("%s: got %v, want %v", c.reason, got, c.want)
			}
		})
	}
}

// FuzzDecide holds the promises that no table row may break: deletion and
// pausing win, and a wait is never longer than the period with its jitter.
func FuzzDecide(f *testing.F) {
	f.Add(int64(1), int64(1), false, false, false, 3, int64(-10), int64(30), false)
	f.Add(int64(2), int64(1), true, true, true, 0, int64(1000), int64(1<<40), true)
	f.Fuzz(func(t *testing.T, gen, observed int64, deleting, paused, failed bool, failures int, lastSeconds, periodSeconds int64, refs bool) {
		period := plan.SyncPeriod(nil, time.Duration(periodSeconds%(1<<30))*time.Second, 0)
		s := plan.State{
			Now: now, Generation: gen, ObservedGeneration: observed, HasFinalizer: true, Deleting: deleting, Paused: paused,
			Failed: failed, Failures: failures, LastAttempt: now.Add(time.Duration(lastSeconds%(1<<30)) * time.Second),
			SyncPeriod: period, RefsChanged: refs, Jitter: 0.999,
		}
		d := plan.Decide(s)
		if d.Wake < 0 || d.Wake > period+plan.MaxJitter {
			t.Fatalf("wake %v for a period of %v", d.Wake, period)
		}
		if deleting && d.Rung != plan.Delete && d.Rung != plan.Nothing {
			t.Fatalf("deleting decided %v", d.Rung)
		}
		if !deleting && paused && d.Rung != plan.StatusOnly {
			t.Fatalf("paused decided %v", d.Rung)
		}
		if d.Rung == plan.Nothing && d.Wake == 0 {
			t.Fatalf("%+v waits for ever", s)
		}
	})
}

func BenchmarkDecide(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		plan.Decide(idle())
	}
}

func ExampleDecide() {
	fmt.Println(plan.Decide(plan.State{Deleting: true, HasFinalizer: true}).Reason)
	// Output: Deleting
}
