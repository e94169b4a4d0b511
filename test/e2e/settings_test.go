package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/test/testenv"
)

// Tests in this file change the configuration of the shared controller, so none
// is parallel: they run before all that are.

// outcome is what the controller makes of a configuration.
type outcome struct {
	unit func() *testenv.Unit
	// log is a part of what the process logs then.
	log string
}

var (
	// accepted is logged by the sidecar, which is told last.
	accepted = outcome{func() *testenv.Unit { return garboard.Sidecar }, ` no_proxy"`}
	refused  = outcome{func() *testenv.Unit { return garboard.Controller }, `"msg":"Configuration is wrong`}
)

var configKey = client.ObjectKey{Namespace: testenv.SystemNamespace, Name: "kapp-controller-config"}

// configure stores the controller's configuration and waits until the controller
// has done with it what it should. Whoever calls it defers unconfigure.
func configure(t *testing.T, data map[string]string, want outcome) {
	t.Helper()
	want.after(t, func() error {
		secret := &corev1.Secret{}
		secret.Namespace, secret.Name = configKey.Namespace, configKey.Name
		secret.Data = map[string][]byte{}
		for key, value := range data {
			secret.Data[key] = []byte(value)
		}
		err := kube.Create(t.Context(), secret)
		if apierrors.IsAlreadyExists(err) {
			err = kube.Update(t.Context(), secret)
		}
		return err
	})
}

func unconfigure(t *testing.T) {
	t.Helper()
	accepted.after(t, func() error {
		secret := &corev1.Secret{}
		secret.Namespace, secret.Name = configKey.Namespace, configKey.Name
		return kube.Delete(t.Context(), secret)
	})
}

// after waits for the outcome of change.
func (o outcome) after(t *testing.T, change func() error) {
	t.Helper()
	before := strings.Count(logOf(t, o.unit()), o.log)
	if err := change(); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, patience, func(context.Context) string {
		if strings.Count(logOf(t, o.unit()), o.log) > before {
			return ""
		}
		return "nobody has logged " + o.log
	})
}

func logOf(t *testing.T, u *testenv.Unit) string {
	t.Helper()
	text, err := os.ReadFile(u.LogFile())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// unknownCA is what a user reads of a certificate that is not trusted.
var unknownCA = []string{
	"certificate signed by unknown authority",
	"(hint: The CA Certificate from URL is unknown/invalid. Add valid CA certificate to the kapp-controller configuration to reconcile successfully)",
	"key caCerts",
}

func (w world) untrusted(name string) {
	w.Helper()
	app := w.failed(name)
	for _, part := range unknownCA {
		if problem := contains(app.Status.UsefulErrorMessage, part); problem != "" {
			w.Errorf("App %s: %s", name, problem)
		}
	}
	if problem := contains(app.Status.Conditions[0].Message, "Fetching resources: "); problem != "" {
		w.Errorf("App %s: %s", name, problem)
	}
}

// TestCACerts: a private authority is trusted from the moment that it is in the
// configuration, and not any more once it is out.
func TestCACerts(t *testing.T) {
	w := newWorld(t)
	if _, err := servers.TLSRegistry.PushImage(t.Context(), "tls/image:1", file("cm.yml", cm("from-registry"))); err != nil {
		t.Fatal(err)
	}
	servers.TLSFiles.Put("tls/cm.yml", []byte(cm("from-files")))
	apps := map[string]string{
		"files":    fmt.Sprintf("fetch: [{http: {url: %q}}]\n", servers.TLSFiles.URL()+"/tls/cm.yml") + deployAll,
		"registry": fmt.Sprintf("fetch: [{image: {url: %q}}]\n", servers.TLSRegistry.Host()+"/tls/image:1") + deployAll,
	}
	for name, spec := range apps {
		w.app(name, spec)
	}
	for name := range apps {
		w.untrusted(name)
	}

	defer unconfigure(t)
	configure(t, map[string]string{"caCerts": string(servers.CA.CertPEM)}, accepted)
	for name := range apps {
		w.succeeded(name) // by the retry: nobody touches the App
		w.configMap("from-" + name)
	}

	configure(t, map[string]string{"appDefaultSyncPeriod": "1h"}, accepted)
	for name := range apps {
		w.edit(name, func(a *v1alpha1.App) { a.Spec.NoopDelete = true })
		w.untrusted(name)
	}
}

// TestSkipTLSVerify: a registry that is named is trusted without its certificate.
func TestSkipTLSVerify(t *testing.T) {
	w := newWorld(t)
	if _, err := servers.TLSRegistry.PushImage(t.Context(), "skip/image:1", file("cm.yml", cm("skipped"))); err != nil {
		t.Fatal(err)
	}
	defer unconfigure(t)
	configure(t, map[string]string{"dangerousSkipTLSVerify": "other.example.com, " + servers.TLSRegistry.Host()}, accepted)
	w.app("registry", fmt.Sprintf("fetch: [{image: {url: %q}}]\n", servers.TLSRegistry.Host()+"/skip/image:1")+deployAll)
	w.succeeded("registry")
	w.configMap("skipped")
}

// TestProxyPassword: fetches use the proxy with its password, which nobody gets to
// see, whether the configuration is wrong, the fetch succeeds or fails.
func TestProxyPassword(t *testing.T) {
	w := newWorld(t)
	var asked atomic.Int64
	proxy := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		user := "Basic " + base64.StdEncoding.EncodeToString([]byte("robot:hunter2"))
		if r.Header.Get("Proxy-Authorization") != user || r.URL.Host != "files.example.com" || r.Method != http.MethodGet {
			http.Error(rw, "refused", http.StatusProxyAuthRequired)
			return
		}
		asked.Add(1)
		fmt.Fprint(rw, cm("through-proxy"))
	}))
	defer proxy.Close()

	defer unconfigure(t)
	configure(t, map[string]string{"httpProxy": "http://robot:p%ssw0rd@proxy.example.com:3128"}, refused)
	untilEvent(t, "httpProxy", "proxy.example.com")

	address := strings.Replace(proxy.URL, "http://", "http://robot:hunter2@", 1)
	configure(t, map[string]string{"httpProxy": address, "httpsProxy": address}, accepted)
	w.app("good", "fetch: [{http: {url: 'http://files.example.com/cm.yml'}}]\n"+deployAll)
	w.app("bad-http", "fetch: [{http: {url: 'https://files.example.com/cm.yml'}}]\n"+deployAll)
	w.app("bad-git", "fetch: [{git: {url: 'https://u:tok3n@git.example.com/r.git', ref: origin/main}}]\n"+deployAll)
	w.app("bad-image", "fetch: [{image: {url: 'registry.example.com/r:1'}}]\n"+deployAll)
	w.succeeded("good")
	w.configMap("through-proxy")
	if asked.Load() == 0 {
		t.Error("the proxy was not asked")
	}
	for _, name := range []string{"bad-http", "bad-git", "bad-image"} {
		w.failed(name)
	}
	w.noSecrets("p%ssw0rd", "hunter2", "robot:hunter2", "robot:p%ssw0rd", "tok3n")
}

// noSecrets looks for secrets, as they are, encoded for URLs and in base64, in all
// that people read.
func (w world) noSecrets(secrets ...string) {
	w.Helper()
	t := w.TB.(*testing.T)
	apps, events := &v1alpha1.AppList{}, &eventsv1.EventList{}
	if err := kube.List(t.Context(), apps, client.InNamespace(w.ns)); err != nil {
		t.Fatal(err)
	}
	if err := kube.List(t.Context(), events); err != nil {
		t.Fatal(err)
	}
	metrics, err := garboard.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var statuses []v1alpha1.AppStatus
	for i := range apps.Items {
		statuses = append(statuses, apps.Items[i].Status)
	}
	places := map[string]string{
		"the controller's log": logOf(t, garboard.Controller), "the sidecar's log": logOf(t, garboard.Sidecar),
		"metrics": metrics, "status": asJSON(t, statuses), "events": asJSON(t, events.Items),
	}
	for place, text := range places {
		for _, secret := range secrets {
			for _, form := range []string{secret, url.QueryEscape(secret), url.PathEscape(secret), base64.StdEncoding.EncodeToString([]byte(secret))} {
				if strings.Contains(text, form) {
					t.Errorf("%s shows %q", place, form)
				}
			}
		}
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// untilEvent waits for a warning about the configuration that holds all parts.
func untilEvent(t *testing.T, parts ...string) {
	t.Helper()
	testenv.Eventually(t, patience, func(ctx context.Context) string {
		events := &eventsv1.EventList{}
		if err := kube.List(ctx, events, client.InNamespace(testenv.SystemNamespace)); err != nil {
			return err.Error()
		}
		notes := ""
		for _, e := range events.Items {
			notes += e.Type + " " + e.Reason + " " + e.Note + "\n"
			missing := 0
			for _, part := range append(parts, "the previous configuration stays in force") {
				if !strings.Contains(e.Note, part) {
					missing++
				}
			}
			if e.Type == "Warning" && e.Reason == "InvalidConfiguration" && missing == 0 {
				return ""
			}
		}
		return fmt.Sprintf("no warning holds %q:\n%s", parts, notes)
	})
}

// TestKappDeployRawOptions: the administrator's options reach kapp, and a wrong
// configuration leaves them in force.
func TestKappDeployRawOptions(t *testing.T) {
	w := newWorld(t)
	defer unconfigure(t)
	configure(t, map[string]string{"kappDeployRawOptions": `["--diff-changes=true"]`}, accepted)
	w.app("one", yttApp(map[string]string{"a.yml": cm("one", "v", "1")}))
	stdout := func() string { return w.succeeded("one").Status.Deploy.Stdout }
	if problem := contains(stdout(), "@@ create configmap/one"); problem != "" {
		t.Error(problem)
	}

	configure(t, map[string]string{"kappDeployRawOptions": "[]", "appDefaultSyncPeriod": "soon"}, refused)
	untilEvent(t, "appDefaultSyncPeriod")
	w.edit("one", func(a *v1alpha1.App) { a.Spec.Fetch[0].Inline.Paths["a.yml"] = cm("one", "v", "2") })
	if problem := contains(stdout(), "@@ update configmap/one"); problem != "" {
		t.Error(problem)
	}
	w.wantConfigMap("one", map[string]string{"v": "2"})

	configure(t, map[string]string{"kappDeployRawOptions": "[]"}, accepted)
	w.edit("one", func(a *v1alpha1.App) { a.Spec.Fetch[0].Inline.Paths["a.yml"] = cm("one", "v", "3") })
	if out := stdout(); strings.Contains(out, "@@ update configmap/one") {
		t.Errorf("an option that is gone still counts:\n%s", out)
	}
}
