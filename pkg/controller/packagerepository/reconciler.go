// Package packagerepository reconciles PackageRepositories: it observes one, lets
// plan decide, has the pipeline act, and stores what status makes of the outcome.
package packagerepository

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	packaging "github.com/garboard-dev/garboard/pkg/apis/packaging/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/fetch"
	"github.com/garboard-dev/garboard/pkg/metrics"
	"github.com/garboard-dev/garboard/pkg/pipeline"
	"github.com/garboard-dev/garboard/pkg/plan"
	"github.com/garboard-dev/garboard/pkg/refs"
	"github.com/garboard-dev/garboard/pkg/repository/offer"
	"github.com/garboard-dev/garboard/pkg/settings"
	"github.com/garboard-dev/garboard/pkg/status"
	"github.com/garboard-dev/garboard/pkg/status/writer"
	"github.com/garboard-dev/garboard/pkg/track"
)

// Finalizer keeps a PackageRepository until what it offered is withdrawn, and
// LegacyFinalizer is what versions of old called it; both go together.
const (
	Finalizer       = "finalizers.packagerepository.packaging.carvel.dev/delete"
	LegacyFinalizer = "finalizers.packaging.carvel.dev/delete"
)

// Resolver returns what sources hold at the moment, as a text to compare, or "" if
// only a fetch can tell; a *fetch.Fetcher is one.
type Resolver interface {
	Resolve(ctx context.Context, ws fetch.Workspace, req fetch.Request) (string, error)
}

// Config is what a Reconciler works with. All fields are needed.
type Config struct {
	// Client reads from the cache and writes to the API server, Live reads from the
	// API server.
	Client client.Client
	Live   client.Reader
	// Objects is what the fetch stage reads Secrets and ConfigMaps with.
	Objects *track.Objects
	// Pipeline has the fetch stage and the bounds; its other stages are not used.
	Pipeline pipeline.Pipeline
	// Resolver tells cheaply whether a source changed.
	Resolver Resolver
	// Templater runs ytt on what was fetched.
	Templater offer.Templater
	// Store is what packages are written to.
	Store *offer.Store
	// Forget drops what the sidecar keeps for an owner.
	Forget func(ctx context.Context, owner string) error
	// Settings are the administrator's.
	Settings *settings.Store
	// Metrics counts reconciles.
	Metrics *metrics.Reconciles
	// Now is the clock.
	Now func() time.Time
}

// Reconciler reconciles PackageRepositories.
type Reconciler struct {
	Config
	writer  *writer.Writer
	refs    *track.Tracker
	written track.Versions
	running running

	mu    sync.Mutex // guards known
	known map[types.NamespacedName]memory
}

// memory is what is known of a repository's latest run in this process.
type memory struct {
	uid        types.UID
	generation int64
	// attempted is when it ended, also if no status was written.
	attempted time.Time
	// versions are the objects as it left them, nil if it did not get that far, and
	// revision what its source held then, "" if that is not known.
	versions offer.Versions
	revision string
	// repeats is how many runs since then were spared because nothing had changed.
	repeats int
}

// New returns a Reconciler. Use SetupWithManager to start it.
func New(c Config) *Reconciler {
	return &Reconciler{
		Config: c, writer: writer.New(c.Live, c.Client), refs: c.Objects.Refs,
		running: running{runs: map[types.NamespacedName]run{}}, known: map[types.NamespacedName]memory{},
	}
}

// Reconcile offers what one repository holds, or says in its status why not.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	repo, err := r.load(ctx, req.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	if repo == nil {
		r.forget(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	r.refs.Track(req.NamespacedName, refs.OfApp(JobForRepository(repo).Spec))
	decision := plan.Decide(r.observe(repo))
	logf.FromContext(ctx).V(1).Info("Decided", "rung", decision.Rung.String(), "reason", decision.Reason, "wake", decision.Wake)
	if decision.Rung != plan.Nothing {
		repo, err = r.act(ctx, repo, decision)
		if repo == nil || err != nil {
			return ctrl.Result{}, err
		}
		decision = plan.Decide(r.observe(repo))
	}
	return ctrl.Result{RequeueAfter: decision.After()}, nil
}

// load returns the repository, at least as new as our latest write to it, or nil
// if there is none.
func (r *Reconciler) load(ctx context.Context, key types.NamespacedName) (*packaging.PackageRepository, error) {
	repo := &packaging.PackageRepository{}
	err := r.Client.Get(ctx, key, repo)
	if err == nil && r.written.Stale(repo) {
		repo = &packaging.PackageRepository{}
		err = r.Live.Get(ctx, key, repo)
	}
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return repo, err
}

// forget drops everything kept about a repository that is gone.
func (r *Reconciler) forget(key types.NamespacedName) {
	r.refs.Track(key, nil)
	r.written.Forget(key)
	r.Metrics.Forget(metrics.Object{Kind: "PackageRepository", Namespace: key.Namespace, Name: key.Name})
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known, key)
}

// remembered returns what is known of the latest run of this generation.
func (r *Reconciler) remembered(repo *packaging.PackageRepository) memory {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.known[client.ObjectKeyFromObject(repo)]
	if m.uid != repo.UID || m.generation != repo.Generation {
		return memory{uid: repo.UID, generation: repo.Generation}
	}
	return m
}

func (r *Reconciler) remember(key types.NamespacedName, m memory) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known[key] = m
}

// observe gathers what plan decides on.
func (r *Reconciler) observe(repo *packaging.PackageRepository) plan.State {
	s, known := status.RepositoryAsApp(repo.Status), r.remembered(repo)
	last := status.LastAttempt(s)
	if known.attempted.After(last) {
		last = known.attempted
	}
	var own *time.Duration
	if repo.Spec.SyncPeriod != nil {
		own = &repo.Spec.SyncPeriod.Duration
	}
	return plan.State{
		Now: r.Now(), Generation: repo.Generation, ObservedGeneration: s.ObservedGeneration,
		Deleting: !repo.DeletionTimestamp.IsZero(), HasFinalizer: finalizing(repo),
		Paused:      repo.Spec.Paused,
		Reconciling: status.Has(s.GenericStatus, v1alpha1.Reconciling),
		Failed:      status.Has(s.GenericStatus, v1alpha1.ReconcileFailed) || status.Has(s.GenericStatus, v1alpha1.DeleteFailed),
		Failures:    s.ConsecutiveReconcileFailures + known.repeats,
		LastAttempt: last,
		SyncPeriod:  plan.SyncPeriod(own, defaultSyncPeriod, plan.MinSyncPeriod),
		RefsChanged: r.refs.Changed(client.ObjectKeyFromObject(repo)),
		Jitter:      rand.Float64(),
	}
}

// act does what was decided and returns the repository afterwards, nil if it is gone.
func (r *Reconciler) act(ctx context.Context, repo *packaging.PackageRepository, d plan.Decision) (*packaging.PackageRepository, error) {
	s := newSession(r, repo)
	var err error
	switch d.Rung {
	case plan.StatusOnly:
		err = s.write(ctx, status.Outcome{Generation: repo.Generation, Paused: true}, nil)
	case plan.Delete:
		err = s.delete(ctx)
	default:
		err = s.run(ctx, d)
	}
	if errors.Is(err, writer.ErrGone) {
		return nil, nil
	}
	return s.repo, err
}

func finalizing(repo *packaging.PackageRepository) bool {
	return slices.Contains(repo.Finalizers, Finalizer) || slices.Contains(repo.Finalizers, LegacyFinalizer)
}
