package packagerepository

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	stored "github.com/garboard-dev/garboard/pkg/apis/internalpackaging/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	packaging "github.com/garboard-dev/garboard/pkg/apis/packaging/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/fetch"
	"github.com/garboard-dev/garboard/pkg/metrics"
	"github.com/garboard-dev/garboard/pkg/pipeline"
	"github.com/garboard-dev/garboard/pkg/repository/offer"
	"github.com/garboard-dev/garboard/pkg/settings"
	"github.com/garboard-dev/garboard/pkg/status"
	"github.com/garboard-dev/garboard/pkg/template"
	"github.com/garboard-dev/garboard/pkg/tool"
	"github.com/garboard-dev/garboard/pkg/track"
	"github.com/garboard-dev/garboard/test/poll"
)

// These tests need sources that change and an API that answers as told, so theirs
// are doubles. What a user sees is tested end to end.

// source is a repository's source and the tools that read it.
type sourceDouble struct {
	mu       sync.Mutex
	revision string
	content  string
	fetches  int
	// hang makes a fetch wait for its context's end.
	hang bool
}

func (s *sourceDouble) Resolve(context.Context, fetch.Workspace, fetch.Request) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revision, nil
}

func (s *sourceDouble) Fetch(ctx context.Context, _ fetch.Workspace, _ fetch.Request) fetch.Result {
	s.mu.Lock()
	s.fetches++
	hang, revision := s.hang, s.revision
	s.mu.Unlock()
	if hang {
		<-ctx.Done()
		return fetch.Result{Stage: status.Stage{}.Fail("Fetching resources: ", context.Cause(ctx))}
	}
	return fetch.Result{Stage: status.Stage{Stdout: "kind: LockConfig " + revision}, Root: "src/0"}
}

func (s *sourceDouble) Template(context.Context, template.Workspace, template.Request) template.Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	return template.Result{Output: []byte(s.content)}
}

func (s *sourceDouble) Open(context.Context, string) (pipeline.Workspace, error) {
	return workspace{}, nil
}

func (s *sourceDouble) set(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

// workspace holds one file.
type workspace struct{}

func (workspace) Put(context.Context, []tool.File) error { return nil }
func (workspace) Run(context.Context, tool.Command) (tool.Result, error) {
	return tool.Result{}, nil
}
func (workspace) List(_ context.Context, dir string, _ []string) ([]string, error) {
	return []string{dir + "/a.yml"}, nil
}
func (workspace) Find(context.Context, string, []string, string) ([]string, error) { return nil, nil }
func (workspace) Remove(context.Context, []string) error                           { return nil }
func (workspace) Close(context.Context) error                                      { return nil }

type rig struct {
	*Reconciler
	*sourceDouble
	testing.TB
	api    client.WithWatch
	now    time.Time
	mu     sync.Mutex
	writes []string
}

var theRepo = client.ObjectKey{Namespace: "t", Name: "r"}

func doc(name, version, notes string) string {
	return fmt.Sprintf("---\napiVersion: data.packaging.carvel.dev/v1alpha1\nkind: Package\nmetadata: {name: %[1]s.%[2]s}\nspec: {refName: %[1]s, version: %[2]s, releaseNotes: %[3]q, template: {spec: {}}}\n", name, version, notes)
}

func newRig(t *testing.T, content string, funcs interceptor.Funcs) *rig {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, packaging.AddToScheme, stored.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	r := &rig{TB: t, sourceDouble: &sourceDouble{revision: "1", content: content}, now: time.Now()}
	note := func(verb string, obj client.Object) {
		if _, ok := obj.(*corev1.Event); ok {
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.writes = append(r.writes, fmt.Sprintf("%s %T", verb, obj))
	}
	create, update, remove := funcs.Create, funcs.Update, funcs.Delete
	funcs.Create = func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
		note("create", obj)
		if create != nil {
			return create(ctx, c, obj, opts...)
		}
		return c.Create(ctx, obj, opts...)
	}
	funcs.Update = func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
		note("update", obj)
		if update != nil {
			return update(ctx, c, obj, opts...)
		}
		return c.Update(ctx, obj, opts...)
	}
	funcs.Delete = func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
		note("delete", obj)
		if remove != nil {
			return remove(ctx, c, obj, opts...)
		}
		return c.Delete(ctx, obj, opts...)
	}
	funcs.SubResourceUpdate = func(ctx context.Context, c client.Client, sub string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
		note("status", obj)
		return c.SubResource(sub).Update(ctx, obj, opts...)
	}
	repo := &packaging.PackageRepository{
		ObjectMeta: metav1.ObjectMeta{Namespace: "t", Name: "r", UID: "u", Generation: 1},
		Spec:       packaging.PackageRepositorySpec{Fetch: &packaging.PackageRepositoryFetch{Git: &v1alpha1.AppFetchGit{}}},
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "t"}}
	r.api = fake.NewClientBuilder().WithScheme(scheme).WithObjects(repo, ns).WithStatusSubresource(repo).WithInterceptorFuncs(funcs).Build()
	clock := func() time.Time { return r.now }
	r.Reconciler = New(Config{
		Client: r.api, Live: r.api, Objects: track.NewObjects(nil),
		Pipeline: pipeline.Pipeline{Workspaces: r.sourceDouble, Fetch: r.sourceDouble, Now: clock},
		Resolver: r.sourceDouble, Templater: r.sourceDouble,
		Store:    &offer.Store{Client: r.api, Live: r.api, Writers: 4},
		Forget:   func(context.Context, string) error { return nil },
		Settings: &settings.Store{}, Metrics: metrics.NewReconciles(prometheus.NewRegistry()), Now: clock,
	})
	return r
}

func (r *rig) reconcile() ctrl.Result {
	r.Helper()
	res, err := r.Reconciler.Reconcile(r.Context(), ctrl.Request{NamespacedName: theRepo})
	if err != nil {
		r.Fatal(err)
	}
	return res
}

func (r *rig) repo() *packaging.PackageRepository {
	r.Helper()
	repo := &packaging.PackageRepository{}
	if err := r.api.Get(r.Context(), theRepo, repo); err != nil {
		r.Fatal(err)
	}
	return repo
}

// took returns the writes since the last call.
func (r *rig) took() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.writes
	r.writes = nil
	slices.Sort(out)
	return out
}

func (r *rig) edit(change func(*packaging.PackageRepository)) {
	r.Helper()
	repo := r.repo()
	change(repo)
	repo.Generation++
	if err := r.api.Update(r.Context(), repo); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) names() (out []string) {
	r.Helper()
	var list stored.InternalPackageList
	if err := r.api.List(r.Context(), &list); err != nil {
		r.Fatal(err)
	}
	for _, p := range list.Items {
		out = append(out, p.Spec.RefName+"."+p.Spec.Version+" "+p.Spec.ReleaseNotes)
	}
	slices.Sort(out)
	return out
}

// TestSyncs: what a sync costs, by what changed since the one before.
func TestSyncs(t *testing.T) {
	r := newRig(t, doc("a.example.com", "1.0.0", "x")+doc("b.example.com", "1.0.0", "x"), interceptor.Funcs{})
	res := r.reconcile()
	if res.RequeueAfter < 10*time.Minute || res.RequeueAfter > 10*time.Minute+5*time.Second {
		t.Errorf("wakes after %s, want the sync period", res.RequeueAfter)
	}
	first := []string{"create *v1.ConfigMap", "create *v1alpha1.InternalPackage", "create *v1alpha1.InternalPackage", "status *v1alpha1.PackageRepository", "status *v1alpha1.PackageRepository"}
	if diff := cmp.Diff(first, r.took()); diff != "" {
		t.Errorf("first run:\n%s", diff)
	}
	steps := []struct {
		reason  string
		change  func()
		writes  []string
		fetches int
	}{
		{"nothing changed", func() {}, nil, 0},
		{"a new revision with the same content", func() { r.set(func() { r.revision = "2" }) }, []string{"status *v1alpha1.PackageRepository"}, 1},
		{"a new package", func() { r.set(func() { r.revision = "3"; r.content += doc("c.example.com", "1.0.0", "x") }) }, []string{"create *v1alpha1.InternalPackage", "status *v1alpha1.PackageRepository"}, 1},
		{"one is gone, one is other", func() {
			r.set(func() {
				r.revision = "4"
				r.content = doc("a.example.com", "1.0.0", "y") + doc("b.example.com", "1.0.0", "x")
			})
		}, []string{"delete *v1alpha1.InternalPackage", "status *v1alpha1.PackageRepository", "update *v1alpha1.InternalPackage"}, 1},
		{"only a fetch can tell", func() { r.set(func() { r.revision = "" }) }, []string{"status *v1alpha1.PackageRepository"}, 1},
		{"and finds the same", func() {}, nil, 1},
		{"somebody deleted a package", func() {
			r.set(func() { r.revision = "4" })
			r.now = r.now.Add(11 * time.Minute)
			r.reconcile()
			var list stored.InternalPackageList
			if err := r.api.List(t.Context(), &list); err != nil {
				t.Fatal(err)
			}
			if err := r.api.Delete(t.Context(), &list.Items[0]); err != nil {
				t.Fatal(err)
			}
			r.took()
		}, []string{"create *v1alpha1.InternalPackage", "status *v1alpha1.PackageRepository"}, 2},
	}
	for _, s := range steps {
		before := r.fetches
		s.change()
		r.now = r.now.Add(11 * time.Minute)
		r.reconcile()
		if diff := cmp.Diff(s.writes, r.took()); diff != "" {
			t.Errorf("%s:\n%s", s.reason, diff)
		}
		if n := r.fetches - before; n != s.fetches {
			t.Errorf("%s: %d fetches, want %d", s.reason, n, s.fetches)
		}
	}
	if diff := cmp.Diff([]string{"a.example.com.1.0.0 y", "b.example.com.1.0.0 x"}, r.names()); diff != "" {
		t.Error(diff)
	}
	if s := r.repo().Status; s.ConsecutiveReconcileFailures != 0 || !status.Has(s.GenericStatus, v1alpha1.ReconcileSucceeded) {
		t.Errorf("%+v", s)
	}
}

// TestFailureIsTriedAgain: with growing pauses, also when nothing has changed.
func TestFailureIsTriedAgain(t *testing.T) {
	r := newRig(t, doc("a.example.com", "1.0.0", "x")+doc("short", "1.0.0", "x"), interceptor.Funcs{})
	var pauses []time.Duration
	for range 4 {
		res := r.reconcile()
		pauses = append(pauses, res.RequeueAfter.Round(time.Second))
		r.now = r.now.Add(res.RequeueAfter)
	}
	if diff := cmp.Diff([]time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second}, pauses); diff != "" {
		t.Error(diff)
	}
	if r.fetches != 1 {
		t.Errorf("%d fetches of what has not changed", r.fetches)
	}
	if got := r.names(); len(got) != 1 {
		t.Errorf("offered: %v", got)
	}
	events := &corev1.EventList{}
	if err := r.api.List(t.Context(), events); err != nil || len(events.Items) != 1 {
		t.Errorf("events %+v, want one: %v", events.Items, err)
	}
}

// TestRaces: an object that changes between look and write is looked at again.
func TestRaces(t *testing.T) {
	var once sync.Once
	r := newRig(t, doc("aaa.example.com", "1.0.0", "x"), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if p, ok := obj.(*stored.InternalPackage); ok {
				once.Do(func() {
					rival := p.DeepCopy()
					rival.Annotations["packaging.carvel.dev/package-repository-ref"] = "t/other"
					rival.Spec.ReleaseNotes = "rival"
					if err := c.Create(ctx, rival); err != nil {
						panic(err)
					}
				})
			}
			return c.Create(ctx, obj, opts...)
		},
	})
	r.reconcile()
	want := []packaging.PackageConflict{{Kind: "Package", Name: "aaa.example.com.1.0.0", Repository: "t/other", Reason: "mismatch in spec.releaseNotes"}}
	if diff := cmp.Diff(want, r.repo().Status.Conflicts); diff != "" {
		t.Error(diff)
	}
}

// TestRefusedWriteIsRepeated: what the API server did not take is tried again,
// although the source has not changed.
func TestRefusedWriteIsRepeated(t *testing.T) {
	var once sync.Once
	r := newRig(t, doc("a.example.com", "1.0.0", "x")+doc("b.example.com", "1.0.0", "x"), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) (err error) {
			if _, ok := obj.(*stored.InternalPackage); ok {
				once.Do(func() { err = apierrors.NewInternalError(errors.New("no space left")) })
			}
			if err != nil {
				return err
			}
			return c.Create(ctx, obj, opts...)
		},
	})
	res := r.reconcile()
	if s := r.repo().Status; len(r.names()) != 1 || !strings.Contains(s.UsefulErrorMessage, ": Internal error occurred: no space left") {
		t.Errorf("offered %v, %q", r.names(), s.UsefulErrorMessage)
	}
	r.now = r.now.Add(res.RequeueAfter)
	r.reconcile()
	if s := r.repo().Status; len(r.names()) != 2 || s.UsefulErrorMessage != "" {
		t.Errorf("offered %v, %q", r.names(), s.UsefulErrorMessage)
	}
}

// TestEndsUselessRuns: an edit or a delete ends a run that goes on, and leaves no
// failure.
func TestEndsUselessRuns(t *testing.T) {
	for name, change := range map[string]func(*rig){
		"Edit": func(r *rig) { r.edit(func(p *packaging.PackageRepository) { p.Spec.Paused = true }) },
		"Delete": func(r *rig) {
			repo := r.repo()
			if err := r.api.Delete(r.Context(), repo); err != nil {
				r.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "", interceptor.Funcs{})
			r.hang = true
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = r.Reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: theRepo})
			}()
			poll.Until(t, "the fetch began", func() bool {
				r.sourceDouble.mu.Lock()
				defer r.sourceDouble.mu.Unlock()
				return r.fetches == 1
			})
			change(r)
			repo := &packaging.PackageRepository{}
			if err := r.api.Get(t.Context(), theRepo, repo); apierrors.IsNotFound(err) {
				r.running.gone(theRepo)
			} else {
				r.running.seen(repo)
			}
			<-done
			if status.Has(repo.Status.GenericStatus, v1alpha1.ReconcileFailed) {
				t.Errorf("%+v", repo.Status)
			}
		})
	}
}

// TestDelete: also of a repository that is paused; not in a namespace that goes.
func TestDelete(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*rig)
		left   int
	}{
		"Plain":  {func(*rig) {}, 0},
		"Paused": {func(r *rig) { r.edit(func(p *packaging.PackageRepository) { p.Spec.Paused = true }); r.reconcile() }, 0},
		"NamespaceGoes": {func(r *rig) {
			ns := &corev1.Namespace{}
			if err := r.api.Get(r.Context(), client.ObjectKey{Name: "t"}, ns); err != nil {
				r.Fatal(err)
			}
			ns.Status.Phase = corev1.NamespaceTerminating
			if err := r.api.Status().Update(r.Context(), ns); err != nil {
				r.Fatal(err)
			}
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, doc("a.example.com", "1.0.0", "x"), interceptor.Funcs{})
			r.reconcile()
			c.before(r)
			if err := r.api.Delete(t.Context(), r.repo()); err != nil {
				t.Fatal(err)
			}
			r.reconcile()
			if err := r.api.Get(t.Context(), theRepo, &packaging.PackageRepository{}); !apierrors.IsNotFound(err) {
				t.Errorf("the repository is still there: %v", err)
			}
			if got := r.names(); len(got) != c.left {
				t.Errorf("offered: %v", got)
			}
			r.reconcile()
			if n := r.written.Len() + len(r.known) + r.refs.Len() + len(r.running.runs); n != 0 {
				t.Errorf("%d things are kept of what is gone", n)
			}
		})
	}
}
