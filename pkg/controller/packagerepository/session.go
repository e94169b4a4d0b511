package packagerepository

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	packaging "github.com/garboard-dev/garboard/pkg/apis/packaging/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/fetch"
	"github.com/garboard-dev/garboard/pkg/metrics"
	"github.com/garboard-dev/garboard/pkg/pipeline"
	"github.com/garboard-dev/garboard/pkg/plan"
	"github.com/garboard-dev/garboard/pkg/refs"
	"github.com/garboard-dev/garboard/pkg/repository/offer"
	"github.com/garboard-dev/garboard/pkg/status"
	"github.com/garboard-dev/garboard/pkg/status/writer"
	"github.com/garboard-dev/garboard/pkg/track"
)

// session is one reconcile's hold on a repository: the status it began with, and
// the repository as our latest write left it.
type session struct {
	r    *Reconciler
	old  packaging.PackageRepositoryStatus
	repo *packaging.PackageRepository
	// quiet says that the repository is known and only looked after again: its status
	// then moves when something changes, not while nothing happens.
	quiet bool
}

func newSession(r *Reconciler, repo *packaging.PackageRepository) *session {
	quiet := repo.Status.ObservedGeneration == repo.Generation && !status.Has(repo.Status.GenericStatus, v1alpha1.Reconciling)
	return &session{r: r, repo: repo, old: *repo.Status.DeepCopy(), quiet: quiet}
}

// write stores the status for what happened so far.
func (s *session) write(ctx context.Context, out status.Outcome, conflicts []packaging.PackageConflict) error {
	next, err := s.r.writer.Repository(ctx, s.repo, status.ProjectRepository(s.old, out, conflicts))
	if err != nil {
		return err
	}
	s.repo = next
	s.r.written.Wrote(next)
	return nil
}

// run fetches, reads and offers, unless nothing has changed since the latest run.
func (s *session) run(ctx context.Context, d plan.Decision) error {
	key, known := client.ObjectKeyFromObject(s.repo), s.r.remembered(s.repo)
	s.r.refs.Begin(key)
	s.r.Metrics.Started(series(s.repo), false)
	if !s.quiet {
		if err := s.write(ctx, status.Outcome{Generation: s.repo.Generation}, nil); err != nil {
			return err
		}
	}
	if err := s.placeholder(ctx); err != nil {
		// The fetch says that the Secret is missing; this is why.
		logf.FromContext(ctx).Error(err, "No placeholder for registry credentials")
	}
	job := JobForRepository(s.repo)
	job.SkipTLS, job.BeforeDeploy = s.r.Settings.Get().ShouldSkipTLSForAuthority, s.addFinalizer
	stages := s.stages(known.versions)
	stages.Bundle = bundle(job.Spec.Fetch[0])
	revision, spared := "", false
	out, outdated := s.during(ctx, func(ctx context.Context) status.Outcome {
		revision = s.resolve(ctx, job)
		if spared = s.unchanged(ctx, d, known, revision); spared {
			return status.Outcome{}
		}
		return s.pipeline(stages).Run(ctx, job, func(status.Outcome) {})
	})
	known.attempted = s.r.Now()
	if spared {
		known.repeats++
		s.r.remember(key, known)
		s.r.Metrics.Done(series(s.repo), s.failed(), metrics.Times{})
		return nil
	}
	known.versions, known.revision, known.repeats = stages.Report.Versions, revision, 0
	s.r.remember(key, known)
	if outdated || ctx.Err() != nil && out.Failure() != nil {
		return nil
	}
	s.r.Metrics.Done(series(s.repo), out.Failure() != nil, times(s.old, out))
	logf.FromContext(ctx).Info("Reconciled", "generation", s.repo.Generation, "outcome", out.Summary(), "changes", stages.Report.Changed())
	if s.quiet && s.same(out, stages.Report) {
		return nil
	}
	ctx, cancel := writer.Last(ctx)
	defer cancel()
	if err := s.write(ctx, out, conflicts(stages.Report)); err != nil {
		return err
	}
	s.announce(ctx)
	return nil
}

// failed says that the repository failed before this run.
func (s *session) failed() bool {
	return status.Has(s.old.GenericStatus, v1alpha1.ReconcileFailed)
}

// resolveTimeout bounds the question what a source holds. A registry that hangs is
// for the fetch to report.
const resolveTimeout = 30 * time.Second

// resolve returns what the source holds, or "" if that cannot be told: the fetch
// that follows then says why.
func (s *session) resolve(ctx context.Context, job pipeline.Job) string {
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	ws, err := s.r.Pipeline.Workspaces.Open(ctx, "")
	if err != nil {
		return ""
	}
	revision, err := s.r.Resolver.Resolve(ctx, ws, fetch.Request{Namespace: job.Namespace, Sources: job.Spec.Fetch, SkipTLS: job.SkipTLS})
	if err != nil {
		logf.FromContext(ctx).V(1).Info("Source not resolved", "reason", err.Error())
	}
	closing, stop := writer.Last(ctx)
	defer stop()
	if err := ws.Close(closing); err != nil {
		logf.FromContext(ctx).Error(err, "Work folder not removed; the sidecar removes it when it restarts")
	}
	return revision
}

// unchanged says that another run would find what the latest one found: the source
// holds the same, and nobody touched what was offered or stood in the way.
func (s *session) unchanged(ctx context.Context, d plan.Decision, known memory, revision string) bool {
	if !s.quiet || d.Reason != "SyncPeriod" && d.Reason != "Retry" || revision == "" || revision != known.revision {
		return false
	}
	same, err := s.r.Store.Unchanged(ctx, s.repo.Namespace, known.versions)
	return err == nil && same
}

// same says that a run that succeeded found everything as the status already says.
func (s *session) same(out status.Outcome, report offer.Report) bool {
	old := s.old.Fetch
	return out.Failure() == nil && !s.failed() && !report.Changed() &&
		old != nil && out.Fetch != nil && old.Stdout == out.Fetch.Stdout
}

// delete withdraws what was offered, then removes the finalizers.
func (s *session) delete(ctx context.Context) error {
	s.r.Metrics.Started(series(s.repo), true)
	s.forgetCache(ctx)
	if !s.quiet || !status.Has(s.old.GenericStatus, v1alpha1.DeleteFailed) {
		if err := s.write(ctx, status.Outcome{Generation: s.repo.Generation, Deleting: true}, nil); err != nil {
			return err
		}
	}
	job := JobForRepository(s.repo)
	job.SkipDelete = s.namespaceGoes(ctx)
	stages := s.stages(nil)
	out, outdated := s.during(ctx, func(ctx context.Context) status.Outcome {
		return s.pipeline(stages).Delete(ctx, job, func(status.Outcome) {})
	})
	if outdated || ctx.Err() != nil && out.Failure() != nil {
		return nil
	}
	logf.FromContext(ctx).Info("Ran the delete", "generation", s.repo.Generation, "outcome", out.Summary())
	ctx, cancel := writer.Last(ctx)
	defer cancel()
	if out.Failure() == nil {
		return s.removeFinalizers(ctx)
	}
	known := s.r.remembered(s.repo)
	known.attempted = s.r.Now()
	s.r.remember(client.ObjectKeyFromObject(s.repo), known)
	s.r.Metrics.DeleteFailed(series(s.repo))
	if err := s.write(ctx, out, nil); err != nil {
		return err
	}
	s.announce(ctx)
	return nil
}

// stages are the repository's own.
func (s *session) stages(known offer.Versions) *offer.Run {
	return &offer.Run{
		Store: s.r.Store, Templater: s.r.Templater, Namespace: s.repo.Namespace, Name: s.repo.Name, Known: known, Now: s.r.Now,
	}
}

func (s *session) pipeline(stages *offer.Run) *pipeline.Pipeline {
	p := s.r.Pipeline
	p.Template, p.Deploy, p.Access = stages, stages, stages
	return &p
}

// during runs do until it ends or an event makes it useless, which outdated tells.
func (s *session) during(ctx context.Context, do func(context.Context) status.Outcome) (out status.Outcome, outdated bool) {
	key := client.ObjectKeyFromObject(s.repo)
	runCtx, stop := s.r.running.start(track.ReadBy(ctx, key), s.repo)
	defer stop()
	// What came between the read of this run and its start found no run to end.
	fresh := &packaging.PackageRepository{}
	switch err := s.r.Client.Get(ctx, key, fresh); {
	case err == nil:
		s.r.running.seen(fresh)
	case apierrors.IsNotFound(err):
		s.r.running.gone(key)
	}
	out = do(runCtx)
	return out, out.Failure() != nil && errors.Is(context.Cause(runCtx), errOutdated)
}

// forgetTimeout bounds the wait for a sidecar that hangs: nothing that a delete has
// to do needs one.
const forgetTimeout = 5 * time.Second

func (s *session) forgetCache(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, forgetTimeout)
	defer cancel()
	if err := s.r.Forget(ctx, string(s.repo.UID)); err != nil {
		logf.FromContext(ctx).Error(err, "Cache not dropped; the sidecar drops it when it restarts")
	}
}

// placeholder makes the Secret that secretgen-controller fills with credentials, if
// the repository names none. Nothing waits for that: a change of it starts a run.
func (s *session) placeholder(ctx context.Context) error {
	if !usesPlaceholder(s.repo) {
		return nil
	}
	name := placeholderName(s.repo)
	meta := &metav1.PartialObjectMetadata{}
	meta.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(refs.Secret))
	err := s.r.Client.Get(ctx, client.ObjectKey{Namespace: s.repo.Namespace, Name: name}, meta)
	if !apierrors.IsNotFound(err) {
		return err
	}
	empty, err := json.Marshal(map[string]any{"auths": map[string]any{}})
	if err != nil {
		return err
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.repo.Namespace, Name: name,
			Annotations: map[string]string{"secretgen.carvel.dev/image-pull-secret": ""},
		},
		Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{corev1.DockerConfigJsonKey: empty},
	}
	if err := controllerutil.SetOwnerReference(s.repo, secret, s.r.Client.Scheme()); err != nil {
		return err
	}
	if err := s.r.Client.Create(ctx, secret); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create placeholder Secret %s: %w", name, err)
	}
	return nil
}

// addFinalizer stores the finalizer before anything is offered.
func (s *session) addFinalizer(ctx context.Context) error {
	return s.setFinalizers(ctx, func(have []string) []string {
		if slices.Contains(have, Finalizer) {
			return have
		}
		return append(slices.Clone(have), Finalizer)
	})
}

func (s *session) removeFinalizers(ctx context.Context) error {
	err := s.setFinalizers(ctx, func(have []string) []string {
		return slices.DeleteFunc(slices.Clone(have), func(f string) bool { return f == Finalizer || f == LegacyFinalizer })
	})
	if err = client.IgnoreNotFound(err); err != nil {
		return fmt.Errorf("remove finalizers of PackageRepository %s/%s: %w", s.repo.Namespace, s.repo.Name, err)
	}
	return nil
}

// setFinalizers changes the list as a whole, so it only does it to the newest one.
func (s *session) setFinalizers(ctx context.Context, change func([]string) []string) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		next := s.repo.DeepCopy()
		next.Finalizers = change(next.Finalizers)
		if slices.Equal(next.Finalizers, s.repo.Finalizers) {
			return nil
		}
		err := s.r.Client.Patch(ctx, next, client.MergeFromWithOptions(s.repo, client.MergeFromWithOptimisticLock{}))
		if apierrors.IsConflict(err) {
			fresh := &packaging.PackageRepository{}
			if err := s.r.Live.Get(ctx, client.ObjectKeyFromObject(s.repo), fresh); err != nil {
				return err
			}
			if fresh.UID != s.repo.UID || fresh.DeletionTimestamp.IsZero() != s.repo.DeletionTimestamp.IsZero() {
				return errOutdated
			}
			s.repo = fresh
			return err
		}
		if err == nil {
			s.repo = next
			s.r.written.Wrote(next)
		}
		return err
	})
}

// namespaceGoes says that everything the repository offers goes with its namespace.
func (s *session) namespaceGoes(ctx context.Context) bool {
	ns := &corev1.Namespace{}
	err := s.r.Live.Get(ctx, client.ObjectKey{Name: s.repo.Namespace}, ns)
	return apierrors.IsNotFound(err) || err == nil && ns.Status.Phase == corev1.NamespaceTerminating
}

func conflicts(report offer.Report) []packaging.PackageConflict {
	out := make([]packaging.PackageConflict, 0, len(report.Conflicts))
	for _, c := range report.Conflicts {
		out = append(out, packaging.PackageConflict{Kind: c.Key().Kind, Name: c.Key().Name, Repository: c.Owner(), Reason: c.Reason})
	}
	return out
}

// announce tells if the outcome is another one than before.
func (s *session) announce(ctx context.Context) {
	e, ok := status.Transition(status.RepositoryAsApp(s.old), status.RepositoryAsApp(s.repo.Status))
	if !ok {
		return
	}
	writer.Events{Client: s.r.Client, Now: s.r.Now}.Tell(ctx, s.repo, e)
}

func series(repo *packaging.PackageRepository) metrics.Object {
	return metrics.Object{Kind: "PackageRepository", Namespace: repo.Namespace, Name: repo.Name}
}

// times are the durations of what a run did.
func times(old packaging.PackageRepositoryStatus, out status.Outcome) metrics.Times {
	t := metrics.Times{Fetch: out.Fetch.Took(), Template: out.Template.Took(), Deploy: out.Deploy.Took(), First: status.LastAttempt(status.RepositoryAsApp(old)).IsZero()}
	t.Total = t.Fetch + t.Template + t.Deploy
	return t
}
