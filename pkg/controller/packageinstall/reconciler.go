// Package packageinstall reconciles PackageInstalls: it chooses a version of a
// Package, makes an App of it and tells what becomes of that App.
//
// It reads Packages as they are stored, from the cache, and never through the API
// that serves them. decide and makeApp see values only.
package packageinstall

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	kappctrl "github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	packaging "github.com/garboard-dev/garboard/pkg/apis/packaging/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/metrics"
	"github.com/garboard-dev/garboard/pkg/settings"
	"github.com/garboard-dev/garboard/pkg/status"
	"github.com/garboard-dev/garboard/pkg/status/writer"
)

// Finalizer keeps a PackageInstall until its App is deleted.
const Finalizer = "finalizers.packageinstall.packaging.carvel.dev/delete"

const kind = "PackageInstall"

// Config is what a Reconciler works with. All fields are needed but GlobalNamespace.
type Config struct {
	// Client reads from the cache and writes to the API server.
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
	// GlobalNamespace is the one whose Packages all namespaces see; empty is none.
	GlobalNamespace string
	// ControllerVersion is what Packages are told that ask for it.
	ControllerVersion string
	// KubernetesVersion returns the version of the cluster that a PackageInstall
	// installs to. Answers are kept for a minute.
	KubernetesVersion func(ctx context.Context, pkgi *packaging.PackageInstall) (string, error)
	// Settings are the administrator's.
	Settings *settings.Store
	// Metrics counts reconciles.
	Metrics *metrics.Reconciles
	// Now is the clock.
	Now func() time.Time
	// Concurrency is the number of PackageInstalls reconciled at once.
	Concurrency int
}

// Reconciler reconciles PackageInstalls.
type Reconciler struct {
	Config
	writer     *writer.Writer
	events     writer.Events
	kubernetes *versionCache
	schemas    *schemaCache

	mu sync.Mutex // guards all below
	// written is the resource version of our latest write to each object.
	written map[object]int64
	// failures counts those in a row that time may heal.
	failures map[types.NamespacedName]int
	// warned holds the warnings told last: an older CRD drops those of the status.
	warned map[types.NamespacedName][]string
}

// New returns a Reconciler. Use SetupWithManager to start it.
func New(c Config) *Reconciler {
	return &Reconciler{
		Config: c, writer: writer.New(c.Live, c.Client),
		events:     writer.Events{Client: c.Client, Now: c.Now},
		kubernetes: &versionCache{lookup: c.KubernetesVersion, now: c.Now},
		schemas:    &schemaCache{known: map[types.NamespacedName]checked{}},
		written:    map[object]int64{}, failures: map[types.NamespacedName]int{},
		warned: map[types.NamespacedName][]string{},
	}
}

// Reconcile makes one PackageInstall's App what it has to be, or says in the
// status why it cannot.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pkgi := &packaging.PackageInstall{}
	if found, err := r.get(ctx, req.NamespacedName, pkgi); err != nil || !found {
		if err == nil {
			r.forget(req.NamespacedName)
		}
		return ctrl.Result{}, err
	}
	began, deleting := r.Now(), !pkgi.DeletionTimestamp.IsZero()
	if deleting && !slices.Contains(pkgi.Finalizers, Finalizer) {
		return ctrl.Result{}, nil
	}
	r.Metrics.Started(series(pkgi), deleting)
	do := r.install
	if deleting {
		do = r.delete
	}
	d, err := r.contained(ctx, pkgi, do)
	if err != nil || d == nil || ctx.Err() != nil {
		// What fails because the controller stops is no failure of the object.
		return ctrl.Result{}, err
	}
	first := pkgi.Status.ObservedGeneration == 0
	next, err := r.report(ctx, pkgi, d.outcome)
	if err != nil || next == nil {
		return ctrl.Result{}, err
	}
	r.count(next, metrics.Times{Total: r.Now().Sub(began), First: first})
	return ctrl.Result{RequeueAfter: r.retry(req.NamespacedName, d)}, nil
}

// contained turns a panic, which no input should cause, into the failure of the
// one PackageInstall that it is about.
func (r *Reconciler) contained(ctx context.Context, pkgi *packaging.PackageInstall, do func(context.Context, *packaging.PackageInstall) (*decision, error)) (d *decision, err error) {
	defer func() {
		if p := recover(); p != nil {
			logf.FromContext(ctx).Error(fmt.Errorf("panic: %v", p), "Contained a panic")
			failed := fail("Internal error: %.200v", p)
			d, err = &failed, nil
		}
	}()
	return do(ctx, pkgi)
}

// install makes the App. It returns nil if the PackageInstall is gone.
func (r *Reconciler) install(ctx context.Context, pkgi *packaging.PackageInstall) (*decision, error) {
	if err := r.addFinalizer(ctx, pkgi); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	s, err := r.observe(ctx, pkgi)
	if err != nil {
		return nil, err
	}
	for try := 0; ; try++ {
		d := decide(s)
		if d.pkg != nil {
			d.outcome.Warnings = append(d.outcome.Warnings, r.schemas.warnings(ctx, r, pkgi, d.pkg)...)
		}
		r.warn(ctx, pkgi, d.outcome)
		app, err := r.apply(ctx, pkgi, s.app, d)
		if (apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)) && try < 3 {
			if s.app, err = r.liveApp(ctx, pkgi); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil && !users(err) {
			return nil, err
		}
		if err != nil {
			d.outcome.Failure = err.Error()
		}
		d.outcome.Generation, d.outcome.App = pkgi.Generation, app
		return &d, nil
	}
}

// users says whether an error of the API server is the user's to know: it refuses
// what was asked of it. All others pass, and are no reason to show a failure.
func users(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsNotFound(err) || apierrors.IsRequestEntityTooLargeError(err) || apierrors.IsAlreadyExists(err)
}

// apply brings the App, and what has to exist before it, to what was decided, and
// returns the App as it then is. On an error that is the App as it was.
func (r *Reconciler) apply(ctx context.Context, pkgi *packaging.PackageInstall, current *kappctrl.App, d decision) (*kappctrl.App, error) {
	if d.outcome.Failure != "" || d.app == nil {
		return current, nil
	}
	for _, name := range d.placeholders {
		if err := r.placeholder(ctx, pkgi, name); err != nil {
			return current, fmt.Errorf("create placeholder Secret %s: %w", name, err)
		}
	}
	next := d.app.DeepCopy()
	var err error
	switch {
	case current == nil:
		err = r.Client.Create(ctx, next)
	case same(current, next):
		return current, nil
	default:
		err = r.Client.Update(ctx, next)
	}
	if err != nil {
		return current, fmt.Errorf("write App %s/%s: %w", next.Namespace, next.Name, err)
	}
	r.wrote(next)
	logf.FromContext(ctx).Info("Changed the App", "version", d.outcome.Attempted, "appGeneration", next.Generation)
	return next, nil
}

// report stores the outcome and tells of it. It returns nil if the object is gone.
func (r *Reconciler) report(ctx context.Context, pkgi *packaging.PackageInstall, out status.Install) (*packaging.PackageInstall, error) {
	out.Generation = pkgi.Generation
	next, err := r.writer.PackageInstall(ctx, pkgi, status.ProjectPackageInstall(pkgi.Status, out))
	if errors.Is(err, writer.ErrGone) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r.wrote(next)
	if v := next.Status.LastAttemptedVersion; v != pkgi.Status.LastAttemptedVersion {
		r.events.Tell(ctx, next, status.Event{Reason: "Installing", Text: version(pkgi.Status.LastAttemptedVersion, v)})
	}
	if e, ok := status.InstallTransition(pkgi.Status, next.Status); ok {
		r.events.Tell(ctx, next, e)
	}
	return next, nil
}

func version(old, next string) string {
	if old == "" {
		return "Version " + next
	}
	return fmt.Sprintf("Version %s, after %s", next, old)
}

// warn tells of warnings that are new, before anything is deployed.
func (r *Reconciler) warn(ctx context.Context, pkgi *packaging.PackageInstall, out status.Install) {
	key := client.ObjectKeyFromObject(pkgi)
	r.mu.Lock()
	told := append(r.warned[key], pkgi.Status.Warnings...)
	r.warned[key] = slices.Clone(out.Warnings)
	r.mu.Unlock()
	for _, w := range out.Warnings {
		if !slices.Contains(told, w) {
			r.events.Tell(ctx, pkgi, status.Event{Warning: true, Reason: "Doubtful", Text: fmt.Sprintf("%.900s", w)})
		}
	}
}

// count counts an outcome; work that goes on has none.
func (r *Reconciler) count(pkgi *packaging.PackageInstall, t metrics.Times) {
	switch s := pkgi.Status.GenericStatus; {
	case status.Has(s, kappctrl.DeleteFailed):
		r.Metrics.DeleteFailed(series(pkgi))
	case status.Has(s, kappctrl.ReconcileFailed):
		r.Metrics.Done(series(pkgi), true, t)
	case status.Has(s, kappctrl.ReconcileSucceeded):
		r.Metrics.Done(series(pkgi), false, t)
	}
}

const (
	firstRetry = 2 * time.Second
	lastRetry  = 5 * time.Minute
)

// retry returns when to look again without an event; 0 is never. The pause doubles
// with each failure, and is not the same for all that failed together.
func (r *Reconciler) retry(key types.NamespacedName, d *decision) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if d.outcome.Failure == "" || d.final {
		delete(r.failures, key)
		return 0
	}
	pause := min(firstRetry<<min(r.failures[key], 10), lastRetry)
	r.failures[key]++
	return pause - time.Duration(rand.Int64N(int64(pause)/10))
}

func series(pkgi *packaging.PackageInstall) metrics.Object {
	return metrics.Object{Kind: kind, Namespace: pkgi.Namespace, Name: pkgi.Name}
}
