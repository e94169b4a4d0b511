package e2e

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	packaging "github.com/garboard-dev/garboard/pkg/apis/packaging/v1alpha1"
	"github.com/garboard-dev/garboard/test/testenv"
	"github.com/garboard-dev/garboard/test/testenv/stories"
)

// TestExamples: every folder of examples/ does what its README says, and goes
// without leaving anything behind.
func TestExamples(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	published, err := stories.Publish(t.Context(), env, servers, w.ns)
	if err != nil {
		t.Fatal(err)
	}
	names, err := published.Names()
	if err != nil {
		t.Fatal(err)
	}
	if len(names) < 7 {
		t.Fatalf("examples are %v, want seven at least", names)
	}
	for _, name := range names {
		if err := published.Apply(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range names {
		app := w.succeeded(name)
		if app.Status.ConsecutiveReconcileSuccesses != 1 || app.Status.Deploy.KappDeployStatus == nil {
			t.Errorf("%s: %d successes, deploy %+v", name, app.Status.ConsecutiveReconcileSuccesses, app.Status.Deploy.KappDeployStatus)
		}
	}
	w.checkShop()
	for _, name := range names {
		w.delete(name)
	}
	for _, name := range names {
		w.gone(name)
	}
	left := &appsv1.DeploymentList{}
	if err := kube.List(t.Context(), left, client.InNamespace(w.ns)); err != nil || len(left.Items) > 0 {
		t.Errorf("%d Deployments are left, error %v", len(left.Items), err)
	}
}

// checkShop checks that the tiers of the multi-tier example came in their order:
// each was begun only when the one before it was ready.
func (w world) checkShop() {
	w.Helper()
	object := func(name string, obj client.Object) {
		w.Helper()
		if err := kube.Get(w.Context(), client.ObjectKey{Namespace: w.ns, Name: name}, obj); err != nil {
			w.Fatal(err)
		}
	}
	store, migrate, api, web := &appsv1.StatefulSet{}, &batchv1.Job{}, &appsv1.Deployment{}, &appsv1.Deployment{}
	object("shop-store", store)
	object("shop-migrate", migrate)
	object("shop-api", api)
	object("shop-web", web)
	if store.Status.ReadyReplicas < 1 || migrate.Status.Succeeded != 1 || api.Status.ReadyReplicas != *api.Spec.Replicas || web.Status.ReadyReplicas != *web.Spec.Replicas {
		w.Errorf("not ready: store %+v, migrate %+v, api %+v, web %+v", store.Status, migrate.Status, api.Status, web.Status)
	}
	begun := []client.Object{store, migrate, api, web}
	for i := 1; i < len(begun); i++ {
		if begun[i].GetCreationTimestamp().Time.Before(begun[i-1].GetCreationTimestamp().Time) {
			w.Errorf("%s was made before %s", begun[i].GetName(), begun[i-1].GetName())
		}
	}
	if done := migrate.Status.CompletionTime; done == nil || api.CreationTimestamp.Before(done) {
		w.Errorf("the API was made at %v, the migration was done at %v", api.CreationTimestamp, done)
	}
}

// TestExamplePackages: the example repository offers its Packages, and the example
// install takes one of them, with values and overlay, from version to version.
func TestExamplePackages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	published, err := stories.Publish(t.Context(), env, servers, w.ns)
	if err != nil {
		t.Fatal(err)
	}
	// The install comes first and waits for its Package.
	if err := published.ApplyFiles(t.Context(), "rbac.yml", stories.Install, stories.Repository); err != nil {
		t.Fatal(err)
	}
	w.installed("1.1.0", map[string]string{"currency": "CHF"})
	if err := published.ApplyFiles(t.Context(), stories.Upgrade); err != nil {
		t.Fatal(err)
	}
	w.installed("2.0.0", map[string]string{"currency": "CHF", "footer": "Thank you"})
}

// installed waits until the example Package is there in a version, and checks what
// it made of the values and of the overlay.
func (w world) installed(version string, want map[string]string) {
	w.Helper()
	testenv.Eventually(w, patience, func(ctx context.Context) string {
		p := &packaging.PackageInstall{}
		if err := kube.Get(ctx, client.ObjectKey{Namespace: w.ns, Name: "package-install"}, p); err != nil {
			return err.Error()
		}
		done := len(p.Status.Conditions) == 1 && p.Status.Conditions[0].Type == v1alpha1.ReconcileSucceeded
		if p.Status.Version != version || p.Status.ObservedGeneration != p.Generation || !done {
			return fmt.Sprintf("want %s installed, have %+v", version, p.Status)
		}
		return ""
	})
	w.wantConfigMap("till-settings", want)
	till := &appsv1.Deployment{}
	if err := kube.Get(w.Context(), client.ObjectKey{Namespace: w.ns, Name: "till"}, till); err != nil {
		w.Fatal(err)
	}
	if got := till.Spec.Template.Labels["app.kubernetes.io/version"]; got != version || *till.Spec.Replicas != 2 || till.Labels["example.com/team"] != "front-desk" {
		w.Errorf("version %s, %d replicas, labels %v", got, *till.Spec.Replicas, till.Labels)
	}
}
