package app

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/pipeline"
	"github.com/garboard-dev/garboard/pkg/status"
	"github.com/garboard-dev/garboard/pkg/status/writer"
	"github.com/garboard-dev/garboard/pkg/track"
)

// session is one reconcile's hold on an App: the status it began with, and the
// App as our latest write left it.
type session struct {
	r    *Reconciler
	turn *turn // nil if nothing runs
	old  v1alpha1.AppStatus
	// quiet says that the App is known and only looked after again: its status
	// then moves when something changes, not while nothing happens.
	quiet bool
	// routine says that the run only makes sure. behind says that the API server
	// does not have the status old yet.
	routine, behind bool

	mu   sync.Mutex // guards all below; the run and its reporter both write
	app  *v1alpha1.App
	told bool // something was written
}

func newSession(r *Reconciler, v view, t *turn) *session {
	// A status that claims a run in progress is left from one that was cut off: it
	// is brought up to date at once.
	quiet := v.status.ObservedGeneration == v.app.Generation && !status.Has(v.status.GenericStatus, v1alpha1.Reconciling)
	return &session{
		r: r, turn: t, app: v.app, old: *v.status.DeepCopy(), quiet: quiet,
		routine: v.decision.Routine, behind: v.unwritten != nil,
	}
}

func (s *session) current() *v1alpha1.App {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.app
}

// write stores the status for what happened so far.
func (s *session) write(ctx context.Context, out status.Outcome) error {
	return s.store(ctx, status.ProjectApp(s.old, out))
}

func (s *session) store(ctx context.Context, want v1alpha1.AppStatus) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next, err := s.r.writer.App(ctx, s.app, want)
	if err != nil {
		return err
	}
	s.app, s.told = next, true
	s.r.written.Wrote(next)
	return nil
}

// run fetches, templates and deploys.
func (s *session) run(ctx context.Context) error {
	app := s.current()
	s.r.refs.Begin(client.ObjectKeyFromObject(app))
	out, err := s.during(ctx, status.Outcome{Generation: app.Generation}, s.r.Runner.Run)
	if err != nil {
		return err
	}
	s.r.Metrics.Done(series(app), out.Failure() != nil, times(s.old, out))
	logf.FromContext(ctx).Info("Reconciled", "generation", app.Generation, "outcome", out.Summary())
	return s.finish(ctx, out)
}

// delete removes what was deployed, then the finalizer.
func (s *session) delete(ctx context.Context) error {
	app := s.current()
	s.forgetCache(ctx, app)
	out, err := s.during(ctx, status.Outcome{Generation: app.Generation, Deleting: true}, s.r.Runner.Delete)
	if err != nil {
		return err
	}
	logf.FromContext(ctx).Info("Ran the delete", "generation", app.Generation, "outcome", out.Summary())
	if out.Failure() != nil {
		s.r.Metrics.DeleteFailed(series(app))
		return s.finish(ctx, out)
	}
	ctx, cancel := writer.Last(ctx)
	defer cancel()
	if err := s.removeFinalizer(ctx); err != nil {
		return err
	}
	s.r.record(ctx, app, deleted(out))
	return nil
}

// forgetTimeout bounds the wait for a sidecar that hangs: nothing that a delete
// has to do needs one.
const forgetTimeout = 5 * time.Second

func (s *session) forgetCache(ctx context.Context, app *v1alpha1.App) {
	ctx, cancel := context.WithTimeout(ctx, forgetTimeout)
	defer cancel()
	if err := s.r.Forget(ctx, string(app.UID)); err != nil {
		logf.FromContext(ctx).Error(err, "Cache not dropped; the sidecar drops it when it restarts")
	}
}

// finish stores how a run ended, unless it found everything as it was. A failure
// because the controller stops is none of the App's: its status stays as it is,
// and the next controller resumes.
func (s *session) finish(ctx context.Context, out status.Outcome) error {
	if ctx.Err() != nil && out.Failure() != nil {
		return nil
	}
	next := status.ProjectApp(s.old, out)
	if s.routine && !s.behind && !s.wrote() && status.Unchanged(s.old, next) {
		return nil
	}
	ctx, cancel := writer.Last(ctx)
	defer cancel()
	return s.conclude(ctx, outcome{uid: s.app.UID, generation: out.Generation, deleting: out.Deleting, old: s.old, next: next})
}

func (s *session) wrote() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.told
}

type stages func(context.Context, pipeline.Job, func(status.Outcome)) status.Outcome

// during runs the stages while it reports what they do. The error says that they
// could not be begun, or that nobody wants to know any more how they ended.
func (s *session) during(ctx context.Context, begun status.Outcome, do stages) (status.Outcome, error) {
	app := s.current()
	key := client.ObjectKeyFromObject(app)
	s.r.Metrics.Started(series(app), begun.Deleting)
	pause := reportEvery
	switch {
	case s.quiet:
	case s.patient(begun):
		pause = reportFirst
	default:
		if err := s.write(ctx, begun); err != nil {
			return begun, err
		}
	}
	run := s.r.running.start(track.ReadBy(ctx, key), app, begun.Deleting)
	s.r.lookAgain(ctx, key)
	job := s.job(ctx, app, run)
	reports := startReports(ctx, s, pause)
	if pause == reportFirst {
		reports.put(begun)
	}
	out := do(run.ctx, job, reports.put)
	reports.stop()
	cause := run.stop()

	s.r.mu.Lock()
	s.r.attempted[key] = s.r.Now()
	s.r.mu.Unlock()
	if useless(cause) && out.Failure() != nil {
		return out, cause
	}
	return out, nil
}

// patient says that word of the run's beginning can wait, and is not needed if
// the run is short: an App that has no outcome yet, or is being deleted, misleads
// nobody. An edited App still carries the outcome of its old spec, which `kubectl
// wait` would take for that of the new one.
func (s *session) patient(begun status.Outcome) bool {
	return len(s.old.Conditions) == 0 || begun.Deleting
}

func (s *session) job(ctx context.Context, app *v1alpha1.App, run *run) pipeline.Job {
	set := s.r.Settings.Get()
	return pipeline.Job{
		UID: string(app.UID), Name: app.Name, Namespace: app.Namespace, Generation: app.Generation,
		Labels: app.Labels, Annotations: app.Annotations, Spec: app.Spec, Suffix: ".app",
		KappRawOptions: set.KappDeployRawOptions, SkipTLS: set.ShouldSkipTLSForAuthority,
		BeforeDeploy: func(ctx context.Context) error {
			if err := run.mayDeploy(); err != nil {
				return err
			}
			return s.addFinalizer(ctx)
		},
		Deployed: s.deployed,
		Doomed:   func(ctx context.Context) bool { return s.doomed(ctx, app) },
		Waiting: func(now bool) {
			s.turn.wait(now)
			run.waits(now)
		},
		SkipDelete: !app.DeletionTimestamp.IsZero() && (app.Spec.NoopDelete || s.namespacesGo(ctx, app)),
	}
}

// addFinalizer stores the finalizer before anything is deployed.
func (s *session) addFinalizer(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if hasFinalizer(s.app) {
		return nil
	}
	next := s.app.DeepCopy()
	next.Finalizers = append(next.Finalizers, Finalizer)
	// A merge patch replaces the list as a whole: the lock keeps it from dropping a
	// finalizer that someone else added meanwhile.
	err := s.r.Client.Patch(ctx, next, client.MergeFromWithOptions(s.app, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) {
		fresh := &v1alpha1.App{}
		if err := s.r.Live.Get(ctx, client.ObjectKeyFromObject(s.app), fresh); err != nil {
			return err
		}
		if !fresh.DeletionTimestamp.IsZero() || fresh.UID != s.app.UID {
			return errDeleted
		}
		next = fresh.DeepCopy()
		next.Finalizers = append(slices.Clone(fresh.Finalizers), Finalizer)
		err = s.r.Client.Patch(ctx, next, client.MergeFromWithOptions(fresh, client.MergeFromWithOptimisticLock{}))
	}
	if err != nil {
		return err
	}
	s.app = next
	s.r.written.Wrote(next)
	return nil
}

func (s *session) removeFinalizer(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		next := s.app.DeepCopy()
		next.Finalizers = slices.DeleteFunc(next.Finalizers, func(f string) bool { return f == Finalizer })
		err := s.r.Client.Patch(ctx, next, client.MergeFromWithOptions(s.app, client.MergeFromWithOptimisticLock{}))
		if apierrors.IsConflict(err) {
			fresh := &v1alpha1.App{}
			if err := s.r.Live.Get(ctx, client.ObjectKeyFromObject(s.app), fresh); err != nil {
				return err
			}
			s.app = fresh
			return err
		}
		if err == nil {
			s.app = next
			s.r.written.Wrote(next)
		}
		return err
	})
	if err = client.IgnoreNotFound(err); err != nil {
		return fmt.Errorf("remove finalizer of App %s/%s: %w", s.app.Namespace, s.app.Name, err)
	}
	return nil
}

// doomed says that the App's own namespace is being deleted.
func (s *session) doomed(ctx context.Context, app *v1alpha1.App) bool {
	if !s.goes(ctx, app.Namespace) {
		return false
	}
	logf.FromContext(ctx).Info("Left what the App deployed outside of its namespace, which takes its identity along")
	return true
}

// goes says that a namespace is being deleted or gone.
func (s *session) goes(ctx context.Context, name string) bool {
	ns := &corev1.Namespace{}
	err := s.r.Live.Get(ctx, client.ObjectKey{Name: name}, ns)
	return apierrors.IsNotFound(err) || err == nil && ns.Status.Phase == corev1.NamespaceTerminating
}

// namespacesGo says that everything the App deployed goes with namespaces that
// are being deleted, the App's own among them: its service account may be gone
// already, and there is nothing left to do.
func (s *session) namespacesGo(ctx context.Context, app *v1alpha1.App) bool {
	if app.Status.Deploy == nil || app.Status.Deploy.KappDeployStatus == nil || app.Spec.ServiceAccountName == "" {
		return false
	}
	for _, name := range append([]string{app.Namespace}, app.Status.Deploy.KappDeployStatus.AssociatedResources.Namespaces...) {
		// The name (cluster), for objects without a namespace, is none that exists
		// and none that may exist.
		if name == "(cluster)" || !s.goes(ctx, name) {
			return false
		}
	}
	return true
}
