package app

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/pipeline"
	"github.com/garboard-dev/garboard/pkg/status"
)

// outcomes gives one outcome after the other, each with times of its own.
func outcomes(now func() time.Time, texts ...string) (runner, *int) {
	runs := 0
	return runner{run: func(ctx context.Context, job pipeline.Job, report func(status.Outcome)) status.Outcome {
		out := succeed(ctx, job, report)
		text := texts[min(runs, len(texts)-1)]
		runs++
		stage := status.Stage{Stdout: text, StartedAt: now(), EndedAt: now()}
		if text == "fails" {
			stage.Err, stage.ExitCode = "Fetching resources: no", 1
		}
		out.Fetch = &stage
		return out
	}}, &runs
}

// clock is moved by hand.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

// TestNothingNewIsNotWritten: a sync that finds what it found before moves nothing
// but the time that this controller remembers.
func TestNothingNewIsNotWritten(t *testing.T) {
	ok, failed := v1alpha1.ReconcileSucceeded, v1alpha1.ReconcileFailed
	cases := map[string]struct {
		reason string
		texts  []string
		want   []v1alpha1.ConditionType
	}{
		"Same":    {"three syncs, one write", []string{"lock"}, []v1alpha1.ConditionType{ok}},
		"Changed": {"another commit is news", []string{"lock", "lock", "other", "other"}, []v1alpha1.ConditionType{ok, ok}},
		"Fails":   {"each failure moves the back-off", []string{"lock", "fails", "fails", "lock"}, []v1alpha1.ConditionType{ok, failed, failed, ok}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			now := &clock{time.Now()}
			stages, runs := outcomes(now.Now, c.texts...)
			r := newRig(t, stages, interceptor.Funcs{}, app())
			r.Now = now.Now
			for i := range 4 {
				res, err := r.reconcile(t.Context())
				if err != nil || res.RequeueAfter <= 0 || *runs != i+1 {
					t.Fatalf("result %+v, error %v, %d runs after %d syncs", res, err, *runs, i+1)
				}
				// Before it is due nothing runs, whatever time the status has.
				if _, err := r.reconcile(t.Context()); err != nil || *runs != i+1 {
					t.Fatalf("%d runs, error %v: it ran again before it was due", *runs, err)
				}
				now.now = now.now.Add(40 * time.Second)
			}
			if diff := cmp.Diff(c.want, r.writes); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

// TestRestartRunsInTurn: a controller that has just been started does not run at
// once what the one before had verified without a word.
func TestRestartRunsInTurn(t *testing.T) {
	now := &clock{time.Now()}
	stages, runs := outcomes(now.Now, "lock")
	a := app()
	a.UID = "d" // its turn is not at the very beginning
	a.Status = v1alpha1.AppStatus{
		Fetch:         &v1alpha1.AppStatusFetch{},
		GenericStatus: v1alpha1.GenericStatus{ObservedGeneration: 1, Conditions: []v1alpha1.Condition{{Type: v1alpha1.ReconcileSucceeded, Status: "True"}}},
	}
	a.Status.Fetch.UpdatedAt.Time = now.now.Add(-time.Hour)
	r := newRig(t, stages, interceptor.Funcs{}, a)
	r.Now, r.since = now.Now, now.now
	turn := time.Duration(spread(a.UID) * float64(30*time.Second))
	if res, err := r.reconcile(t.Context()); err != nil || *runs != 0 || res.RequeueAfter < turn || turn < time.Second {
		t.Fatalf("result %+v, error %v, %d runs; its turn is in %s", res, err, *runs, turn)
	}
	now.now = now.now.Add(turn)
	if _, err := r.reconcile(t.Context()); err != nil || *runs != 1 {
		t.Fatalf("%d runs in its turn, error %v", *runs, err)
	}
}

// TestOutcomeOutlivesAnOutage: an outcome that cannot be written is written when
// the API server is back, and nothing is run again for it.
func TestOutcomeOutlivesAnOutage(t *testing.T) {
	away := true
	api := interceptor.Funcs{SubResourceUpdate: func(context.Context, client.Client, string, client.Object, ...client.SubResourceUpdateOption) error {
		if away {
			return apierrors.NewInternalError(errors.New("etcd is away"))
		}
		return nil
	}}
	stages, runs := outcomes(time.Now, "lock")
	r := newRig(t, stages, api, app())
	for range 5 {
		if _, err := r.reconcile(t.Context()); err == nil {
			t.Error("no error although no status could be written: nothing would try again")
		}
	}
	if *runs != 1 || len(r.events(t)) != 0 {
		t.Errorf("%d runs, want one; events of an outcome that nobody can see: %v", *runs, r.events(t))
	}
	away = false
	if res, err := r.reconcile(t.Context()); err != nil || res.RequeueAfter < 20*time.Second || *runs != 1 {
		t.Errorf("result %+v, error %v, %d runs", res, err, *runs)
	}
	if s := r.app(t).Status; !status.Has(s.GenericStatus, v1alpha1.ReconcileSucceeded) || s.Fetch.Stdout != "lock" || s.ConsecutiveReconcileSuccesses != 1 {
		t.Errorf("status %+v", s)
	}
	if got := len(r.events(t)); got != 1 || len(r.unwritten) != 0 {
		t.Errorf("%d events, %d outcomes kept", got, len(r.unwritten))
	}
}

// TestOutcomeOfAnOldSpec: by the time that it can be written, nobody asks for it.
func TestOutcomeOfAnOldSpec(t *testing.T) {
	away := true
	api := interceptor.Funcs{SubResourceUpdate: func(context.Context, client.Client, string, client.Object, ...client.SubResourceUpdateOption) error {
		if away {
			return apierrors.NewInternalError(errors.New("etcd is away"))
		}
		return nil
	}}
	stages, runs := outcomes(time.Now, "one", "two")
	r := newRig(t, stages, api, app())
	if _, err := r.reconcile(t.Context()); err == nil {
		t.Fatal("no error")
	}
	a := r.app(t)
	a.Generation = 2
	if err := r.api.Update(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	away = false
	if _, err := r.reconcile(t.Context()); err != nil || *runs != 2 {
		t.Errorf("%d runs, error %v", *runs, err)
	}
	if s := r.app(t).Status; s.ObservedGeneration != 2 || s.Fetch.Stdout != "two" || len(r.unwritten) != 0 {
		t.Errorf("status %+v, %d outcomes kept", s, len(r.unwritten))
	}
}

// TestEventsOfOutcomes: one event for each new outcome, none for each try.
func TestEventsOfOutcomes(t *testing.T) {
	now := &clock{time.Now()}
	stages, runs := outcomes(now.Now, "fails", "fails", "lock", "lock", "fails", "lock")
	r := newRig(t, stages, interceptor.Funcs{}, app())
	r.Now = now.Now
	for i := range 6 {
		if _, err := r.reconcile(t.Context()); err != nil || *runs != i+1 {
			t.Fatalf("%d runs, error %v", *runs, err)
		}
		now.now = now.now.Add(40 * time.Second)
	}
	want := []string{"Normal ReconcileSucceeded: Reconcile succeeded (2)", "Warning ReconcileFailed: Fetching resources: no (2)"}
	if diff := cmp.Diff(want, r.events(t)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}

	// The next controller sees a run that was cut off, and tells nothing twice.
	a := r.app(t)
	a.Status.Conditions[0].Type = v1alpha1.Reconciling
	if err := r.api.Status().Update(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if _, err := r.reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, r.events(t)); diff != "" {
		t.Errorf("after a restart -want +got:\n%s", diff)
	}
}

// TestEventsAreNotWorthAnything: an App whose events nobody takes reconciles.
func TestEventsAreNotWorthAnything(t *testing.T) {
	stages, _ := outcomes(time.Now, "lock")
	api := interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
		return apierrors.NewForbidden(v1alpha1.SchemeGroupVersion.WithResource("events").GroupResource(), "e", errors.New("namespace is terminating"))
	}}
	r := newRig(t, stages, api, app())
	if _, err := r.reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
}
