// Package e2e tests Garboard from outside: Apps go into a real API server, the
// two real processes run against real servers for content, and what is read is
// what a user reads. Of Garboard's code only its API types are used, and the
// sidecar's client to count what that starts.
package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	internalpackaging "github.com/garboard-dev/garboard/pkg/apis/internalpackaging/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	packaging "github.com/garboard-dev/garboard/pkg/apis/packaging/v1alpha1"
	"github.com/garboard-dev/garboard/test/testenv"
)

// What all tests share; TestMain sets them.
var (
	env      *testenv.Env
	servers  *testenv.Servers
	garboard *testenv.Garboard
	kube     client.Client
)

func TestMain(m *testing.M) {
	testenv.Main(m, &env, testenv.Options{}, func(ctx context.Context, e *testenv.Env) (err error) {
		if servers, err = e.StartServers(ctx); err != nil {
			return err
		}
		if garboard, err = e.StartGarboard(ctx, testenv.GarboardOptions{}); err != nil {
			return err
		}
		scheme := runtime.NewScheme()
		for _, add := range []func(*runtime.Scheme) error{
			clientgoscheme.AddToScheme, v1alpha1.AddToScheme, packaging.AddToScheme, internalpackaging.AddToScheme,
		} {
			if err := add(scheme); err != nil {
				return err
			}
		}
		kube, err = client.New(e.Config(), client.Options{Scheme: scheme})
		return err
	})
}

// patience bounds every wait for a reconcile. It is generous because all
// processes share few cores; no test asserts how long something takes.
const patience = 90 * time.Second

// world is a namespace with a service account, deployer, that may do everything
// inside it.
type world struct {
	testing.TB
	ns string
}

func newWorld(t testing.TB) world {
	t.Helper()
	w := world{t, env.Namespace(t)}
	w.apply(testenv.Deployer)
	return w
}

func (w world) apply(manifest string) {
	w.Helper()
	env.MustApply(w, w.ns, manifest)
}

// app applies an App named name; spec is its indented YAML without the service
// account.
func (w world) app(name, spec string) {
	w.Helper()
	w.apply(fmt.Sprintf("apiVersion: kappctrl.k14s.io/v1alpha1\nkind: App\nmetadata: {name: %q}\nspec:\n  serviceAccountName: deployer\n%s", name, indent(spec)))
}

func indent(spec string) string {
	return "  " + strings.ReplaceAll(strings.TrimSpace(spec), "\n", "\n  ") + "\n"
}

func (w world) get(name string) *v1alpha1.App {
	w.Helper()
	app := &v1alpha1.App{}
	if err := kube.Get(w.Context(), client.ObjectKey{Namespace: w.ns, Name: name}, app); err != nil {
		w.Fatal(err)
	}
	return app
}

// until waits for an App that check accepts by returning "".
func (w world) until(name string, check func(*v1alpha1.App) string) *v1alpha1.App {
	w.Helper()
	app := &v1alpha1.App{}
	testenv.Eventually(w, patience, func(ctx context.Context) string {
		if err := kube.Get(ctx, client.ObjectKey{Namespace: w.ns, Name: name}, app); err != nil {
			return err.Error()
		}
		return check(app)
	})
	return app
}

// ended says whether the App's present generation ended with the condition.
func ended(app *v1alpha1.App, want v1alpha1.ConditionType) string {
	return endedAs(app.Generation, app.Status.GenericStatus, want)
}

// endedAs says whether the present generation of an object ended with the condition.
func endedAs(generation int64, s v1alpha1.GenericStatus, want v1alpha1.ConditionType) string {
	if s.ObservedGeneration != generation || len(s.Conditions) != 1 || s.Conditions[0].Type != want || s.Conditions[0].Status != "True" {
		return fmt.Sprintf("want %s for generation %d, have generation %d: %+v\n%s\n%s", want, generation, s.ObservedGeneration, s.Conditions, s.FriendlyDescription, s.UsefulErrorMessage)
	}
	return ""
}

func (w world) succeeded(name string) *v1alpha1.App {
	w.Helper()
	app := w.until(name, func(app *v1alpha1.App) string { return ended(app, v1alpha1.ReconcileSucceeded) })
	if app.Status.FriendlyDescription != "Reconcile succeeded" || app.Status.UsefulErrorMessage != "" {
		w.Errorf("success reads %q, %q", app.Status.FriendlyDescription, app.Status.UsefulErrorMessage)
	}
	return app
}

func (w world) failed(name string) *v1alpha1.App {
	w.Helper()
	return w.until(name, func(app *v1alpha1.App) string { return ended(app, v1alpha1.ReconcileFailed) })
}

// gone waits until the App is deleted.
func (w world) gone(name string) {
	w.Helper()
	testenv.Eventually(w, patience, func(ctx context.Context) string {
		app := &v1alpha1.App{}
		err := kube.Get(ctx, client.ObjectKey{Namespace: w.ns, Name: name}, app)
		if apierrors.IsNotFound(err) {
			return ""
		}
		return fmt.Sprintf("App %s is still there: %v %+v", name, err, app.Status.Conditions)
	})
}

func (w world) delete(name string) {
	w.Helper()
	app := &v1alpha1.App{}
	app.Namespace, app.Name = w.ns, name
	if err := kube.Delete(w.Context(), app); err != nil {
		w.Fatal(err)
	}
}

// edit changes an App as a user does, on the newest version.
func (w world) edit(name string, change func(*v1alpha1.App)) {
	w.Helper()
	testenv.Eventually(w, patience, func(ctx context.Context) string {
		app := &v1alpha1.App{}
		err := kube.Get(ctx, client.ObjectKey{Namespace: w.ns, Name: name}, app)
		if err == nil {
			change(app)
			err = kube.Update(ctx, app)
		}
		if apierrors.IsConflict(err) {
			return err.Error()
		}
		if err != nil {
			w.Fatal(err)
		}
		return ""
	})
}
