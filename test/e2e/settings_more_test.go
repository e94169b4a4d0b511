package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/test/testenv"
)

// Like those in settings_test.go, no test here is parallel.

// TestSecretBeforeConfigMap: the Secret counts alone, and when it goes the ConfigMap
// does, and when that goes the defaults do.
func TestSecretBeforeConfigMap(t *testing.T) {
	w := newWorld(t)
	servers.TLSFiles.Put("before/cm.yml", []byte(cm("before")))
	w.app("files", fmt.Sprintf("fetch: [{http: {url: %q}}]\n", servers.TLSFiles.URL()+"/before/cm.yml")+deployAll)
	w.untrusted("files")

	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: configKey.Namespace, Name: configKey.Name}}
	configMap.Data = map[string]string{"caCerts": string(servers.CA.CertPEM)}
	gone := false
	defer func() {
		if !gone {
			accepted.after(t, func() error { return kube.Delete(context.WithoutCancel(t.Context()), configMap) })
		}
	}()
	accepted.after(t, func() error { return kube.Create(t.Context(), configMap) })
	w.succeeded("files")

	configure(t, map[string]string{"appDefaultSyncPeriod": "1h"}, accepted)
	w.edit("files", func(a *v1alpha1.App) { a.Spec.NoopDelete = true })
	w.untrusted("files")

	unconfigure(t)
	w.succeeded("files") // by the retry

	accepted.after(t, func() error { gone = true; return kube.Delete(t.Context(), configMap) })
	w.edit("files", func(a *v1alpha1.App) { a.Spec.NoopDelete = false })
	w.untrusted("files")
}

// forward is an HTTP proxy that counts, for every host but one, the requests for it.
func forward(t *testing.T) (address string, asked func(host string) int64) {
	t.Helper()
	counts := map[string]*atomic.Int64{}
	for _, host := range []string{"one.example.com", "two.example.com", "direct.example.com", "hangs.example.com"} {
		counts[host] = &atomic.Int64{}
	}
	over := make(chan struct{})
	proxy := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if n := counts[r.URL.Host]; n != nil {
			n.Add(1)
		}
		if r.URL.Host == "hangs.example.com" {
			select {
			case <-over:
			case <-r.Context().Done():
			}
		}
		fmt.Fprint(rw, cm(strings.Split(r.URL.Host, ".")[0]))
	}))
	t.Cleanup(func() { close(over); proxy.Close() })
	return proxy.URL, func(host string) int64 { return counts[host].Load() }
}

// TestProxy: fetches go through the proxy but for the hosts of noProxy, among which
// the API server always is; the sidecar logs what it sets and clears.
func TestProxy(t *testing.T) {
	w := newWorld(t)
	address, asked := forward(t)
	fetch := func(host string) string { return "fetch: [{http: {url: 'http://" + host + "/cm.yml'}}]\n" + deployAll }
	defer unconfigure(t)
	configure(t, map[string]string{"httpProxy": address + "\n", "noProxy": "direct.example.com, .local"}, accepted)
	w.app("one", fetch("one.example.com"))
	w.app("direct", fetch("direct.example.com"))
	w.succeeded("one")
	w.failed("direct")
	if asked("one.example.com") == 0 || asked("direct.example.com") != 0 {
		t.Errorf("the proxy was asked %d and %d times", asked("one.example.com"), asked("direct.example.com"))
	}

	// What a tool gets is seen in one that runs.
	w.app("hangs", "syncPeriod: 10h\n"+fetch("hangs.example.com"))
	testenv.Eventually(t, patience, func(context.Context) string {
		variables := map[string]string{}
		for _, child := range children(garboard.Sidecar.PID()) {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%s/environ", child))
			if err != nil {
				continue // it has ended
			}
			for kv := range strings.SplitSeq(string(text), "\x00") {
				if name, value, ok := strings.Cut(kv, "="); ok {
					variables[name] = value
				}
			}
		}
		for _, name := range []string{"http_proxy", "HTTP_PROXY"} {
			if variables[name] != address {
				return fmt.Sprintf("%s is %q", name, variables[name])
			}
		}
		for _, name := range []string{"no_proxy", "NO_PROXY"} {
			if got := strings.Split(variables[name], ","); len(got) != 3 || got[0] != "direct.example.com" || got[1] != ".local" || got[2] != "127.0.0.1" {
				return fmt.Sprintf("%s is %q", name, variables[name])
			}
		}
		if _, found := variables["https_proxy"]; found {
			return "https_proxy is set"
		}
		return ""
	})
	w.delete("hangs")
	w.gone("hangs")

	log := logOf(t, garboard.Sidecar)
	configure(t, map[string]string{"httpsProxy": address, "noProxy": "a.example.com,KAPPCTRL_KUBERNETES_SERVICE_HOST"}, accepted)
	log = strings.TrimPrefix(logOf(t, garboard.Sidecar), log)
	for _, line := range []string{"Clearing http_proxy", "Setting https_proxy", "Setting no_proxy", "Applying CA certs"} {
		if problem := contains(log, line); problem != "" {
			t.Error(problem)
		}
	}
	if strings.Contains(log, address) {
		t.Errorf("the log has the proxy's address:\n%s", log)
	}
}

// TestSidecarGetsItsSettingsAgain: a sidecar that was restarted has the proxy before
// it runs the first tool.
func TestSidecarGetsItsSettingsAgain(t *testing.T) {
	w := newWorld(t)
	address, _ := forward(t)
	defer unconfigure(t)
	configure(t, map[string]string{"httpProxy": address}, accepted)
	garboard.Sidecar.Kill()
	if err := garboard.Sidecar.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.app("one", "fetch: [{http: {url: 'http://one.example.com/cm.yml'}}]\n"+deployAll)
	if app := w.succeeded("one"); app.Status.ConsecutiveReconcileSuccesses != 1 {
		t.Errorf("%d successes in a row", app.Status.ConsecutiveReconcileSuccesses)
	}
	w.configMap("one")
}

// TestSettingsBeforeTools: a controller that starts has the configuration before it
// fetches the first App, and does not start with one that it cannot read.
func TestSettingsBeforeTools(t *testing.T) {
	w := newWorld(t)
	address, asked := forward(t)
	start := withoutController(t)
	put := func(data map[string]string) {
		t.Helper()
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: configKey.Namespace, Name: configKey.Name}, StringData: data}
		if err := client.IgnoreAlreadyExists(kube.Create(t.Context(), s)); err != nil {
			t.Fatal(err)
		}
	}
	defer unconfigure(t)
	put(map[string]string{"httpProxy": address})
	for i := range 12 { // more than run at once
		w.app(fmt.Sprintf("one-%d", i), "fetch: [{http: {url: 'http://one.example.com/cm.yml'}}]\ntemplate: [{ytt: {}}]\ndeploy: [{kapp: {intoNs: "+w.ns+", rawOptions: ['--dangerous-override-ownership-of-existing-resources=true']}}]\n")
	}
	start()
	for i := range 12 {
		w.until(fmt.Sprintf("one-%d", i), func(a *v1alpha1.App) string {
			if a.Status.Fetch == nil {
				return "not fetched yet"
			}
			if a.Status.Fetch.ExitCode != 0 {
				t.Errorf("%s was fetched without the proxy: %s", a.Name, a.Status.Fetch.Error)
			}
			return ""
		})
	}
	if asked("one.example.com") < 12 {
		t.Errorf("the proxy was asked %d times", asked("one.example.com"))
	}
}

// TestSyncPeriodSettings: the default is for Apps without a period, and the minimum
// for all. Both only make runs rarer, so the clock is an App that fails: its fourth
// failure comes 14s after the start of the controller. With a period of 30s, the
// default without a configuration, each App would have run by then with a chance of
// one in three, and not one of them all with less than one in five hundred.
func TestSyncPeriodSettings(t *testing.T) {
	w := newWorld(t)
	ages := map[string]time.Duration{}
	for i := range 8 {
		own, none := fmt.Sprintf("own-%d", i), fmt.Sprintf("none-%d", i)
		w.app(own, "syncPeriod: 30s\n"+yttApp(map[string]string{"a.yml": cm(own)}))
		w.app(none, yttApp(map[string]string{"a.yml": cm(none)}))
		ages[own], ages[none] = 5*time.Minute, 30*time.Minute
	}
	for name := range ages {
		w.succeeded(name)
	}
	defer unconfigure(t)
	configure(t, map[string]string{"appDefaultSyncPeriod": "1h", "appMinimumSyncPeriod": "10m"}, accepted)
	start := withoutController(t)
	aged := map[string]metav1.Time{}
	for name, by := range ages {
		aged[name] = w.age(name, by)
	}
	start()
	w.app("clock", "fetch: [{http: {url: 'http://127.0.0.1:1/x'}}]\n"+deployAll)
	w.until("clock", func(a *v1alpha1.App) string {
		if n := a.Status.ConsecutiveReconcileFailures; n < 4 {
			return fmt.Sprintf("%d failures", n)
		}
		return ""
	})
	for name, then := range aged {
		if now := w.get(name).Status.Fetch.StartedAt; !now.Equal(&then) {
			t.Errorf("%s ran at %v, as if it had no setting", name, now)
		}
	}
}

// age makes an App's status as if it had run so long ago, and returns when that was.
func (w world) age(name string, by time.Duration) metav1.Time {
	w.Helper()
	then := metav1.NewTime(time.Now().Add(-by).Truncate(time.Second))
	app := w.get(name)
	s := &app.Status
	s.Fetch.StartedAt, s.Fetch.UpdatedAt, s.Template.UpdatedAt, s.Deploy.StartedAt, s.Deploy.UpdatedAt = then, then, then, then, then
	if err := kube.Status().Update(w.Context(), app); err != nil {
		w.Fatal(err)
	}
	return then
}

// TestDoubtfulSettings: what has no effect is told and stops nobody.
func TestDoubtfulSettings(t *testing.T) {
	defer unconfigure(t)
	configure(t, map[string]string{"httpproxy": "http://robot:s3cr3t-pr0xy@proxy.example.com", "caCerts": "MIIB", "appMinimumSyncPeriod": "1s"}, accepted)
	testenv.Eventually(t, patience, func(ctx context.Context) string {
		events := &eventsv1.EventList{}
		if err := kube.List(ctx, events, client.InNamespace(testenv.SystemNamespace)); err != nil {
			return err.Error()
		}
		const want = `there is no key "httpproxy" (hint: it is written httpProxy); caCerts: holds no certificate in PEM; ` +
			"appMinimumSyncPeriod: 1s is less than the least possible, 30s, which counts"
		for _, e := range events.Items {
			if strings.Contains(e.Note, "s3cr3t") {
				t.Errorf("an event shows the password: %s", e.Note)
			}
			if e.Type == "Warning" && e.Reason == "DoubtfulConfiguration" && e.Note == want && e.Regarding.Name == configKey.Name {
				return ""
			}
		}
		return fmt.Sprintf("no such warning among %d events", len(events.Items))
	})
}

// TestPackageInstallDefaultSyncPeriod: the Apps of PackageInstalls that name no
// period have the default, also when it changes, and never less than 30s.
func TestPackageInstallDefaultSyncPeriod(t *testing.T) {
	w := newInstalls(t)
	w.offerWeb("1.0.0")
	w.apply("apiVersion: packaging.carvel.dev/v1alpha1\nkind: PackageInstall\nmetadata: {name: web}\nspec:\n  serviceAccountName: deployer\n  packageRef: {refName: " +
		w.refName + ", versionSelection: {constraints: 1.0.0}}\n")
	period := func(want time.Duration) {
		t.Helper()
		w.until("web", func(a *v1alpha1.App) string {
			if p := a.Spec.SyncPeriod; p == nil || p.Duration != want {
				return fmt.Sprintf("the App has the period %v, want %v", p, want)
			}
			return ""
		})
	}
	period(10 * time.Minute)
	defer unconfigure(t)
	configure(t, map[string]string{"packageInstallDefaultSyncPeriod": "25m"}, accepted)
	period(25 * time.Minute)
	configure(t, map[string]string{"packageInstallDefaultSyncPeriod": "1s"}, accepted)
	period(30 * time.Second)
}
