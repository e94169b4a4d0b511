package e2e

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/test/testenv/proc"
	"github.com/garboard-dev/garboard/test/testenv/registry"
)

// Tests in this file stop and end the shared processes, so those that do are not
// parallel.

// twenty is a spec of twenty ConfigMaps with a value.
func twenty(value string) string {
	return yttApp(map[string]string{"a.yml": "#@ for i in range(20):\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: #@ 'object-' + str(i)\n  labels: {twenty: ''}\ndata: {v: '" + value + "'}\n#@ end\n"})
}

// wantTwenty compares all twenty.
func (w world) wantTwenty(value string) {
	w.Helper()
	list := &corev1.ConfigMapList{}
	if err := kube.List(w.Context(), list, client.InNamespace(w.ns), client.HasLabels{"twenty"}); err != nil {
		w.Fatal(err)
	}
	got, want := map[string]string{}, map[string]string{}
	for i := range 20 {
		want[fmt.Sprintf("object-%d", i)] = value
	}
	for _, cm := range list.Items {
		got[cm.Name] = cm.Data["v"]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("-want +got:\n%s", diff)
	}
}

// TestControllerKilledAnywhere: whenever the controller dies in a deploy, the next
// one brings the App to the same end.
func TestControllerKilledAnywhere(t *testing.T) {
	w := newWorld(t)
	w.app("k", twenty("0"))
	w.succeeded("k")
	for i := range 6 {
		value := fmt.Sprint(i + 1)
		w.app("k", twenty(value))
		<-time.After(rand.N(400 * time.Millisecond)) // the moment is what varies
		garboard.Controller.Kill()
		if err := garboard.Controller.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.succeeded("k")
		w.wantTwenty(value)
	}
	w.delete("k")
	w.gone("k")
	untilNoWorkspaces(t)
}

// stop stops a process; it goes on at the latest when the test ends.
func stop(t *testing.T, p *proc.Process) (goOn func()) {
	t.Helper()
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	goOn = func() { _ = p.Signal(syscall.SIGCONT) }
	t.Cleanup(goOn)
	return goOn
}

// TestSidecarHangs: while the sidecar does nothing, deletes and cancels go on;
// afterwards everything does, and nothing is left over.
func TestSidecarHangs(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"deployed", "waits"} {
		w.app(name, yttApp(map[string]string{"a.yml": cm(name)}))
		w.succeeded(name)
	}
	goOn := stop(t, garboard.Sidecar.Process)
	w.app("waits", yttApp(map[string]string{"a.yml": cm("waits", "v", "2")}))
	w.app("new", yttApp(map[string]string{"a.yml": cm("new")}))
	w.app("canceled", yttApp(map[string]string{"a.yml": cm("canceled")}))
	w.until("new", reconciling)
	w.until("canceled", reconciling)
	w.edit("canceled", func(a *v1alpha1.App) { a.Spec.Canceled = true })
	w.until("canceled", func(a *v1alpha1.App) string { return contains(a.Status.FriendlyDescription, "Canceled/paused") })
	for _, name := range []string{"deployed", "new"} {
		w.delete(name)
		w.gone(name)
	}
	goOn()
	w.succeeded("waits")
	w.wantConfigMap("waits", map[string]string{"v": "2"})
	untilNoWorkspaces(t)
}

func reconciling(a *v1alpha1.App) string {
	if len(a.Status.Conditions) != 1 || a.Status.Conditions[0].Type != v1alpha1.Reconciling {
		return fmt.Sprintf("not reconciling: %+v", a.Status.Conditions)
	}
	return ""
}

// TestAPIServerHangs: deploys that an API server interrupts for a while end as if
// it had not.
func TestAPIServerHangs(t *testing.T) {
	w := newWorld(t)
	w.app("a", twenty("1"))
	w.succeeded("a")
	w.app("a", twenty("2"))
	w.until("a", func(a *v1alpha1.App) string {
		if a.Status.ObservedGeneration != a.Generation {
			return "not begun"
		}
		return ""
	})
	var server *proc.Process
	for _, p := range env.Processes() {
		if len(p.Args()) > 0 && p.Args()[0] == "kube-apiserver" {
			server = p
		}
	}
	goOn := stop(t, server)
	<-time.After(5 * time.Second) // the length of the outage
	goOn()
	w.succeeded("a")
	w.wantTwenty("2")
}

// TestServersThatHang: a server for content that takes connections and never
// answers holds up neither a delete nor a cancel.
func TestServersThatHang(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	accepted := make(chan net.Conn, 100)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				close(accepted)
				return
			}
			accepted <- c // held open
		}
	}()
	addr := l.Addr().String()
	for name, fetch := range map[string]string{
		"http":  fmt.Sprintf("fetch: [{http: {url: 'http://%s/x.yml'}}]\n", addr),
		"git":   fmt.Sprintf("fetch: [{git: {url: 'http://%s/x.git', ref: origin/main}}]\n", addr),
		"image": fmt.Sprintf("fetch: [{image: {url: '%s/x/y'}}]\n", addr),
		"helm":  fmt.Sprintf("fetch: [{helmChart: {name: c, repository: {url: 'http://%s'}}}]\n", addr),
	} {
		w := newWorld(t)
		w.app(name, fetch+deployAll)
		select {
		case <-accepted:
		case <-time.After(patience):
			t.Fatalf("%s: nobody came", name)
		}
		w.edit(name, func(a *v1alpha1.App) { a.Spec.Canceled = true })
		w.until(name, func(a *v1alpha1.App) string { return contains(a.Status.FriendlyDescription, "Canceled/paused") })
		w.edit(name, func(a *v1alpha1.App) { a.Spec.Canceled = false })
		w.until(name, reconciling)
		w.delete(name)
		w.gone(name)
	}
}

// TestRegistryGone: an App whose registry went away says so, keeps what it
// deployed, recovers with the next good spec, and can be deleted.
func TestRegistryGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	own, err := registry.Start(t.Context(), registry.Options{BinDir: env.BinDir("dev"), ToolDir: env.BinDir("tools"), Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(own.Close)
	for _, s := range []*registry.Server{own, servers.Registry} {
		if _, err := s.PushImage(t.Context(), "gone/config:1", file("cm.yml", cm("gone-config", "v", "1"))); err != nil {
			t.Fatal(err)
		}
	}
	spec := func(host string) string {
		return fmt.Sprintf("fetch: [{image: {url: %q}}]\n", host+"/gone/config:1") + deployAll
	}
	w.app("gone", spec(own.Host()))
	w.succeeded("gone")

	own.Close()
	w.edit("gone", func(a *v1alpha1.App) { a.Spec.DefaultNamespace = w.ns })
	app := w.failed("gone")
	if !strings.Contains(app.Status.Fetch.Error, "Fetching resources: Error") || !strings.Contains(app.Status.UsefulErrorMessage, "connection refused") {
		t.Errorf("fetch says %q, %q", app.Status.Fetch.Error, app.Status.UsefulErrorMessage)
	}
	w.wantConfigMap("gone-config", map[string]string{"v": "1"})

	w.app("gone", spec(servers.Registry.Host()))
	w.succeeded("gone")
	w.app("gone", spec(own.Host()))
	w.failed("gone")
	w.delete("gone")
	w.gone("gone")
	w.noConfigMap("gone-config")
}
