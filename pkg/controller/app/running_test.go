package app

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/metrics"
	"github.com/garboard-dev/garboard/pkg/pipeline"
	"github.com/garboard-dev/garboard/pkg/plan"
	"github.com/garboard-dev/garboard/pkg/refs"
	"github.com/garboard-dev/garboard/pkg/status"
	"github.com/garboard-dev/garboard/test/poll"
)

// TestEventsEndRuns: which new state of an App ends its run.
func TestEventsEndRuns(t *testing.T) {
	cases := map[string]struct {
		reason   string
		deleting bool
		with     func(*v1alpha1.App)
		want     error
	}{
		"Edit":             {"a new spec is what counts", false, func(a *v1alpha1.App) { a.Generation++ }, errSuperseded},
		"EditOfDelete":     {"noopDelete, for example", true, func(a *v1alpha1.App) { a.Generation++ }, errSuperseded},
		"Metadata":         {"labels and annotations start nothing and end nothing", false, func(a *v1alpha1.App) { a.Labels = map[string]string{"a": "b"} }, nil},
		"Status":           {"nor does our own write", false, func(a *v1alpha1.App) { a.Status.FriendlyDescription = "x"; a.ResourceVersion = "9" }, nil},
		"Older":            {"an event that comes late", false, func(a *v1alpha1.App) { a.Generation = 0 }, nil},
		"Pause":            {"pausing lets the run end", false, func(a *v1alpha1.App) { a.Spec.Paused = true; a.Generation++ }, nil},
		"Cancel":           {"cancelling does not", false, func(a *v1alpha1.App) { a.Spec.Canceled = true }, errCanceled},
		"Delete":           {"a deploy of what is to be deleted is useless", false, func(a *v1alpha1.App) { a.DeletionTimestamp = &metav1.Time{Time: time.Now()} }, errDeleted},
		"DeleteOfDelete":   {"the delete itself goes on", true, func(a *v1alpha1.App) { a.DeletionTimestamp = &metav1.Time{Time: time.Now()} }, nil},
		"CancelOfDelete":   {"a delete can be cancelled", true, func(a *v1alpha1.App) { a.Spec.Canceled = true }, errCanceled},
		"CanceledBefore":   {"a canceled App can be deleted", true, func(a *v1alpha1.App) { a.Spec.Canceled = true }, nil},
		"Replaced":         {"another App of the same name", false, func(a *v1alpha1.App) { a.UID = "v" }, errDeleted},
		"SomebodyElsesApp": {"another App's event", false, func(a *v1alpha1.App) { a.Name = "b"; a.Spec.Canceled = true }, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			runs := newRunning()
			begun := app()
			begun.Spec.Canceled = name == "CanceledBefore"
			run := runs.start(t.Context(), begun, c.deleting)
			a := app()
			c.with(a)
			runs.seen(a)
			if got := run.stop(); !errors.Is(got, c.want) || (got == nil) != (c.want == nil) {
				t.Errorf("%s: cause %v, want %v", c.reason, got, c.want)
			}
		})
	}
}

// TestEventBeforeTheRun: a cancel that comes after the App was read and before its
// run began ends that run all the same.
func TestEventBeforeTheRun(t *testing.T) {
	var cause error
	stages := runner{run: func(ctx context.Context, job pipeline.Job, _ func(status.Outcome)) status.Outcome {
		cause = context.Cause(ctx)
		return status.Outcome{Generation: job.Generation, Err: "cancelled", Done: true}
	}}
	reads := 0
	api := interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
		err := c.Get(ctx, key, obj, opts...)
		if a, ok := obj.(*v1alpha1.App); ok {
			a.Spec.Canceled = reads > 0
			reads++
		}
		return err
	}}
	r := newRig(t, stages, api, app())
	if _, err := r.reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(cause, errCanceled) {
		t.Errorf("the run's context ended with %v, want %v", cause, errCanceled)
	}
}

// TestApplyingEndsFirst: what makes a run outdated while kapp changes the cluster
// ends it when kapp only waits.
func TestApplyingEndsFirst(t *testing.T) {
	edit := func(r *running) {
		a := app()
		a.Generation++
		r.seen(a)
	}
	cancel := func(r *running) {
		a := app()
		a.Spec.Canceled = true
		r.seen(a)
	}
	cases := map[string]struct {
		reason   string
		deleting bool
		do       func(*running, *run)
		want     error
	}{
		"Fetching":         {"nothing to wait for", false, func(r *running, _ *run) { edit(r) }, errSuperseded},
		"Applying":         {"kapp ends what it does", false, func(r *running, n *run) { n.waits(false); edit(r) }, nil},
		"ApplyingThenWait": {"then the run ends", false, func(r *running, n *run) { n.waits(false); edit(r); n.waits(true) }, errSuperseded},
		"Waiting":          {"at once", false, func(r *running, n *run) { n.waits(false); n.waits(true); edit(r) }, errSuperseded},
		"ApplyingAgain":    {"the next group is applied", false, func(r *running, n *run) { n.waits(true); n.waits(false); edit(r) }, nil},
		"CanceledApplying": {"a cancel waits for nothing", false, func(r *running, n *run) { n.waits(false); cancel(r) }, errCanceled},
		"Refs":             {"a Secret that the run has read", false, func(r *running, _ *run) { r.outdated(theApp) }, errSuperseded},
		"RefsApplying":     {"the same", false, func(r *running, n *run) { n.waits(false); r.outdated(theApp) }, nil},
		"Deleting":         {"a delete that changes the cluster", true, func(r *running, n *run) { n.waits(false); edit(r) }, nil},
		"DeleteCompares":   {"and one that does not yet: its spec may say noopDelete now", true, func(r *running, _ *run) { edit(r) }, errSuperseded},
		"DeletingWaits":    {"an edit, such as noopDelete, ends its wait", true, func(r *running, n *run) { n.waits(false); edit(r); n.waits(true) }, errSuperseded},
		"DeletingRefs":     {"which a Secret does not", true, func(r *running, n *run) { n.waits(true); r.outdated(theApp) }, nil},
		"Gone":             {"nobody is left", false, func(r *running, n *run) { n.waits(false); r.gone(theApp) }, errDeleted},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			runs := newRunning()
			run := runs.start(t.Context(), app(), c.deleting)
			c.do(runs, run)
			if got := run.stop(); !errors.Is(got, c.want) || (got == nil) != (c.want == nil) {
				t.Errorf("%s: cause %v, want %v", c.reason, got, c.want)
			}
		})
	}
}

// TestNoDeployAfterTheEnd: an edit that comes before the deploy keeps it from
// beginning, however close.
func TestNoDeployAfterTheEnd(t *testing.T) {
	runs := newRunning()
	run := runs.start(t.Context(), app(), false)
	runs.outdated(theApp)
	if err := run.mayDeploy(); !errors.Is(err, errSuperseded) {
		t.Errorf("may deploy: %v", err)
	}
}

// ended is what a stage says whose context was ended.
func ended(ctx context.Context, job pipeline.Job) status.Outcome {
	<-ctx.Done()
	return status.Outcome{Generation: job.Generation, Err: "Process was canceled", Done: true}
}

// TestSupersededRunSaysNothing: a run that an edit ends leaves no failure, and the
// next one starts at once.
func TestSupersededRunSaysNothing(t *testing.T) {
	runs := 0
	var r *rig
	stages := runner{run: func(ctx context.Context, job pipeline.Job, report func(status.Outcome)) status.Outcome {
		if runs++; runs > 1 {
			return succeed(ctx, job, report)
		}
		a := r.app(t)
		a.Generation = 2
		if err := r.api.Update(t.Context(), a); err != nil {
			t.Error(err)
		}
		r.running.seen(a)
		return ended(ctx, job)
	}}
	a := app()
	a.Status = v1alpha1.AppStatus{GenericStatus: v1alpha1.GenericStatus{ObservedGeneration: 0}}
	r = newRig(t, stages, interceptor.Funcs{}, a)
	if _, err := r.reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(r.writes) != 0 || len(r.events(t)) != 0 {
		t.Errorf("writes %v, events %v", r.writes, r.events(t))
	}
	if _, err := r.reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := r.app(t).Status; s.ObservedGeneration != 2 || s.ConsecutiveReconcileSuccesses != 1 || s.ConsecutiveReconcileFailures != 0 {
		t.Errorf("status %+v", s)
	}
	if c := r.Slots(); c != (metrics.Slots{}) {
		t.Errorf("slots are held: %+v", c)
	}
}

// TestNewerSecretEndsTheRun: the Secret changes after the run has read it.
func TestNewerSecretEndsTheRun(t *testing.T) {
	key := refs.Key{Kind: refs.Secret, Name: "s"}
	runs := 0
	var r *rig
	stages := runner{run: func(ctx context.Context, job pipeline.Job, report func(status.Outcome)) status.Outcome {
		if runs++; runs > 1 {
			return succeed(ctx, job, report)
		}
		r.refs.Read(theApp, key, 5)
		r.refs.Event("t", key, "6")
		if r.refs.Overtaken(theApp) {
			r.refs.OnOvertaken(theApp)
		}
		return ended(ctx, job)
	}}
	a := app()
	a.Spec.Fetch = []v1alpha1.AppFetch{{Git: &v1alpha1.AppFetchGit{SecretRef: &v1alpha1.AppFetchLocalRef{Name: "s"}}}}
	r = newRig(t, stages, interceptor.Funcs{}, a)
	res, err := r.reconcile(t.Context())
	if err != nil || res.RequeueAfter != time.Millisecond {
		t.Errorf("result %+v, error %v: the next run must start at once", res, err)
	}
	if len(r.writes) != 0 {
		t.Errorf("writes %v", r.writes)
	}
	if _, err := r.reconcile(t.Context()); err != nil || runs != 2 {
		t.Errorf("%d runs, error %v", runs, err)
	}
}

// TestDeleteLeavesNoFailure: a run that a delete ends is no failure of the App.
func TestDeleteLeavesNoFailure(t *testing.T) {
	var r *rig
	stages := runner{run: func(ctx context.Context, job pipeline.Job, _ func(status.Outcome)) status.Outcome {
		a := r.app(t)
		a.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		r.running.seen(a)
		return ended(ctx, job)
	}}
	r = newRig(t, stages, interceptor.Funcs{}, app())
	if _, err := r.reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(r.writes) != 0 {
		t.Errorf("writes %v", r.writes)
	}
}

// TestWaitingDeployLendsItsPlace: while one deploy waits another App runs, although
// only one may work at a time.
func TestWaitingDeployLendsItsPlace(t *testing.T) {
	waits, ready := make(chan struct{}), make(chan struct{})
	stages := runner{run: func(ctx context.Context, job pipeline.Job, report func(status.Outcome)) status.Outcome {
		if job.Name == theApp.Name {
			job.Waiting(true)
			close(waits)
			<-ready
		}
		return succeed(ctx, job, report)
	}}
	r := newRig(t, stages, interceptor.Funcs{}, app())
	other := app()
	other.Name = "b"
	if err := r.api.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		_, err := r.reconcile(t.Context())
		done <- err
	}()
	<-waits
	if c := r.Slots(); c != (metrics.Slots{Waiting: 1}) {
		t.Errorf("slots %+v", c)
	}
	if _, err := r.reconcileKey(t.Context(), client.ObjectKeyFromObject(other)); err != nil {
		t.Fatal(err)
	}
	close(ready)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if c := r.Slots(); c != (metrics.Slots{}) {
		t.Errorf("slots are held: %+v", c)
	}
}

// TestPauseWaitsForNoPlace: an App in line for a place is told to be paused or let
// go while the place is taken, and one that is to be deleted goes to another line.
func TestPauseWaitsForNoPlace(t *testing.T) {
	tests := map[string]struct {
		event  func(r *rig, a *v1alpha1.App)
		leaves bool
	}{
		"Paused":   {func(r *rig, a *v1alpha1.App) { a.Spec.Paused = true; r.running.seen(a) }, true},
		"Canceled": {func(r *rig, a *v1alpha1.App) { a.Spec.Canceled = true; r.running.seen(a) }, true},
		"Gone":     {func(r *rig, _ *v1alpha1.App) { r.running.gone(theApp) }, true},
		"Edited":   {func(r *rig, a *v1alpha1.App) { a.Generation++; r.running.seen(a) }, false},
		"Deleted": {func(r *rig, a *v1alpha1.App) {
			a.DeletionTimestamp = &metav1.Time{Time: time.Now()}
			r.running.seen(a)
		}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, runner{}, interceptor.Funcs{}, app())
			holder := r.slots.take()
			got := make(chan *turn, 1)
			go func() { got <- r.turn(t.Context(), theApp, plan.Full) }()
			poll.Until(t, "the App is in line", func() bool { return r.Slots().Queued == 1 })
			tt.event(r, app())
			if tt.leaves {
				if turn := <-got; turn != nil {
					t.Error("the App got a place that was taken")
				}
			} else if n := r.Slots().Queued; n != 1 {
				t.Errorf("%d in line, want 1", n)
			}
			holder.release()
			if !tt.leaves {
				(<-got).release()
			}
			if c := r.Slots(); c != (metrics.Slots{}) || len(r.running.queued) != 0 {
				t.Errorf("left over: %+v, %d in line", c, len(r.running.queued))
			}
		})
	}
}

// TestPauseBeforeItsTurn: the pause is in status although no place becomes free.
func TestPauseBeforeItsTurn(t *testing.T) {
	r := newRig(t, runner{}, interceptor.Funcs{}, app())
	holder := r.slots.take()
	defer holder.release()
	done := make(chan error, 1)
	go func() {
		_, err := r.reconcile(t.Context())
		done <- err
	}()
	poll.Until(t, "the App is in line", func() bool { return r.Slots().Queued == 1 })
	a := r.app(t)
	a.Spec.Paused = true
	if err := r.api.Update(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	r.running.seen(a)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := r.app(t).Status.FriendlyDescription; got != "Canceled/paused" {
		t.Errorf("friendlyDescription %q", got)
	}
}

// TestDeletesHaveTheirOwnPlaces: an App is deleted while others hold all places to
// run in, and a delete in line stays there whatever else is said of the App.
func TestDeletesHaveTheirOwnPlaces(t *testing.T) {
	r := newRig(t, runner{}, interceptor.Funcs{}, app())
	defer r.slots.take().release()
	holder := r.turn(t.Context(), theApp, plan.Delete)
	if holder == nil || holder.queued {
		t.Fatalf("a delete waits behind a run: %+v", holder)
	}
	got := make(chan *turn, 1)
	go func() { got <- r.turn(t.Context(), theApp, plan.Delete) }()
	poll.Until(t, "the delete is in line", func() bool { return r.Slots().Queued == 1 })
	a := app()
	a.Spec.Paused, a.DeletionTimestamp = true, &metav1.Time{Time: time.Now()}
	r.running.seen(a)
	holder.release()
	if turn := <-got; turn == nil {
		t.Error("a delete lost its turn")
	}
}
