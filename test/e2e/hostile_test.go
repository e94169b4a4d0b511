package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
)

// TestBadPeriodStopsNobody: an App that another controller could not even read
// fails by itself, and all other Apps go on.
func TestBadPeriodStopsNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.app("days", "syncPeriod: 1d\n"+yttApp(map[string]string{"a.yml": cm("days")}))
	app := w.failed("days")
	if problem := contains(app.Status.UsefulErrorMessage, `Invalid syncPeriod: "1d" is no duration`); problem != "" {
		t.Error(problem)
	}
	w.app("other", yttApp(map[string]string{"a.yml": cm("other")}))
	w.succeeded("other")
	w.app("days", "syncPeriod: 24h\n"+yttApp(map[string]string{"a.yml": cm("days")}))
	w.succeeded("days")
	w.app("days", "syncPeriod: -1d\n"+yttApp(map[string]string{"a.yml": cm("days")}))
	w.failed("days")
	w.delete("days")
	w.gone("days")
	w.noConfigMap("days")
}

// loud prints count lines of 3-byte runes on standard error.
func loud(count int) string {
	return fmt.Sprintf("#@ for i in range(%d):\n#@   print('node-{} ✓✓✓✓✓✓✓✓ ok'.format(i))\n#@ end\n", count)
}

// TestHugeOutput: a stage that prints megabytes changes neither the outcome nor
// whether it can be stored.
func TestHugeOutput(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	objects := "#@ for i in range(200):\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: #@ 'huge-' + str(i)\n#@ end\n"
	w.app("huge", strings.Replace(yttApp(map[string]string{"a.yml": loud(100_000) + objects}), "kapp: {}", "kapp: {rawOptions: [--diff-changes=true], inspect: {}}", 1))
	app := w.succeeded("huge")
	fits(t, app)
	if first, _, _ := strings.Cut(app.Status.Template.Stderr, "\n"); !strings.HasPrefix(first, "[output truncated: ") {
		t.Errorf("what is missing is not told: %q", first)
	}
	if end := "node-99999 ✓✓✓✓✓✓✓✓ ok\n"; !strings.HasSuffix(app.Status.Template.Stderr, end) {
		t.Error("the end is lost")
	}
	w.configMap("huge-199")

	w.app("huge", yttApp(map[string]string{"a.yml": loud(100_000) + "--- #@ nothere\n"}))
	app = w.failed("huge")
	fits(t, app)
	if problem := contains(app.Status.UsefulErrorMessage, "undefined: nothere"); problem != "" {
		t.Error(problem[:200])
	}
}

// fits checks the size of an App on the wire.
func fits(t *testing.T, app *v1alpha1.App) {
	t.Helper()
	body, err := json.Marshal(app)
	if err != nil || len(body) > 400<<10 || !utf8.Valid(body) || strings.ContainsRune(string(body), utf8.RuneError) {
		t.Errorf("the App has %d bytes, valid UTF-8: %t, error %v", len(body), utf8.Valid(body), err)
	}
}

// TestLargeApp: beside an App that is nearly as large as etcd takes there is no room
// for what tools print, but for the outcome there is.
func TestLargeApp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	files := map[string]string{"a.yml": loud(20_000) + "---\n" + cm("large")}
	for i := range 1400 {
		files[fmt.Sprintf("f%d.txt", i)] = strings.Repeat("x", 1000)
	}
	app := &v1alpha1.App{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "large"}}
	app.Spec.ServiceAccountName = "deployer"
	app.Spec.Fetch = []v1alpha1.AppFetch{{Inline: &v1alpha1.AppFetchInline{Paths: files}}}
	app.Spec.Template = []v1alpha1.AppTemplate{{Ytt: &v1alpha1.AppTemplateYtt{}}}
	app.Spec.Deploy = []v1alpha1.AppDeploy{{Kapp: &v1alpha1.AppDeployKapp{}}}
	body, err := json.Marshal(app)
	if err != nil {
		t.Fatal(err)
	}
	// What the managed fields take is not known; it is about as much per file as
	// its name.
	files["fill.txt"] = strings.Repeat("x", 1_585_000-len(body)-45_000)
	if err := kube.Create(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	if app := w.succeeded("large"); len(app.Status.Template.Stderr) > 4<<10 {
		t.Errorf("there was room for %d bytes: the test's App is too small", len(app.Status.Template.Stderr))
	}
	w.configMap("large")
	w.delete("large")
	w.gone("large")
}

// TestNoStaleMessage: from the first write for a new generation on, nothing shows
// the error of the one before.
func TestNoStaleMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.app("stale", yttApp(map[string]string{"a.yml": "#@ first_error"}))
	w.failed("stale")
	apps := env.Dynamic.Resource(schema.GroupVersionResource{Group: "kappctrl.k14s.io", Version: "v1alpha1", Resource: "apps"}).Namespace(w.ns)
	events, err := apps.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	w.app("stale", yttApp(map[string]string{"a.yml": cm("stale"), "b.yml": deployment("stale", "")}))
	w.succeeded("stale")
	seen := 0
	for e := range events.ResultChan() {
		app := typed(t, e)
		if app.Generation != 2 || app.Status.ObservedGeneration != 2 {
			continue
		}
		seen++
		for _, text := range append([]string{app.Status.UsefulErrorMessage, app.Status.FriendlyDescription}, app.Status.Conditions[0].Message) {
			if text != "" && strings.Contains(text, "first_error") || app.Status.Conditions[0].Type == v1alpha1.ReconcileFailed {
				t.Errorf("a write for generation 2 says %+v %q", app.Status.GenericStatus, text)
			}
		}
		if ended(app, v1alpha1.ReconcileSucceeded) == "" {
			break
		}
	}
	if seen == 0 {
		t.Error("no write was seen")
	}
}

func typed(t *testing.T, e watch.Event) *v1alpha1.App {
	t.Helper()
	obj, ok := e.Object.(*unstructured.Unstructured)
	app := &v1alpha1.App{}
	if !ok {
		t.Fatalf("event %+v", e)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, app); err != nil {
		t.Fatal(err)
	}
	return app
}

// TestAliases: a chart of 100 KB that would become 300 MB in the controller.
func TestAliases(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bomb := cm("bomb") + "  long: &l " + strings.Repeat("x", 40_000) + "\nmore: [" + strings.Repeat("*l,", 500) + "]\n"
	w.app("bomb", "fetch:\n"+inline(map[string]string{"Chart.yaml": "apiVersion: v2\nname: c\nversion: 1.0.0\n", "templates/a.yaml": bomb})+
		"template: [{helmTemplate: {}}]\ndeploy: [{kapp: {}}]\n")
	app := w.failed("bomb")
	checkFailure(t, app, "deploy", seeUseful("Deploying: "), []string{"aliases (*name) make this YAML more than 16 MiB larger than it is"})
}

func seeUseful(prefix string) string {
	return prefix + "Error (see .status.usefulErrorMessage for details)"
}

// TestMessagesAreStable: the same failure reads the same at each try, and tells
// nothing of the machine.
func TestMessagesAreStable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	modules := file(".gitmodules", "[submodule \"x\"]\n\tpath = x\n\turl = file:///etc\n")
	commit := must[string](t)(servers.Git.Commit(t.Context(), "stable", modules, "first"))
	must[string](t)(servers.Git.AddSubmodule(t.Context(), "stable", "x", commit))
	w.app("long", gitApp(servers.Git.RepoURL("stable"), "ref: origin/main"))
	w.app("long-name", yttApp(map[string]string{strings.Repeat("x", 300) + ".yml": "a: 1"}))
	first := w.failed("long")
	second := w.until("long", func(a *v1alpha1.App) string {
		if a.Status.ConsecutiveReconcileFailures < 2 || ended(a, v1alpha1.ReconcileFailed) != "" {
			return "not tried again"
		}
		return ""
	})
	if was, is := first.Status.UsefulErrorMessage, second.Status.UsefulErrorMessage; was != is {
		t.Errorf("two tries say\n%s\n%s", was, is)
	}
	if strings.Contains(second.Status.UsefulErrorMessage, garboard.SidecarWorkDir) || !strings.Contains(second.Status.UsefulErrorMessage, "into submodule path 'src/.vendir-tmp-*/") {
		t.Errorf("the message is %q", second.Status.UsefulErrorMessage)
	}
	if problem := contains(w.failed("long-name").Status.UsefulErrorMessage, "a name is longer than 255 bytes"); problem != "" {
		t.Error(problem)
	}
}

// TestOddManifests: what no cluster takes fails with a message; what only looks
// odd is deployed.
func TestOddManifests(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason   string
		manifest string
		useful   string // "" succeeds
	}{
		"List":         {"a list is its items", `{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: ConfigMap, metadata: {name: good}}]}`, ""},
		"LineEnds":     {"of another system", strings.ReplaceAll(cm("good", "k", "v"), "\n", "\r\n"), ""},
		"Tabs":         {"the place is named", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: good}\ndata:\n\tk: v\n", "line 5: found character that cannot start any token"},
		"Version":      {"kapp panics on it", `{apiVersion: a/b/c, kind: ConfigMap, metadata: {name: x}}`, "a/b/c"},
		"NoName":       {"", `{apiVersion: v1, kind: ConfigMap, metadata: null}`, "Expected 'metadata.name'"},
		"Array":        {"", `[1, 2]`, "array"},
		"UnknownRule":  {"of kapp's configuration", cm("good") + "---\napiVersion: kapp.k14s.io/v1alpha1\nkind: Config\nrebaseRules: [{path: [x], type: nope, resourceMatchers: [{allMatcher: {}}]}]\n", "Unknown rebase rule type: nope"},
		"EmptyMatcher": {"", cm("good") + "---\napiVersion: kapp.k14s.io/v1alpha1\nkind: Config\nrebaseRules: [{path: [x], type: copy, sources: [new], resourceMatchers: [{}]}]\n", "Unknown resource matcher"},
		"OwnNamespace": {"an App may hold its own namespace's objects", "", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			manifest := c.manifest
			if name == "OwnNamespace" {
				manifest = `{apiVersion: v1, kind: ServiceAccount, metadata: {name: deployer}}`
			}
			w.app("odd", yttApp(map[string]string{"a.yml": manifest}))
			if c.useful == "" {
				w.succeeded("odd")
				return
			}
			if problem := contains(w.failed("odd").Status.UsefulErrorMessage, c.useful); problem != "" {
				t.Errorf("%s: %s", c.reason, problem)
			}
		})
	}
}

// TestSecretsStayHidden: what an App's Secrets hold is in no status, event or log,
// whatever fails on it.
func TestSecretsStayHidden(t *testing.T) {
	t.Parallel()
	const password, token = "Topsecret-pw-99", "tok3n/with+signs=="
	w := newWorld(t)
	w.apply(fmt.Sprintf(`
apiVersion: v1
kind: Secret
metadata: {name: values}
stringData:
  values.yml: "password: %s\n"
---
apiVersion: v1
kind: Secret
metadata: {name: login}
stringData: {username: robot, password: %q}
---
apiVersion: v1
kind: Secret
metadata: {name: cluster}
stringData:
  value: |
    apiVersion: v1
    kind: Config
    current-context: c
    contexts: [{name: c, context: {cluster: c, user: u}}]
    clusters: [{name: c, cluster: {server: 'https://us%%er:%s@127.0.0.1:1'}}]
    users: [{name: u, user: {token: %q}}]
`, password, token, password, token))
	values := "#@data/values-schema\n---\npassword: ''\n"
	load := "#@ load('@ytt:data', 'data')\n"
	specs := map[string]string{
		"refused-name": "fetch:\n" + inline(map[string]string{"v.yml": values, "a.yml": load + "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: #@ data.values.password + '_NO'\n"}) +
			"template: [{ytt: {valuesFrom: [{secretRef: {name: values}}]}}]\ndeploy: [{kapp: {}}]\n",
		"template-fails": "fetch:\n" + inline(map[string]string{"v.yml": values, "a.yml": load + "#@ fail('got ' + data.values.password)\n"}) +
			"template: [{ytt: {valuesFrom: [{secretRef: {name: values}}]}}]\ndeploy: [{kapp: {}}]\n",
		"git": fmt.Sprintf("fetch: [{git: {url: %q, ref: origin/main, secretRef: {name: login}}}]\n", servers.PrivateGit.RepoURL("nothere")) + deployAll,
		// vendir tells the arguments of git: a header with the login must not be among them.
		"git-basic": fmt.Sprintf("fetch: [{git: {url: %q, ref: origin/main, forceHTTPBasicAuth: true, secretRef: {name: login}}}]\n", servers.TLSGit.RepoURL("nothere")) + deployAll,
		"git-url":   fmt.Sprintf("fetch: [{git: {url: 'http://robot:%s@127.0.0.1:1/x.git', ref: origin/main}}]\n", password) + deployAll,
		"http-url":  fmt.Sprintf("fetch: [{http: {url: 'http://robot:%s@127.0.0.1:1/x'}}]\n", password) + deployAll,
		"image":     fmt.Sprintf("fetch: [{image: {url: %q, secretRef: {name: login}}}]\n", servers.PrivateRegistry.Host()+"/x/y") + deployAll,
	}
	for name, spec := range specs {
		w.app(name, spec)
	}
	w.apply("apiVersion: kappctrl.k14s.io/v1alpha1\nkind: App\nmetadata: {name: cluster}\nspec:\n  cluster: {kubeconfigSecretRef: {name: cluster}}\n" + indent(yttApp(map[string]string{"a.yml": cm("x")})))
	hidden := []string{password, strings.ToLower(password), token, base64.StdEncoding.EncodeToString([]byte("robot:" + token)), "dG9rM24vd2l0aCtzaWducz09", "VG9wc2VjcmV0LXB3LTk5", "tok3n%2Fwith%2Bsigns%3D%3D"}
	check := func(where, text string) {
		t.Helper()
		for _, secret := range hidden {
			if i := strings.Index(text, secret); i >= 0 {
				t.Errorf("%s shows %q: ...%s", where, secret, text[max(0, i-200):i+len(secret)])
			}
		}
	}
	for _, name := range append([]string{"cluster"}, slices.Sorted(maps.Keys(specs))...) {
		body, err := json.Marshal(w.failed(name).Status)
		if err != nil {
			t.Fatal(err)
		}
		check("status of "+name, string(body))
	}
	events, err := env.Core.CoreV1().Events(corev1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events.Items {
		check("event", e.Message)
	}
	check("log of the controller", garboard.Controller.LogTail(1_000_000))
	check("log of the sidecar", garboard.Sidecar.LogTail(1_000_000))
}
