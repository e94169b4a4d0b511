// Package app reconciles Apps: it observes one, lets plan decide, has the
// pipeline act, and stores what status makes of the outcome.
package app

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/metrics"
	"github.com/garboard-dev/garboard/pkg/pipeline"
	"github.com/garboard-dev/garboard/pkg/plan"
	"github.com/garboard-dev/garboard/pkg/refs"
	"github.com/garboard-dev/garboard/pkg/settings"
	"github.com/garboard-dev/garboard/pkg/status"
	"github.com/garboard-dev/garboard/pkg/status/writer"
)

// Finalizer keeps an App until what it deployed is deleted.
const Finalizer = "finalizers.kapp-ctrl.k14s.io/delete"

// Runner runs the stages of an App; a *pipeline.Pipeline is one.
type Runner interface {
	Run(ctx context.Context, job pipeline.Job, report func(status.Outcome)) status.Outcome
	Delete(ctx context.Context, job pipeline.Job, report func(status.Outcome)) status.Outcome
}

// Config is what a Reconciler works with. All fields are needed.
type Config struct {
	// Client reads Apps from the cache and writes to the API server.
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
	// Objects is what the Runner's stages read Secrets and ConfigMaps with.
	Objects *Objects
	// Runner runs the stages.
	Runner Runner
	// Forget drops what the sidecar keeps for an owner.
	Forget func(ctx context.Context, owner string) error
	// Settings are the administrator's.
	Settings *settings.Store
	// Metrics counts reconciles.
	Metrics *metrics.Reconciles
	// Now is the clock.
	Now func() time.Time
}

// Reconciler reconciles Apps.
type Reconciler struct {
	Config
	writer  *writer.Writer
	refs    *tracker
	running *running

	mu sync.Mutex // guards all below
	// written is the resource version of the latest write to each App, and
	// attempted when a run of it last ended, also if no status could be written.
	written   map[types.NamespacedName]int64
	attempted map[types.NamespacedName]time.Time
}

// New returns a Reconciler. Use SetupWithManager to start it.
func New(c Config) *Reconciler {
	return &Reconciler{
		Config: c, writer: &writer.Writer{Client: liveWriter{c.Live, c.Client}}, refs: c.Objects.refs, running: newRunning(),
		written: map[types.NamespacedName]int64{}, attempted: map[types.NamespacedName]time.Time{},
	}
}

// liveWriter reads from the API server and writes through the client.
type liveWriter struct {
	client.Reader
	client.StatusClient
}

// Reconcile brings one App to what its spec says, or says in its status why not.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	app, err := r.load(ctx, req.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	if app == nil {
		r.forget(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	r.refs.track(req.NamespacedName, refs.OfApp(app.Spec))
	decision := plan.Decide(r.observe(app))
	logf.FromContext(ctx).V(1).Info("Decided", "rung", decision.Rung.String(), "reason", decision.Reason, "wake", decision.Wake)
	if decision.Rung != plan.Nothing {
		if app, err = r.act(ctx, app, decision); app == nil || err != nil {
			return ctrl.Result{}, err
		}
		decision = plan.Decide(r.observe(app))
	}
	return ctrl.Result{RequeueAfter: wake(decision)}, nil
}

// wake returns when to look again. Work that is due already, such as a Secret
// that changed during the run, comes next.
func wake(d plan.Decision) time.Duration {
	if d.Rung == plan.Full || d.Rung == plan.Delete {
		return time.Millisecond
	}
	return d.Wake
}

// load returns the App, at least as new as our latest write to it, or nil if
// there is none.
func (r *Reconciler) load(ctx context.Context, key types.NamespacedName) (*v1alpha1.App, error) {
	app := &v1alpha1.App{}
	err := r.Client.Get(ctx, key, app)
	if err == nil && r.stale(key, app.ResourceVersion) {
		// The cache does not have our own write yet; deciding on the old status
		// would run everything again.
		app = &v1alpha1.App{}
		err = r.Live.Get(ctx, key, app)
	}
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return app, err
}

// lookAgain shows the newest known state of an App to the run that has just
// started: the event of a delete or a cancel that came after load found no run
// to end.
func (r *Reconciler) lookAgain(ctx context.Context, key types.NamespacedName) {
	app := &v1alpha1.App{}
	switch err := r.Client.Get(ctx, key, app); {
	case err == nil:
		r.running.seen(app)
	case apierrors.IsNotFound(err):
		r.running.gone(key)
	}
}

func (r *Reconciler) stale(key types.NamespacedName, version string) bool {
	v, err := strconv.ParseInt(version, 10, 64)
	r.mu.Lock()
	defer r.mu.Unlock()
	return err == nil && v < r.written[key]
}

// wrote notes a write to an App, so that no older one is acted on.
func (r *Reconciler) wrote(app *v1alpha1.App) {
	if v, err := strconv.ParseInt(app.ResourceVersion, 10, 64); err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.written[client.ObjectKeyFromObject(app)] = v
	}
}

// forget drops everything kept about an App that is gone.
func (r *Reconciler) forget(key types.NamespacedName) {
	r.refs.track(key, nil)
	r.Metrics.Forget(metrics.Object{Kind: "App", Namespace: key.Namespace, Name: key.Name})
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.written, key)
	delete(r.attempted, key)
}

// observe gathers what plan decides on.
func (r *Reconciler) observe(app *v1alpha1.App) plan.State {
	key, set := client.ObjectKeyFromObject(app), r.Settings.Get()
	r.mu.Lock()
	attempted := r.attempted[key]
	r.mu.Unlock()
	last := status.LastAttempt(app.Status)
	if attempted.After(last) {
		last = attempted
	}
	var own *time.Duration
	if app.Spec.SyncPeriod != nil {
		own = &app.Spec.SyncPeriod.Duration
	}
	return plan.State{
		Now: r.Now(), Generation: app.Generation, ObservedGeneration: app.Status.ObservedGeneration,
		Deleting: !app.DeletionTimestamp.IsZero(), HasFinalizer: hasFinalizer(app),
		Paused:      app.Spec.Paused || app.Spec.Canceled,
		Reconciling: status.Has(app.Status.GenericStatus, v1alpha1.Reconciling),
		Failed:      status.Has(app.Status.GenericStatus, v1alpha1.ReconcileFailed) || status.Has(app.Status.GenericStatus, v1alpha1.DeleteFailed),
		Failures:    app.Status.ConsecutiveReconcileFailures,
		LastAttempt: last,
		SyncPeriod:  plan.SyncPeriod(own, set.AppDefaultSyncPeriod, set.AppMinimumSyncPeriod),
		RefsChanged: r.refs.changed(key),
		Jitter:      rand.Float64(),
	}
}

// act does what was decided and returns the App afterwards, nil if it is gone.
func (r *Reconciler) act(ctx context.Context, app *v1alpha1.App, d plan.Decision) (*v1alpha1.App, error) {
	s := newSession(r, app)
	var err error
	switch d.Rung {
	case plan.StatusOnly:
		err = s.write(ctx, status.Outcome{Generation: app.Generation, Paused: true})
	case plan.Delete:
		err = s.delete(ctx)
	default:
		err = s.run(ctx)
	}
	if errors.Is(err, writer.ErrGone) {
		return nil, nil
	}
	return s.current(), err
}

func hasFinalizer(app *v1alpha1.App) bool {
	for _, f := range app.Finalizers {
		if f == Finalizer {
			return true
		}
	}
	return false
}
