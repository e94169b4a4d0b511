package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/metrics"
	"github.com/garboard-dev/garboard/pkg/pipeline"
	"github.com/garboard-dev/garboard/pkg/settings"
	"github.com/garboard-dev/garboard/pkg/status"
	"github.com/garboard-dev/garboard/pkg/track"
)

// These tests need an API that fails or answers late as told, so theirs is a
// double. What a user sees is tested end to end.

// runner does in place of the stages what its fields say.
type runner struct {
	run, delete func(ctx context.Context, job pipeline.Job, report func(status.Outcome)) status.Outcome
}

func (r runner) Run(ctx context.Context, job pipeline.Job, report func(status.Outcome)) status.Outcome {
	return r.run(ctx, job, report)
}

func (r runner) Delete(ctx context.Context, job pipeline.Job, report func(status.Outcome)) status.Outcome {
	return r.delete(ctx, job, report)
}

func succeed(ctx context.Context, job pipeline.Job, _ func(status.Outcome)) status.Outcome {
	out := status.Outcome{Generation: job.Generation, Done: true}
	if err := job.BeforeDeploy(ctx); err != nil {
		out.Err = err.Error()
	}
	return out
}

// rig is a Reconciler on an API double that holds one App.
type rig struct {
	*Reconciler
	api client.WithWatch
	// writes are the conditions of each status write.
	mu     sync.Mutex
	writes []v1alpha1.ConditionType
}

func newRig(t *testing.T, stages runner, api interceptor.Funcs, app *v1alpha1.App) *rig {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	r := &rig{}
	next := api.SubResourceUpdate
	api.SubResourceUpdate = func(ctx context.Context, c client.Client, sub string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
		if next != nil {
			if err := next(ctx, c, sub, obj, opts...); err != nil {
				return err
			}
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if conds := obj.(*v1alpha1.App).Status.Conditions; len(conds) == 1 {
			r.writes = append(r.writes, conds[0].Type)
		}
		return c.SubResource(sub).Update(ctx, obj, opts...)
	}
	r.api = fake.NewClientBuilder().WithScheme(scheme).WithObjects(app).WithStatusSubresource(app).WithInterceptorFuncs(api).Build()
	r.Reconciler = New(Config{
		Client: r.api, Live: r.api, Objects: track.NewObjects(nil), Runner: stages, Settings: &settings.Store{},
		Forget:  func(context.Context, string) error { return nil },
		Metrics: metrics.NewReconciles(prometheus.NewRegistry()), Now: time.Now, Concurrency: 1, WaitingSlots: 1,
	})
	return r
}

func app() *v1alpha1.App {
	return &v1alpha1.App{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "t", UID: "u", Generation: 1, Finalizers: []string{"other.example.com/keep"}}}
}

func (r *rig) reconcile(ctx context.Context) (ctrl.Result, error) {
	return r.reconcileKey(ctx, theApp)
}

func (r *rig) reconcileKey(ctx context.Context, key client.ObjectKey) (ctrl.Result, error) {
	return r.Reconcile(ctx, ctrl.Request{NamespacedName: key})
}

// events are the reasons and texts of what was told, each with how often.
func (r *rig) events(t *testing.T) (out []string) {
	t.Helper()
	list := &corev1.EventList{}
	if err := r.api.List(context.WithoutCancel(t.Context()), list, client.InNamespace(theApp.Namespace)); err != nil {
		t.Fatal(err)
	}
	for _, e := range list.Items {
		out = append(out, fmt.Sprintf("%s %s: %s (%d)", e.Type, e.Reason, e.Message, e.Count))
	}
	slices.Sort(out)
	return out
}

var theApp = client.ObjectKey{Namespace: "t", Name: "a"}

func (r *rig) app(t *testing.T) *v1alpha1.App {
	t.Helper()
	a := &v1alpha1.App{}
	if err := r.api.Get(context.WithoutCancel(t.Context()), theApp, a); err != nil {
		t.Fatal(err)
	}
	return a
}

func TestReconcileWritesTheOutcome(t *testing.T) {
	r := newRig(t, runner{run: succeed}, interceptor.Funcs{}, app())
	res, err := r.reconcile(t.Context())
	if err != nil || res.RequeueAfter < 30*time.Second || res.RequeueAfter > 35*time.Second {
		t.Errorf("result %+v, error %v; want the next look after the sync period", res, err)
	}
	a := r.app(t)
	if !status.Has(a.Status.GenericStatus, v1alpha1.ReconcileSucceeded) || a.Status.ObservedGeneration != 1 {
		t.Errorf("status %+v", a.Status)
	}
	if diff := cmp.Diff([]string{"other.example.com/keep", Finalizer}, a.Finalizers); diff != "" {
		t.Errorf("finalizers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]v1alpha1.ConditionType{v1alpha1.ReconcileSucceeded}, r.writes); diff != "" {
		t.Errorf("a short first run is one write (-want +got):\n%s", diff)
	}
}

// TestBeginningIsTold: when the status says that a run goes on.
func TestBeginningIsTold(t *testing.T) {
	told := []v1alpha1.ConditionType{v1alpha1.Reconciling, v1alpha1.ReconcileSucceeded}
	outcome := func(observed int64) func(*v1alpha1.App) {
		return func(a *v1alpha1.App) {
			a.Status.ObservedGeneration = observed
			a.Status.Conditions = []v1alpha1.Condition{{Type: v1alpha1.ReconcileSucceeded, Status: corev1.ConditionTrue}}
		}
	}
	cases := map[string]struct {
		reason string
		long   bool
		with   func(*v1alpha1.App)
		want   []v1alpha1.ConditionType
	}{
		"New":     {"a short run of a new App needs no word before its outcome", false, func(*v1alpha1.App) {}, told[1:]},
		"NewLong": {"a long one does", true, func(*v1alpha1.App) {}, told},
		"Edited":  {"the old outcome must not pass for the new one", false, outcome(1), told},
		"Synced":  {"nothing is new about an App that is looked after again", false, outcome(2), told[1:]},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			a := app()
			a.Generation = 2
			c.with(a)
			wrote := make(chan struct{}, 2)
			stages := runner{run: func(ctx context.Context, job pipeline.Job, report func(status.Outcome)) status.Outcome {
				if c.long {
					<-wrote
				}
				return succeed(ctx, job, report)
			}}
			r := newRig(t, stages, interceptor.Funcs{SubResourceUpdate: func(context.Context, client.Client, string, client.Object, ...client.SubResourceUpdateOption) error {
				wrote <- struct{}{}
				return nil
			}}, a)
			if _, err := r.reconcile(t.Context()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, r.writes); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

// TestFinalizerSurvivesConflicts: someone edits the App at the very moment.
func TestFinalizerSurvivesConflicts(t *testing.T) {
	conflicts := 1
	api := interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, opts ...client.PatchOption) error {
		if conflicts > 0 {
			conflicts--
			return apierrors.NewConflict(schema.GroupResource{Resource: "apps"}, "a", errors.New("modified"))
		}
		return c.Patch(ctx, obj, p, opts...)
	}}
	r := newRig(t, runner{run: succeed}, api, app())
	if _, err := r.reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := r.app(t).Finalizers; !slices.Contains(got, Finalizer) || !slices.Contains(got, "other.example.com/keep") {
		t.Errorf("finalizers %v", got)
	}
}

// TestStatusThatCannotBeWritten: the run is not repeated in a hot loop, and the
// error goes to the queue, which backs off.
func TestStatusThatCannotBeWritten(t *testing.T) {
	runs := 0
	stages := runner{run: func(ctx context.Context, job pipeline.Job, report func(status.Outcome)) status.Outcome {
		runs++
		return succeed(ctx, job, report)
	}}
	api := interceptor.Funcs{SubResourceUpdate: func(context.Context, client.Client, string, client.Object, ...client.SubResourceUpdateOption) error {
		return apierrors.NewInternalError(errors.New("etcd is away"))
	}}
	r := newRig(t, stages, api, app())
	if _, err := r.reconcile(t.Context()); err == nil {
		t.Error("no error although no status could be written")
	}
	if runs > 1 {
		t.Errorf("%d runs, want at most one", runs)
	}
}

// TestShutdownIsNoFailure: what the controller's own stop cut short is resumed by
// the next controller; the App did not fail.
func TestShutdownIsNoFailure(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stages := runner{run: func(_ context.Context, job pipeline.Job, _ func(status.Outcome)) status.Outcome {
		stop()
		return status.Outcome{Generation: job.Generation, Err: "Deploying: Process was canceled", Done: true}
	}}
	r := newRig(t, stages, interceptor.Funcs{}, app())
	if _, err := r.reconcile(ctx); err != nil {
		t.Fatal(err)
	}
	if a := r.app(t); status.Has(a.Status.GenericStatus, v1alpha1.ReconcileFailed) || a.Status.ConsecutiveReconcileFailures != 0 {
		t.Errorf("status after a shutdown: %+v", a.Status)
	}
}

// TestDeletedMeanwhile: an App that is gone when its run ends is no error.
func TestDeletedMeanwhile(t *testing.T) {
	var r *rig
	stages := runner{run: func(ctx context.Context, job pipeline.Job, _ func(status.Outcome)) status.Outcome {
		a := r.app(t)
		a.Finalizers = nil
		if err := errors.Join(r.api.Update(ctx, a), r.api.Delete(ctx, a)); err != nil {
			t.Error(err)
		}
		return status.Outcome{Generation: job.Generation, Err: "whatever", Done: true}
	}}
	r = newRig(t, stages, interceptor.Funcs{}, app())
	if res, err := r.reconcile(t.Context()); err != nil || res.RequeueAfter != 0 {
		t.Errorf("result %+v, error %v", res, err)
	}
}

// TestDeleteWaitsForNoCache: a sidecar that hangs holds up no delete.
func TestDeleteWaitsForNoCache(t *testing.T) {
	a := app()
	a.Finalizers = append(a.Finalizers, Finalizer)
	now := metav1.Now()
	a.DeletionTimestamp = &now
	r := newRig(t, runner{delete: func(_ context.Context, job pipeline.Job, _ func(status.Outcome)) status.Outcome {
		return status.Outcome{Generation: job.Generation, Deleting: true, Done: true}
	}}, interceptor.Funcs{}, a)
	r.Forget = func(ctx context.Context, _ string) error {
		if end, ok := ctx.Deadline(); !ok || time.Until(end) > time.Minute {
			t.Errorf("waits until %v, %t", end, ok)
		}
		return context.DeadlineExceeded
	}
	if _, err := r.reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	if hasFinalizer(r.app(t)) {
		t.Error("the finalizer is still there")
	}
}

// TestStaleCache: an App as it was before our own latest write is not acted on.
func TestStaleCache(t *testing.T) {
	runs := 0
	stages := runner{run: func(ctx context.Context, job pipeline.Job, report func(status.Outcome)) status.Outcome {
		runs++
		return succeed(ctx, job, report)
	}}
	r := newRig(t, stages, interceptor.Funcs{}, app())
	old := r.app(t)
	if _, err := r.reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.Client = lagging{r.Client, old}
	if _, err := r.reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	if runs != 1 {
		t.Errorf("%d runs: the old status was acted on", runs)
	}
}

// lagging is a cache that has not seen the latest writes.
type lagging struct {
	client.Client
	old *v1alpha1.App
}

func (l lagging) Get(_ context.Context, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	l.old.DeepCopyInto(obj.(*v1alpha1.App))
	return nil
}

// TestReportsNeverOverwriteTheEnd: live output that is late must not replace the
// final status.
func TestReportsNeverOverwriteTheEnd(t *testing.T) {
	stages := runner{run: func(ctx context.Context, job pipeline.Job, report func(status.Outcome)) status.Outcome {
		for range 100 {
			report(status.Outcome{Generation: job.Generation, Deploy: &status.Stage{Stdout: "so far"}, Running: true, Applying: true})
		}
		return succeed(ctx, job, report)
	}}
	r := newRig(t, stages, interceptor.Funcs{}, app())
	if _, err := r.reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	if last := r.writes[len(r.writes)-1]; last != v1alpha1.ReconcileSucceeded {
		t.Errorf("writes %v: the last is not the outcome", r.writes)
	}
}

// TestNothingIsKeptOfAppsThatAreGone: memory does not grow with Apps that come and go.
func TestNothingIsKeptOfAppsThatAreGone(t *testing.T) {
	a := app()
	a.Spec.Fetch = []v1alpha1.AppFetch{{Git: &v1alpha1.AppFetchGit{SecretRef: &v1alpha1.AppFetchLocalRef{Name: "s"}}}}
	r := newRig(t, runner{run: succeed}, interceptor.Funcs{}, a)
	if _, err := r.reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	gone := r.app(t)
	gone.Finalizers = nil
	if err := errors.Join(r.api.Update(t.Context(), gone), r.api.Delete(t.Context(), gone)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := r.written.Len() + len(r.attempted) + len(r.unwritten) + r.refs.Len() + len(r.running.runs); n != 0 {
		t.Errorf("%d entries are kept of an App that is gone", n)
	}
}
