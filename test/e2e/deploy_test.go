package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/test/testenv"
)

// record is what kapp keeps of an App, and the labels of that.
func (w world) record(name string) *corev1.ConfigMap {
	w.Helper()
	cm := &corev1.ConfigMap{}
	if err := kube.Get(w.Context(), client.ObjectKey{Namespace: w.ns, Name: name}, cm); err != nil {
		w.Fatal(err)
	}
	return cm
}

// admits lets the service account of another world do everything in this one.
func (w world) admits(other world) {
	w.Helper()
	w.apply(fmt.Sprintf(`
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: guest-%[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: deployer}
subjects: [{kind: ServiceAccount, name: deployer, namespace: %[1]s}]
`, other.ns))
}

// kubeconfig stores a kubeconfig of the service account in a Secret, under key, with
// namespace in its context.
func (w world) kubeconfig(secret, key, namespace string) {
	w.Helper()
	data, err := env.ServiceAccountKubeconfig(w.Context(), w.ns, "deployer")
	if err != nil {
		w.Fatal(err)
	}
	cfg, err := clientcmd.Load(data)
	if err != nil {
		w.Fatal(err)
	}
	cfg.Contexts[cfg.CurrentContext].Namespace = namespace
	if data, err = clientcmd.Write(*cfg); err != nil {
		w.Fatal(err)
	}
	w.apply(fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {name: %s}, stringData: {%s: %q}}", secret, key, string(data)))
}

// TestPlaces: where objects go that name no namespace, and where kapp's record is, for
// each way to say so. A is the App's namespace, B and C are others.
func TestPlaces(t *testing.T) {
	t.Parallel()
	const secret = "kubeconfigSecretRef: {name: kubeconfig, key: config}"
	cases := map[string]struct {
		reason  string
		spec    string
		objects string
		records string
	}{
		"Account":          {"the App's namespace holds both", "serviceAccountName: deployer", "A", "A"},
		"AccountDefault":   {"only objects go elsewhere", "serviceAccountName: deployer\ndefaultNamespace: ${B}", "B", "A"},
		"AccountWins":      {"over a cluster", "serviceAccountName: deployer\ncluster: {namespace: ${B}, " + secret + "}", "A", "A"},
		"Cluster":          {"its namespace holds both", "cluster: {namespace: ${B}, " + secret + "}", "B", "B"},
		"ClusterDefault":   {"only objects go elsewhere", "cluster: {namespace: ${B}, " + secret + "}\ndefaultNamespace: ${A}", "A", "B"},
		"Context":          {"the kubeconfig's context holds both", "cluster: {" + secret + "}", "C", "C"},
		"ContextAndObject": {"only objects go elsewhere", "cluster: {" + secret + "}\ndefaultNamespace: ${B}", "B", "C"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b, ctx := newWorld(t), newWorld(t), newWorld(t)
			b.admits(a)
			ctx.admits(a)
			a.kubeconfig("kubeconfig", "config", ctx.ns)
			fill := func(s string) string { return replaceAll(s, "${A}", a.ns, "${B}", b.ns) }
			a.apply("apiVersion: kappctrl.k14s.io/v1alpha1\nkind: App\nmetadata: {name: a}\nspec:\n" +
				indent(fill(c.spec)+"\n"+yttApp(map[string]string{"a.yml": cm("placed")})))
			app := a.succeeded("a")
			worlds := map[string]world{"A": a, "B": b, "C": ctx}
			for place, w := range worlds {
				for object, want := range map[string]string{"placed": c.objects, "a.app": c.records} {
					if place == want {
						w.configMap(object)
					} else {
						w.noConfigMap(object)
					}
				}
			}
			if got, want := app.Status.Deploy.KappDeployStatus.AssociatedResources.Namespaces, []string{worlds[c.objects].ns}; !slices.Equal(got, want) {
				t.Errorf("%s: associated namespaces %v, want %v", c.reason, got, want)
			}
			a.delete("a")
			a.gone("a")
			worlds[c.objects].noConfigMap("placed")
			worlds[c.records].noConfigMap("a.app")
		})
	}
}

// TestRawOptions is not parallel: it changes the configuration of the shared
// controller. Options of the administrator come first, so those of the App win, and
// options that may repeat add up.
func TestRawOptions(t *testing.T) {
	w := newWorld(t)
	configure(t, map[string]string{"kappDeployRawOptions": `["--labels=from=global", "--diff-changes=true"]`}, accepted)
	defer unconfigure(t)
	spec := func(options string) string {
		return strings.Replace(yttApp(map[string]string{"a.yml": cm("a-config")}), "kapp: {}", "kapp: {rawOptions: ["+options+"]}", 1)
	}
	w.app("a", spec("--labels=own=yes"))
	app := w.succeeded("a")
	labels := w.record("a.app").Labels
	if labels["from"] != "global" || labels["own"] != "yes" {
		t.Errorf("the record has labels %v", labels)
	}
	if problem := contains(app.Status.Deploy.Stdout, "@@ create configmap/a-config (v1) namespace: "+w.ns); problem != "" {
		t.Error("no diff:", problem)
	}
	w.app("b", strings.ReplaceAll(spec("--diff-changes=false"), "a-config", "b-config"))
	if out := w.succeeded("b").Status.Deploy.Stdout; strings.Contains(out, "@@ create") {
		t.Errorf("the App's own option does not win:\n%s", out)
	}
	for option, want := range map[string]string{
		"--kubeconfig=/x": "Unexpected flag '--kubeconfig' specified (either forbidden or unknown)",
		"--wait":          "Expected flag '--wait' to be in '--name=val' format",
	} {
		w.app("a", spec(option))
		app := w.until("a", func(a *v1alpha1.App) string {
			if problem := ended(a, v1alpha1.ReconcileFailed); problem != "" {
				return problem
			}
			return contains(a.Status.FriendlyDescription, want)
		})
		checkFailure(t, app, "deploy", want, []string{want})
	}
}

// TestDeleteOptions: options of the delete are its own: they are checked when the App
// is deleted, and a filter leaves what it does not match.
func TestDeleteOptions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.app("a", strings.Replace(yttApp(map[string]string{"a.yml": cm("goes") + "---\n" + cm("stays")}), "kapp: {}", "kapp: {delete: {rawOptions: [--logs=true]}}", 1))
	w.succeeded("a")
	w.delete("a")
	const want = "Unexpected flag '--logs' specified (either forbidden or unknown)"
	w.until("a", func(a *v1alpha1.App) string {
		return contains(a.Status.FriendlyDescription, "Delete failed: "+want)
	})
	w.edit("a", func(a *v1alpha1.App) {
		a.Spec.Deploy[0].Kapp.Delete.RawOptions = []string{"--filter-name=goes"}
	})
	w.gone("a")
	w.noConfigMap("goes")
	w.configMap("stays")
	// kapp keeps the record of what it left.
	w.configMap("a.app")
}

// TestInspect: what is deployed is listed when asked for, as the options say, and the
// list goes when nobody asks any more.
func TestInspect(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	set := func(inspect string) *v1alpha1.App {
		w.app("a", strings.Replace(yttApp(map[string]string{"a.yml": deployment("web", "")}), "kapp: {}", "kapp: {"+inspect+"}", 1))
		return w.succeeded("a")
	}
	s := set("inspect: {}").Status.Inspect
	if s == nil || s.ExitCode != 0 || s.Error != "" {
		t.Fatalf("inspect %+v", s)
	}
	for _, part := range []string{"Target cluster 'https://", "Resources in app 'a.app'", "  Deployment  ", "  ReplicaSet  ", "  Pod  ", "Rs: Reconcile state", "3 resources", "Succeeded"} {
		if problem := contains(s.Stdout, part); problem != "" {
			t.Error(problem)
		}
	}
	s = set("inspect: {rawOptions: [--json=true]}").Status.Inspect
	var doc struct {
		Tables []struct{ Rows []map[string]string }
	}
	if err := json.Unmarshal([]byte(s.Stdout), &doc); err != nil || len(doc.Tables) != 1 || len(doc.Tables[0].Rows) != 3 {
		t.Errorf("%v: %+v in %s", err, doc, s.Stdout)
	}
	s = set("inspect: {rawOptions: [--wait=true]}").Status.Inspect
	if s.Error != "Unexpected flag '--wait' specified (either forbidden or unknown)" {
		t.Errorf("an inspect that fails, which fails no App: %+v", s)
	}
	if s = set("").Status.Inspect; s != nil {
		t.Errorf("left: %+v", s)
	}
}

// TestKubeconfigSecret: which key counts, and that what would act on the controller's
// machine is refused with words.
func TestKubeconfigSecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.kubeconfig("kubeconfig", "elsewhere", w.ns)
	spec := func(ref string) string {
		return "apiVersion: kappctrl.k14s.io/v1alpha1\nkind: App\nmetadata: {name: remote}\nspec:\n  cluster: {namespace: " + w.ns + ", kubeconfigSecretRef: " + ref + "}\n" +
			indent(yttApp(map[string]string{"a.yml": cm("remote-config")}))
	}
	w.apply(spec("{name: kubeconfig}"))
	checkFailure(t, w.failed("remote"), "deploy", "Preparing kapp: Expected to find key 'value' in secret (keys: elsewhere)", nil)
	w.apply(spec("{name: kubeconfig, key: elsewhere}"))
	w.succeeded("remote")
	w.configMap("remote-config")

	w.apply(fmt.Sprintf(`{apiVersion: v1, kind: Secret, metadata: {name: program}, stringData: {value: %q}}`, `
apiVersion: v1
kind: Config
current-context: c
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: touch, args: [/tmp/run], interactiveMode: Never}}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
`))
	w.apply(spec("{name: program}"))
	checkFailure(t, w.failed("remote"), "deploy", "Preparing kapp: Building Kubernetes config: user 'u' of the kubeconfig has only exec, which is not used here", nil)
}

// TestAccountComesLater: an App whose service account is not there yet fails, and
// succeeds by itself when it comes.
func TestAccountComesLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply("apiVersion: kappctrl.k14s.io/v1alpha1\nkind: App\nmetadata: {name: early}\nspec:\n  serviceAccountName: later\n" +
		indent(yttApp(map[string]string{"a.yml": cm("early")})))
	checkFailure(t, w.failed("early"), "deploy", `Preparing kapp: Getting service account: serviceaccounts "later" not found`, nil)
	w.apply(`
apiVersion: v1
kind: ServiceAccount
metadata: {name: later}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: later}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: deployer}
subjects: [{kind: ServiceAccount, name: later}]
`)
	w.succeeded("early")
	w.configMap("early")
}

// TestAssociatedResources: how to find what was deployed: kept when a deploy fails
// before it changes anything, and of the objects of the latest that did.
func TestAssociatedResources(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	associated := func(app *v1alpha1.App) v1alpha1.AssociatedResources {
		if app.Status.Deploy == nil || app.Status.Deploy.KappDeployStatus == nil {
			return v1alpha1.AssociatedResources{}
		}
		return app.Status.Deploy.KappDeployStatus.AssociatedResources
	}
	w.app("a", yttApp(map[string]string{"a.yml": "{apiVersion: example.com/v1, kind: Nope, metadata: {name: x}}"}))
	if got := associated(w.failed("a")); got.Label != "" {
		t.Errorf("nothing was deployed, yet %+v", got)
	}
	w.app("a", yttApp(map[string]string{"a.yml": cm("a-config")}))
	first := associated(w.succeeded("a"))
	if !strings.HasPrefix(first.Label, "kapp.k14s.io/app=") || !slices.Equal(first.Namespaces, []string{w.ns}) ||
		!cmp.Equal(first.GroupKinds, []v1alpha1.GroupKind{{Kind: "ConfigMap"}}) {
		t.Errorf("associated %+v", first)
	}
	list, err := env.Core.CoreV1().ConfigMaps(w.ns).List(t.Context(), metav1.ListOptions{LabelSelector: first.Label})
	if err != nil || len(list.Items) != 1 || list.Items[0].Name != "a-config" {
		t.Errorf("the label finds %v, %v", list.Items, err)
	}
	w.app("a", yttApp(map[string]string{"a.yml": "{apiVersion: example.com/v1, kind: Nope, metadata: {name: x}}"}))
	if got := associated(w.failed("a")); !cmp.Equal(got, first) {
		t.Errorf("after a failure: %+v, want %+v", got, first)
	}
	w.app("a", yttApp(map[string]string{"a.yml": "{apiVersion: v1, kind: ServiceAccount, metadata: {name: a-account}}"}))
	got := associated(w.succeeded("a"))
	if got.Label != first.Label || !cmp.Equal(got.GroupKinds, []v1alpha1.GroupKind{{Kind: "ServiceAccount"}}) {
		t.Errorf("after a change: %+v", got)
	}
	w.noConfigMap("a-config")
}

// TestHistory: kapp keeps the latest changes of an App, and not more.
func TestHistory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 7 {
		w.app("a", yttApp(map[string]string{"a.yml": cm("a-config", "v", fmt.Sprint(i))}))
		w.succeeded("a")
	}
	list, err := env.Core.CoreV1().ConfigMaps(w.ns).List(t.Context(), metav1.ListOptions{LabelSelector: "kapp.k14s.io/is-app-change,kapp.k14s.io/app-change-app=a.app"})
	if err != nil || len(list.Items) != 5 {
		t.Errorf("%d changes are kept, %v", len(list.Items), err)
	}
}

// TestOldName: the record of an App that a much older kapp-controller deployed has
// another name. It is renamed, and the App is not deployed anew.
func TestOldName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.app("a", yttApp(map[string]string{"a.yml": cm("a-config")}))
	w.succeeded("a")
	uid := func() string {
		cm := w.record("a-config")
		return string(cm.UID) + cm.ResourceVersion
	}
	before, record := uid(), w.record("a.app")
	w.edit("a", func(a *v1alpha1.App) { a.Spec.NoopDelete = true })
	w.delete("a")
	w.gone("a")
	if err := kube.Delete(t.Context(), record.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	old := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "a-ctrl", Labels: record.Labels, Annotations: record.Annotations}, Data: record.Data}
	if err := kube.Create(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	w.app("a", yttApp(map[string]string{"a.yml": cm("a-config")}))
	w.succeeded("a")
	w.noConfigMap("a-ctrl")
	if got := w.record("a.app").Data["spec"]; got != record.Data["spec"] {
		t.Errorf("the record says %s, want %s", got, record.Data["spec"])
	}
	if after := uid(); after != before {
		t.Error("what was deployed was written again")
	}
	w.delete("a")
	w.gone("a")
	w.noConfigMap("a-config")
	testenv.Eventually(t, patience, func(ctx context.Context) string {
		err := kube.Get(ctx, client.ObjectKey{Namespace: w.ns, Name: "a.app"}, &corev1.ConfigMap{})
		if apierrors.IsNotFound(err) {
			return ""
		}
		return fmt.Sprintf("the record is left: %v", err)
	})
}
