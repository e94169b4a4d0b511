// Package clustertest_test checks config/crd and config/rbac on a real API server.
package clustertest_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	kappctrl "github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	controller "github.com/garboard-dev/garboard/pkg/controller/settings"
	"github.com/garboard-dev/garboard/pkg/settings"
	"github.com/garboard-dev/garboard/pkg/sidecar"
	"github.com/garboard-dev/garboard/pkg/status"
	"github.com/garboard-dev/garboard/test/testenv"
)

const systemNamespace = "kapp-controller"

var env *testenv.Env

func TestMain(m *testing.M) {
	testenv.Main(m, &env, testenv.Options{}, func(ctx context.Context, e *testenv.Env) error {
		return e.ApplyFiles(ctx, systemNamespace, "config/crd/*.yaml", "config/rbac/namespace.yaml", "config/rbac/*.yaml")
	})
}

// TestColumns reads the tables as people do, by short name where there is one.
func TestColumns(t *testing.T) {
	ns := env.Namespace(t)
	env.MustApply(t, ns, `
apiVersion: kappctrl.k14s.io/v1alpha1
kind: App
metadata: {name: web}
spec: {}
---
apiVersion: packaging.carvel.dev/v1alpha1
kind: PackageInstall
metadata: {name: web}
spec: {packageRef: {refName: web.shop.example.com}}
---
apiVersion: packaging.carvel.dev/v1alpha1
kind: PackageRepository
metadata: {name: web}
spec: {fetch: {}}
`)
	for resource, want := range map[string]string{
		"app":  "NAME DESCRIPTION SINCE-DEPLOY AGE",
		"pkgi": "NAME PACKAGE NAME PACKAGE VERSION DESCRIPTION AGE",
		"pkgr": "NAME AGE DESCRIPTION",
	} {
		out, err := env.Kubectl(t.Context(), "get", "-n", ns, resource)
		if err != nil {
			t.Fatal(err)
		}
		header, _, _ := strings.Cut(out, "\n")
		if got := strings.Join(strings.Fields(header), " "); got != want {
			t.Errorf("%s: columns %q, want %q", resource, got, want)
		}
	}
	out, err := env.Kubectl(t.Context(), "get", "-n", ns, "carvel", "-o", "name")
	if err != nil {
		t.Fatal(err)
	}
	names := strings.Fields(out)
	slices.Sort(names)
	want := []string{"app.kappctrl.k14s.io/web", "packageinstall.packaging.carvel.dev/web", "packagerepository.packaging.carvel.dev/web"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("category carvel (-want +got):\n%s", diff)
	}
}

// TestServerKeepsWhatClientsSee stores an App with an unknown field and then an
// empty status.
func TestServerKeepsWhatClientsSee(t *testing.T) {
	apps := env.Dynamic.Resource(kappctrl.SchemeGroupVersion.WithResource("apps")).Namespace(env.Namespace(t))
	app := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kappctrl.k14s.io/v1alpha1", "kind": "App", "metadata": map[string]any{"name": "web"},
		"spec": map[string]any{"paused": true, "noSuchField": "x"},
	}}
	created, err := apps.Create(t.Context(), app, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"paused": true}, created.Object["spec"]); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}

	created.Object["status"] = map[string]any{
		"observedGeneration": int64(1), "conditions": []any{}, "friendlyDescription": "",
		"fetch": map[string]any{"exitCode": int64(0), "startedAt": nil, "updatedAt": nil},
	}
	updated, err := apps.UpdateStatus(t.Context(), created, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// Times that are not set are null on the wire and absent in the store.
	want := map[string]any{
		"observedGeneration": int64(1), "conditions": []any{}, "friendlyDescription": "", "fetch": map[string]any{"exitCode": int64(0)},
	}
	if diff := cmp.Diff(want, updated.Object["status"]); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	if updated.GetGeneration() != created.GetGeneration() {
		t.Error("a status counts as a new generation")
	}
}

// recordingSidecar remembers the latest values.
type recordingSidecar struct {
	mu    sync.Mutex
	pem   string
	proxy sidecar.Proxy
}

func (s *recordingSidecar) ApplyCACerts(_ context.Context, pem string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pem = pem
	return nil
}

func (s *recordingSidecar) ApplyProxy(_ context.Context, proxy sidecar.Proxy) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proxy = proxy
	return nil
}

// sees compares what the sidecar was told.
func (s *recordingSidecar) sees(pem, httpProxy string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pem != pem || s.proxy.HTTPProxy != httpProxy {
		return fmt.Sprintf("the sidecar has certificates %q and proxy %q, want %q and %q", s.pem, s.proxy.HTTPProxy, pem, httpProxy)
	}
	return ""
}

// told are the Events that would be written.
type told chan status.Event

func (t told) Tell(_ context.Context, _ client.Object, e status.Event) { t <- e }

// TestSettingsFollowTheObjects runs the reconciler with the rights that config/rbac
// gives.
func TestSettingsFollowTheObjects(t *testing.T) {
	side, store, told := &recordingSidecar{}, &settings.Store{}, make(told, 100)
	start(t, side, store, told)

	apply := func(kind, name, value string) {
		t.Helper()
		field := map[string]string{"Secret": "stringData", "ConfigMap": "data"}[kind]
		env.MustApply(t, systemNamespace, fmt.Sprintf("apiVersion: v1\nkind: %s\nmetadata: {name: kapp-controller-config}\n%s: {%s: %q}\n", kind, field, name, value))
	}
	remove := func(kind string) {
		t.Helper()
		if _, err := env.Kubectl(t.Context(), "delete", "-n", systemNamespace, kind, "kapp-controller-config"); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(pem, proxy string) {
		t.Helper()
		testenv.Eventually(t, 10*time.Second, func(context.Context) string { return side.sees(pem, proxy) })
	}

	apply("ConfigMap", "caCerts", "from the ConfigMap")
	expect("from the ConfigMap", "")
	apply("Secret", "httpProxy", "http://proxy.example:3128")
	expect("", "http://proxy.example:3128")

	apply("Secret", "httpProxy", "http://robot:p%ssw0rd@proxy.example:3128")
	event := <-told
	for event.Reason == "DoubtfulConfiguration" { // what stands for certificates here is none
		event = <-told
	}
	if event.Reason != "InvalidConfiguration" || !event.Warning || !strings.HasPrefix(event.Text, "httpProxy") || strings.Contains(event.Text, "ssw0rd") {
		t.Errorf("event %+v", event)
	}
	expect("", "http://proxy.example:3128")

	remove("secret")
	expect("from the ConfigMap", "")
	remove("configmap")
	expect("", "")
	if diff := cmp.Diff(settings.Default(), store.Get()); diff != "" {
		t.Errorf("settings in the end (-want +got):\n%s", diff)
	}
}

// start runs a manager as the controller's service account until the test ends.
func start(t *testing.T, side controller.Sidecar, store *settings.Store, tell controller.Events) {
	t.Helper()
	token, err := env.ServiceAccountToken(t.Context(), systemNamespace, "kapp-controller-sa")
	if err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(env.Config())
	config.BearerToken = token
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: clientgoscheme.Scheme, Logger: logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	r := &controller.Reconciler{Reader: mgr.GetAPIReader(), Namespace: systemNamespace, Store: store, Sidecar: side, Events: tell}
	if err := r.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.SetupWithManager(mgr); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
