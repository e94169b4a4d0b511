// Package app reconciles Apps: it observes one, lets plan decide, has the
// pipeline act, and stores what status makes of the outcome.
package app

import (
	"context"
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	"github.com/garboard-dev/garboard/pkg/track"
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
	Objects *track.Objects
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
	// Concurrency is how many Apps work at the same time, and WaitingSlots how many
	// deploys may wait for their cluster beside them.
	Concurrency, WaitingSlots int
}

// Reconciler reconciles Apps.
type Reconciler struct {
	Config
	writer  *writer.Writer
	refs    *track.Tracker
	written track.Versions
	running *running
	slots   *slots
	deletes *slots

	mu sync.Mutex // guards all below
	// since is when this controller first looked at an App: a replica may stand by for
	// long before that.
	since time.Time
	// attempted is when a run of each App last ended, also if no status could be
	// written.
	attempted map[types.NamespacedName]time.Time
	// unwritten are outcomes that the API server could not be told.
	unwritten map[types.NamespacedName]outcome
}

// New returns a Reconciler. Use SetupWithManager to start it.
func New(c Config) *Reconciler {
	r := &Reconciler{
		Config: c, writer: writer.New(c.Live, c.Client), refs: c.Objects.Refs, running: newRunning(),
		slots: newSlots(c.Concurrency, c.WaitingSlots), deletes: newSlots(c.Concurrency, 0),
		attempted: map[types.NamespacedName]time.Time{}, unwritten: map[types.NamespacedName]outcome{},
	}
	r.refs.OnOvertaken = r.running.outdated
	return r
}

// Slots is how many Apps work, wait for their cluster, and wait for their turn.
func (r *Reconciler) Slots() metrics.Slots {
	runs, deletes := r.slots.count(), r.deletes.count()
	return metrics.Slots{Active: runs.Active + deletes.Active, Waiting: runs.Waiting + deletes.Waiting, Queued: runs.Queued + deletes.Queued}
}

// view is an App, and what there is to do about it.
type view struct {
	app *v1alpha1.App // nil: there is none
	// status is the App's, or a newer one that could not be written yet, and
	// unwritten the reason.
	status    v1alpha1.AppStatus
	unwritten error
	decision  plan.Decision
}

// Reconcile brings one App to what its spec says, or says in its status why not.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	v, err := r.look(ctx, req.NamespacedName)
	var t *turn
	for t == nil && err == nil && v.decision.Rung >= plan.Full {
		if t = r.turn(ctx, req.NamespacedName, v.decision.Rung); t != nil {
			defer t.release()
		}
		if ctx.Err() != nil {
			return ctrl.Result{}, nil // the controller stops: the next one resumes
		}
		if t == nil || t.queued { // for how long, nobody knows
			v, err = r.look(ctx, req.NamespacedName)
		}
	}
	switch {
	case err != nil || v.app == nil:
		return ctrl.Result{}, err
	case v.decision.Rung == plan.Nothing && v.unwritten != nil:
		return ctrl.Result{}, v.unwritten
	case v.decision.Rung != plan.Nothing:
		app, err := r.act(ctx, v, t)
		if app == nil || err != nil {
			return ctrl.Result{}, err
		}
		v.decision = plan.Decide(r.observe(app, app.Status))
	}
	return ctrl.Result{RequeueAfter: v.decision.After()}, nil
}

// turn waits for a place to work in. It returns nil when the controller stops, and
// when the App needs none any more: a pause is told at once, however long others
// keep the places. Deletes have places of their own: servers that do not answer can
// hold all others for long.
func (r *Reconciler) turn(ctx context.Context, key types.NamespacedName, rung plan.Rung) *turn {
	line := r.slots
	if rung == plan.Delete {
		line = r.deletes
	}
	if t := line.take(); t != nil {
		return t
	}
	ctx, leave := r.running.queue(ctx, key, rung == plan.Delete)
	defer leave()
	r.lookAgain(ctx, key)
	t, _ := line.acquire(ctx) // nil once the context has ended
	return t
}

// look observes an App and decides.
func (r *Reconciler) look(ctx context.Context, key types.NamespacedName) (view, error) {
	app, err := r.load(ctx, key)
	if err != nil {
		return view{}, err
	}
	if app == nil {
		r.forget(key)
		return view{}, nil
	}
	r.refs.Track(key, refs.OfApp(app.Spec))
	r.refs.Baseline(key, func(ref refs.Key) (latest, read int64) { return r.known(ctx, app, ref) })
	v := r.catchUp(ctx, app)
	v.decision = plan.Decide(r.observe(v.app, v.status))
	logf.FromContext(ctx).V(1).Info("Decided", "rung", v.decision.Rung.String(), "reason", v.decision.Reason, "wake", v.decision.Wake)
	return v, nil
}

// load returns the App, at least as new as our latest write to it, or nil if
// there is none.
func (r *Reconciler) load(ctx context.Context, key types.NamespacedName) (*v1alpha1.App, error) {
	app := &v1alpha1.App{}
	err := r.Client.Get(ctx, key, app)
	if err == nil && r.written.Stale(app) {
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

// lookAgain shows the newest known state of an App to the run, or the wait for
// one, that has just started: the event of a delete or a cancel that came after
// load found nothing to end.
func (r *Reconciler) lookAgain(ctx context.Context, key types.NamespacedName) {
	app := &v1alpha1.App{}
	switch err := r.Client.Get(ctx, key, app); {
	case err == nil:
		r.running.seen(app)
	case apierrors.IsNotFound(err):
		r.running.gone(key)
	}
}

// forget drops everything kept about an App that is gone.
func (r *Reconciler) forget(key types.NamespacedName) {
	r.refs.Track(key, nil)
	r.Metrics.Forget(metrics.Object{Kind: "App", Namespace: key.Namespace, Name: key.Name})
	r.written.Forget(key)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.attempted, key)
	delete(r.unwritten, key)
}

// observe gathers what plan decides on.
func (r *Reconciler) observe(app *v1alpha1.App, st v1alpha1.AppStatus) plan.State {
	key, set := client.ObjectKeyFromObject(app), r.Settings.Get()
	r.mu.Lock()
	attempted, ran := r.attempted[key]
	if r.since.IsZero() {
		r.since = r.Now()
	}
	last, since := status.LastAttempt(st), r.since
	r.mu.Unlock()
	if attempted.After(last) {
		last = attempted
	}
	if ran {
		since = time.Time{}
	}
	var own *time.Duration
	if app.Spec.SyncPeriod != nil {
		own = &app.Spec.SyncPeriod.Duration
	}
	return plan.State{
		Now: r.Now(), Generation: app.Generation, ObservedGeneration: st.ObservedGeneration,
		Deleting: !app.DeletionTimestamp.IsZero(), HasFinalizer: hasFinalizer(app),
		Paused:      app.Spec.Paused || app.Spec.Canceled,
		Reconciling: status.Has(st.GenericStatus, v1alpha1.Reconciling),
		Failed:      status.Has(st.GenericStatus, v1alpha1.ReconcileFailed) || status.Has(st.GenericStatus, v1alpha1.DeleteFailed),
		Failures:    st.ConsecutiveReconcileFailures,
		LastAttempt: last,
		SyncPeriod:  plan.SyncPeriod(own, set.AppDefaultSyncPeriod, set.AppMinimumSyncPeriod),
		RefsChanged: r.refs.Changed(key),
		Jitter:      rand.Float64(), Since: since, Spread: spread(app.UID),
	}
}

// known returns which version of an object the cache has, and whether a run of an
// earlier controller read that one: if it had not changed when the latest run that
// is on record began.
func (r *Reconciler) known(ctx context.Context, app *v1alpha1.App, ref refs.Key) (latest, read int64) {
	meta := &metav1.PartialObjectMetadata{}
	meta.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(ref.Kind))
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: app.Namespace, Name: ref.Name}, meta); err != nil {
		return 0, 0
	}
	latest, err := strconv.ParseInt(meta.ResourceVersion, 10, 64)
	if err != nil || app.Status.Fetch == nil || track.LastChange(meta).After(app.Status.Fetch.StartedAt.Time) {
		return latest, 0
	}
	return latest, latest
}

// spread returns a number in [0,1) that stays with an object.
func spread(uid types.UID) float64 {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(uid))
	return float64(sum.Sum32()) / (1 << 32)
}

// act does what was decided and returns the App afterwards, nil if it is gone.
func (r *Reconciler) act(ctx context.Context, v view, t *turn) (*v1alpha1.App, error) {
	s := newSession(r, v, t)
	var err error
	switch v.decision.Rung {
	case plan.StatusOnly:
		err = s.write(ctx, status.Outcome{Generation: v.app.Generation, Paused: true})
	case plan.Delete:
		err = s.delete(ctx)
	default:
		err = s.run(ctx)
	}
	switch {
	case errors.Is(err, writer.ErrGone):
		return nil, nil
	case useless(err):
		// Whoever ended the run has queued the App again.
		logf.FromContext(ctx).Info("Ended a run", "generation", v.app.Generation, "reason", err.Error())
		return s.current(), nil
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
