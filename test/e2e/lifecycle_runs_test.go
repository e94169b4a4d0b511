package e2e

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/test/testenv"
)

// history watches an App from now on. What it returns ends that and gives each
// state that was stored meanwhile.
func (w world) history(name string) func() []v1alpha1.App {
	w.Helper()
	apps := env.Dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("apps")).Namespace(w.ns)
	ctx, cancel := context.WithCancel(w.Context())
	watch, err := apps.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		w.Fatal(err)
	}
	var (
		wg    sync.WaitGroup
		found []v1alpha1.App
	)
	wg.Go(func() {
		for e := range watch.ResultChan() {
			obj, ok := e.Object.(*unstructured.Unstructured)
			if !ok {
				continue
			}
			app := v1alpha1.App{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &app); err != nil {
				w.Error(err)
			}
			found = append(found, app)
		}
	})
	return func() []v1alpha1.App {
		watch.Stop()
		cancel()
		wg.Wait()
		return found
	}
}

// noFailure checks that none of the states is a failure.
func noFailure(t testing.TB, states []v1alpha1.App) {
	t.Helper()
	for _, a := range states {
		for _, c := range a.Status.Conditions {
			if c.Type == v1alpha1.ReconcileFailed || c.Type == v1alpha1.DeleteFailed {
				t.Errorf("a failure of generation %d was shown: %s", a.Status.ObservedGeneration, c.Message)
			}
		}
	}
}

// hangs listens where a connection is taken and never answered, and says when one is.
func hangs(t *testing.T) (addr string, accepted <-chan net.Conn) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	conns := make(chan net.Conn, 100)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				close(conns)
				return
			}
			conns <- c // held open
		}
	}()
	return l.Addr().String(), conns
}

// makeReady lets the Pods of a Deployment that waits in vain be scheduled.
func (w world) makeReady(name string) {
	w.Helper()
	testenv.Eventually(w, patience, func(ctx context.Context) string {
		d := &appsv1.Deployment{}
		err := kube.Get(ctx, client.ObjectKey{Namespace: w.ns, Name: name}, d)
		if err == nil {
			d.Spec.Template.Spec.NodeSelector = nil
			err = kube.Update(ctx, d)
		}
		if err != nil {
			return err.Error()
		}
		return ""
	})
}

// TestRunsEndAtOnce: an edit, a cancel and a delete end a run in each of its
// stages, however long that would take, and none of it counts as a failure but
// the cancel.
func TestRunsEndAtOnce(t *testing.T) {
	t.Parallel()
	const name = "busy"
	good := yttApp(map[string]string{"a.yml": cm("busy-config", "v", "good")})
	stages := map[string]func(*testing.T, world){
		"Fetch": func(t *testing.T, w world) {
			addr, accepted := hangs(t)
			w.app(name, fmt.Sprintf("fetch: [{http: {url: 'http://%s/x.yml'}}]\n", addr)+deployAll)
			<-accepted
		},
		"Template": func(_ *testing.T, w world) {
			w.app(name, yttApp(map[string]string{"a.yml": slow}))
			w.until(name, func(a *v1alpha1.App) string {
				if problem := reconciling(a); problem != "" || a.Status.Fetch == nil || a.Status.Fetch.Error != "" {
					return "not templating: " + problem
				}
				return ""
			})
		},
		"Deploy": func(_ *testing.T, w world) {
			w.app(name, yttApp(map[string]string{"d.yml": deployment("busy", nowhere)}))
			w.until(name, waiting)
		},
	}
	for stage, begin := range stages {
		t.Run(stage+"Edited", func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			begin(t, w)
			states := w.history(name)
			w.app(name, good)
			app := w.succeeded(name)
			noFailure(t, states())
			w.wantConfigMap("busy-config", map[string]string{"v": "good"})
			if s := app.Status; s.ConsecutiveReconcileSuccesses != 1 || s.ConsecutiveReconcileFailures != 0 {
				t.Errorf("%d successes, %d failures", s.ConsecutiveReconcileSuccesses, s.ConsecutiveReconcileFailures)
			}
			for _, e := range w.events(name) {
				if e.Reason != "ReconcileSucceeded" {
					t.Errorf("event %s: %s", e.Reason, e.Message)
				}
			}
		})
		t.Run(stage+"Canceled", func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			begin(t, w)
			w.edit(name, func(a *v1alpha1.App) { a.Spec.Canceled = true })
			w.until(name, func(a *v1alpha1.App) string {
				if a.Status.ObservedGeneration != a.Generation {
					return "the cancel was not seen"
				}
				return contains(a.Status.FriendlyDescription, "Canceled/paused")
			})
		})
		t.Run(stage+"Deleted", func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			begin(t, w)
			states := w.history(name)
			w.delete(name)
			w.gone(name)
			noFailure(t, states())
		})
	}
}

// TestPauseLetsARunEnd: so do changes of metadata, which start nothing either.
func TestPauseLetsARunEnd(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ patch, says string }{
		"Paused":   {`{"spec":{"paused":true}}`, "Canceled/paused"},
		"Metadata": {`{"metadata":{"labels":{"a":"b"},"annotations":{"c":"d"}}}`, "Reconcile succeeded"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.app("slow", "syncPeriod: 10h\n"+yttApp(map[string]string{"d.yml": deployment("slow", nowhere)}))
			began := w.until("slow", waiting).Status.Deploy.StartedAt
			app := w.get("slow")
			if err := kube.Patch(t.Context(), app, client.RawPatch(types.MergePatchType, []byte(c.patch))); err != nil {
				t.Fatal(err)
			}
			w.makeReady("slow")
			app = w.until("slow", func(a *v1alpha1.App) string { return contains(a.Status.FriendlyDescription, c.says) })
			d := app.Status.Deploy
			if !d.Finished || d.Error != "" || !d.StartedAt.Equal(&began) || app.Status.Conditions[0].Type != v1alpha1.ReconcileSucceeded {
				t.Errorf("conditions %+v, deploy %+v, began %s", app.Status.Conditions, d, began)
			}
		})
	}
}

// TestSecretEndsAWait: a deploy that waits for what an old Secret asked for ends
// when the Secret changes, and the next one begins.
func TestSecretEndsAWait(t *testing.T) {
	t.Parallel()
	for ref, object := range map[string]string{"secretRef": "kind: Secret, stringData", "configMapRef": "kind: ConfigMap, data"} {
		t.Run(ref, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			values := func(text string) {
				w.apply(fmt.Sprintf("{apiVersion: v1, metadata: {name: values}, %s: {values.yml: %q}}", object, text))
			}
			values("where: {disk: none-has-it}")
			manifest := "#@ load(\"@ytt:data\", \"data\")\n---\n" + strings.Replace(deployment("web", ""), "nodeSelector: {}", "nodeSelector: #@ data.values.where", 1)
			w.app("web", "syncPeriod: 10h\nfetch:\n"+inline(map[string]string{"d.yml": manifest, "schema.yml": "#@data/values-schema\n---\n#@schema/type any=True\nwhere: {}\n"})+
				"template: [{ytt: {valuesFrom: [{"+ref+": {name: values}}]}}]\ndeploy: [{kapp: {}}]\n")
			w.until("web", waiting)
			states := w.history("web")
			values("where: {}")
			app := w.succeeded("web")
			noFailure(t, states())
			if s := app.Status; s.ConsecutiveReconcileSuccesses != 1 || s.ConsecutiveReconcileFailures != 0 {
				t.Errorf("%d successes, %d failures", s.ConsecutiveReconcileSuccesses, s.ConsecutiveReconcileFailures)
			}
		})
	}
}
