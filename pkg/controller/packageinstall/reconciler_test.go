package packageinstall

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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

	stored "github.com/garboard-dev/garboard/pkg/apis/internalpackaging/v1alpha1"
	kappctrl "github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	packaging "github.com/garboard-dev/garboard/pkg/apis/packaging/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/metrics"
	"github.com/garboard-dev/garboard/pkg/packages"
	"github.com/garboard-dev/garboard/pkg/settings"
	"github.com/garboard-dev/garboard/pkg/status"
)

// These tests need an API that fails or answers late as told, so theirs is a
// double. What a user sees is tested end to end.

var key = client.ObjectKey{Namespace: "team", Name: "web"}

type rig struct {
	*Reconciler
	api client.WithWatch
}

// events returns what was told, sorted, as "reason: text".
func (r rig) events(t *testing.T) (out []string) {
	t.Helper()
	list := &corev1.EventList{}
	if err := r.api.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	for _, e := range list.Items {
		out = append(out, e.Reason+": "+e.Message)
	}
	slices.Sort(out)
	return out
}

// newRig has an API double with Package 1.0.0, and PackageInstall team/web of it
// which is changed by with.
func newRig(t *testing.T, api interceptor.Funcs, with func(*packaging.PackageInstall), more ...client.Object) rig {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, kappctrl.AddToScheme, packaging.AddToScheme, stored.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	p := offered("1.0.0")[0]
	p.Namespace, p.Name, p.UID = "team", refName+".1.0.0", "p1"
	p.Spec.Template.Spec.Fetch = []kappctrl.AppFetch{{ImgpkgBundle: &kappctrl.AppFetchImgpkgBundle{Image: "r/x"}}}
	p.Spec.ValuesSchema.OpenAPIv3.Raw = []byte(`{"type":"object","properties":{"replicas":{"type":"integer"}}}`)
	pkgi := valid().pkgi.DeepCopy()
	pkgi.Generation, pkgi.Status = 1, packaging.PackageInstallStatus{}
	pkgi.Spec.PackageRef.RefName = refName
	with(pkgi)
	objects := append(more, pkgi, packages.StorePackage(p, ""), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "v"}, Data: map[string][]byte{"a.yml": []byte("replicas: two")}})
	b := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&packaging.PackageInstall{}, &kappctrl.App{}).WithInterceptorFuncs(api)
	if err := indexes(t.Context(), indexer{b}); err != nil {
		t.Fatal(err)
	}
	r := rig{api: b.Build()}
	r.Reconciler = New(Config{
		Client: r.api, Live: r.api, ControllerVersion: "0.54.0",
		KubernetesVersion: func(context.Context, *packaging.PackageInstall) (string, error) { return "1.37.2", nil },
		Settings:          &settings.Store{}, Metrics: metrics.NewReconciles(prometheus.NewRegistry()),
		Now: time.Now, Concurrency: 1,
	})
	return r
}

// indexer gives the double the indexes of the cache.
type indexer struct{ *fake.ClientBuilder }

func (i indexer) IndexField(_ context.Context, obj client.Object, field string, f client.IndexerFunc) error {
	i.WithIndex(obj, field, f)
	return nil
}

func (r rig) reconcile(t *testing.T) (ctrl.Result, error) {
	t.Helper()
	return r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
}

func (r rig) pkgi(t *testing.T) *packaging.PackageInstall {
	t.Helper()
	p := &packaging.PackageInstall{}
	if err := r.api.Get(t.Context(), key, p); err != nil {
		t.Fatal(err)
	}
	return p
}

func unchanged(*packaging.PackageInstall) {}

// isApp says whether a request is for an App.
func isApp(obj client.Object) bool { _, ok := obj.(*kappctrl.App); return ok }

func TestReconcileCreates(t *testing.T) {
	r := newRig(t, interceptor.Funcs{}, unchanged)
	if res, err := r.reconcile(t); err != nil || res != (ctrl.Result{}) {
		t.Fatalf("%v, %v", res, err)
	}
	p := r.pkgi(t)
	want := packaging.PackageInstallStatus{Version: "1.0.0", LastAttemptedVersion: "1.0.0", Warnings: []string{"values: replicas: want integer, have string"}}
	want.GenericStatus = kappctrl.GenericStatus{ObservedGeneration: 1, FriendlyDescription: "Reconciling", Conditions: []kappctrl.Condition{{Type: kappctrl.Reconciling, Status: "True"}}}
	if diff := cmp.Diff(want, p.Status); diff != "" || !slices.Contains(p.Finalizers, Finalizer) {
		t.Errorf("finalizers %q, status (-want +got):\n%s", p.Finalizers, diff)
	}
	if diff := cmp.Diff([]string{"Doubtful: values: replicas: want integer, have string", "Installing: Version 1.0.0"}, r.events(t)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	for _, obj := range []client.Object{&kappctrl.App{ObjectMeta: metav1.ObjectMeta{Name: "web"}}, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "web-fetch-0"}}} {
		if err := r.api.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: obj.GetName()}, obj); err != nil {
			t.Error(err)
		}
	}
	version := p.ResourceVersion
	if _, err := r.reconcile(t); err != nil || r.pkgi(t).ResourceVersion != version || len(r.events(t)) != 2 {
		t.Errorf("again: %v, %q", err, r.events(t))
	}
}

// TestConflictsAreRetried: whoever else writes the App meanwhile, the right one is
// written in the same run.
func TestConflictsAreRetried(t *testing.T) {
	tries := 0
	r := newRig(t, interceptor.Funcs{Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
		if tries++; isApp(obj) && tries == 1 {
			other := &kappctrl.App{}
			if err := c.Get(ctx, key, other); err != nil {
				return err
			}
			other.Annotations = map[string]string{"other": "edit"}
			if err := c.Update(ctx, other); err != nil {
				return err
			}
		}
		return c.Update(ctx, obj, opts...)
	}}, unchanged, &kappctrl.App{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web"}})
	if _, err := r.reconcile(t); err != nil {
		t.Fatal(err)
	}
	app := &kappctrl.App{}
	if err := r.api.Get(t.Context(), key, app); err != nil || app.Annotations["other"] != "edit" || app.Annotations[versionAnnotation] != "1.0.0" || tries != 2 {
		t.Errorf("after %d tries: %v %+v", tries, err, app.Annotations)
	}
}

// TestFailuresOfTheAPI: what the API refuses is the user's to know, and tried again
// ever more rarely; what passes by itself is no failure.
func TestFailuresOfTheAPI(t *testing.T) {
	apps := schema.GroupResource{Resource: "apps"}
	cases := map[string]struct {
		reason string
		err    error
		want   kappctrl.ConditionType
	}{
		"Quota":       {"a quota refuses", apierrors.NewForbidden(apps, "web", errors.New("exceeded quota")), kappctrl.ReconcileFailed},
		"Invalid":     {"a policy refuses", apierrors.NewBadRequest("admission webhook denied the request"), kappctrl.ReconcileFailed},
		"Down":        {"the server is away", errors.New("connection refused"), ""},
		"Busy":        {"the server has no time", apierrors.NewTooManyRequests("later", 1), ""},
		"Unavailable": {"an upgrade of it", apierrors.NewServiceUnavailable("etcd"), ""},
		"Timeout":     {"slow", apierrors.NewServerTimeout(apps, "create", 1), ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, interceptor.Funcs{Create: func(ctx context.Context, api client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
				if isApp(obj) {
					return c.err
				}
				return api.Create(ctx, obj, opts...)
			}}, unchanged)
			res, err := r.reconcile(t)
			s := r.pkgi(t).Status
			if c.want == "" {
				if err == nil || len(s.Conditions) > 0 {
					t.Errorf("%s: %v, %+v", c.reason, err, s)
				}
				return
			}
			if err != nil || !status.Has(s.GenericStatus, c.want) || !strings.Contains(s.UsefulErrorMessage, "write App team/web: ") {
				t.Errorf("%s: %v, %+v", c.reason, err, s)
			}
			first := res.RequeueAfter
			for range 20 {
				if res, err = r.reconcile(t); err != nil {
					t.Fatal(err)
				}
			}
			if first <= 0 || first > firstRetry || res.RequeueAfter < lastRetry*9/10 || res.RequeueAfter > lastRetry {
				t.Errorf("%s: tried again after %s, later after %s", c.reason, first, res.RequeueAfter)
			}
		})
	}
}

// TestPanicsAreContained: one object that trips over a fault of ours fails alone.
func TestPanicsAreContained(t *testing.T) {
	r := newRig(t, interceptor.Funcs{}, unchanged)
	r.kubernetes.lookup = nil
	r.Settings = nil
	res, err := r.reconcile(t)
	if s := r.pkgi(t).Status; err != nil || res.RequeueAfter == 0 || !strings.HasPrefix(s.UsefulErrorMessage, "Internal error: ") {
		t.Errorf("%v, %v, %+v", res, err, s)
	}
}

// TestStaleCache: a cache that does not have our own writes yet does not make us
// write again, nor let go of an App that it has never seen.
func TestStaleCache(t *testing.T) {
	hide := false
	r := newRig(t, interceptor.Funcs{}, unchanged)
	cache := interceptor.NewClient(r.api, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
		if isApp(obj) && hide {
			return apierrors.NewNotFound(schema.GroupResource{Resource: "apps"}, k.Name)
		}
		return c.Get(ctx, k, obj, opts...)
	}})
	r.Client = cache
	if _, err := r.reconcile(t); err != nil {
		t.Fatal(err)
	}
	hide = true
	if _, err := r.reconcile(t); err != nil {
		t.Fatal(err)
	}
	if s := r.pkgi(t).Status; s.UsefulErrorMessage != "" {
		t.Errorf("the App was made again: %+v", s)
	}
	r.forget(key) // a new controller
	if err := r.api.Delete(t.Context(), r.pkgi(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.reconcile(t); err != nil {
		t.Fatal(err)
	}
	app := &kappctrl.App{}
	if err := r.api.Get(t.Context(), key, app); !apierrors.IsNotFound(err) {
		t.Errorf("the App was left: %v", err)
	}
}

func TestVersionsAreKept(t *testing.T) {
	now, asked := time.Unix(0, 0), 0
	c := &versionCache{now: func() time.Time { return now }, lookup: func(context.Context, *packaging.PackageInstall) (string, error) {
		asked++
		return fmt.Sprint(asked), nil
	}}
	get := func(p *packaging.PackageInstall) string {
		t.Helper()
		v, err := c.get(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	local, remote := &packaging.PackageInstall{}, &packaging.PackageInstall{}
	local.Spec.ServiceAccountName = "sa"
	remote.Spec.Cluster = &kappctrl.AppCluster{KubeconfigSecretRef: &kappctrl.AppClusterKubeconfigSecretRef{Name: "k"}}
	got := []string{get(local), get(local), get(remote), get(remote)}
	now = now.Add(versionAge + time.Second)
	if got = append(got, get(local)); !slices.Equal(got, []string{"1", "1", "2", "2", "3"}) || len(c.known) != 1 {
		t.Errorf("versions %q, known %v", got, c.known)
	}
}
