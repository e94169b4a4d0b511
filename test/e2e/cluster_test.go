package e2e

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/test/testenv"
)

// TestKubeconfig: an App that deploys through a kubeconfig has its rights and its
// namespace, fails clearly without it, and takes up a new one at once.
func TestKubeconfig(t *testing.T) {
	t.Parallel()
	home, target := newWorld(t), newWorld(t)
	spec := func(extra string) string {
		return "apiVersion: kappctrl.k14s.io/v1alpha1\nkind: App\nmetadata: {name: remote}\nspec:\n  syncPeriod: 10h\n  cluster: {namespace: " + target.ns +
			", kubeconfigSecretRef: {name: kubeconfig}}\n" + extra + indent(yttApp(map[string]string{"a.yml": cm("remote-config", "v", "1")}))
	}
	home.apply(spec(""))
	app := home.failed("remote")
	checkFailure(t, app, "deploy", `Preparing kapp: Getting kubeconfig secret: secrets "kubeconfig" not found`, nil)

	home.apply("{apiVersion: v1, kind: Secret, metadata: {name: kubeconfig}, stringData: {value: 'not: a kubeconfig'}}")
	home.until("remote", func(a *v1alpha1.App) string {
		return contains(a.Status.FriendlyDescription, "Preparing kapp: Expected to find at least one cluster in kubeconfig")
	})

	kubeconfig, err := env.ServiceAccountKubeconfig(t.Context(), target.ns, "deployer")
	if err != nil {
		t.Fatal(err)
	}
	home.apply(fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {name: kubeconfig}, stringData: {value: %q}}", string(kubeconfig)))
	home.succeeded("remote")
	target.wantConfigMap("remote-config", map[string]string{"v": "1"})
	home.noConfigMap("remote-config")
	// kapp's record is in the target, where its own CLI looks for it.
	target.configMap("remote.app")

	home.delete("remote")
	home.gone("remote")
	target.noConfigMap("remote-config")
}

// TestNamespaces: objects are moved from namespace to namespace as the deploy says.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		spec   string
		deploy string
		// where is "own" or "other".
		where string
	}{
		"Into":    {"every object is moved", "", "{intoNs: '${OTHER}'}", "other"},
		"IntoNot": {"not even objects that name a namespace stay", "defaultNamespace: ${OTHER}\n", "{intoNs: '${OWN}'}", "own"},
		"Map":     {"objects of one namespace are moved", "", "{mapNs: ['${OWN}=${OTHER}']}", "other"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			own, other := newWorld(t), newWorld(t)
			other.apply(fmt.Sprintf(`
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: guest}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: deployer}
subjects: [{kind: ServiceAccount, name: deployer, namespace: %s}]
`, own.ns))
			fill := func(s string) string { return replaceAll(s, "${OWN}", own.ns, "${OTHER}", other.ns) }
			own.app("a", fill(c.spec)+"fetch:\n"+inline(map[string]string{"a.yml": cm("placed", "v", "1")})+
				"template: [{ytt: {}}]\ndeploy: [{kapp: "+fill(c.deploy)+"}]\n")
			own.succeeded("a")
			in, notIn := own, other
			if c.where == "other" {
				in, notIn = other, own
			}
			in.wantConfigMap("placed", map[string]string{"v": "1"})
			notIn.noConfigMap("placed")
			own.configMap("a.app")
		})
	}
}

// deleteNamespace asks for the end of the world's namespace and does not wait for it.
func (w world) deleteNamespace() {
	w.Helper()
	ns := &corev1.Namespace{}
	ns.Name = w.ns
	if err := kube.Delete(w.Context(), ns); err != nil {
		w.Fatal(err)
	}
}

// namespaceGone waits until the namespace is gone.
func (w world) namespaceGone() {
	w.Helper()
	testenv.Eventually(w, patience, func(ctx context.Context) string {
		ns := &corev1.Namespace{}
		if err := kube.Get(ctx, client.ObjectKey{Name: w.ns}, ns); client.IgnoreNotFound(err) != nil || err == nil {
			return fmt.Sprintf("namespace is still there: %v %+v", err, ns.Status.Conditions)
		}
		return ""
	})
}

// TestNamespaceGoes: a namespace with Apps in it can be deleted as a whole, whatever
// goes first. Only what is elsewhere may stay, if nobody is left who may delete it.
func TestNamespaceGoes(t *testing.T) {
	t.Parallel()
	const elsewhere = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a-config, namespace: ${OTHER}}\n"
	const cluster = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: ${OTHER}}\nrules: []\n"
	account := func(own, _ world) {
		err := env.Core.CoreV1().ServiceAccounts(own.ns).Delete(own.Context(), "deployer", metav1.DeleteOptions{})
		if err != nil {
			own.Fatal(err)
		}
	}
	cases := map[string]struct {
		reason   string
		manifest string
		first    func(own, other world) // goes before the namespace; nil is nothing
		// left and gone name ConfigMaps of the other namespace.
		left, gone bool
	}{
		"Own":             {"all goes at once", cm("a-config"), nil, false, false},
		"OwnAccountFirst": {"the account is already gone", cm("a-config"), account, false, false},
		"RoleFirst": {"or only its rights", cm("a-config"), func(own, _ world) {
			if err := env.Core.RbacV1().RoleBindings(own.ns).Delete(own.Context(), "deployer", metav1.DeleteOptions{}); err != nil {
				own.Fatal(err)
			}
		}, false, false},
		"Elsewhere":          {"whether the account still is there when the App is deleted, nobody knows", elsewhere, nil, false, false},
		"ElsewhereNoAccount": {"nobody is left who may delete what is elsewhere", elsewhere, account, true, false},
		"Both":               {"the other namespace goes too", elsewhere, func(_, other world) { other.deleteNamespace() }, false, false},
		"AppFirst": {"the App, then its namespace", elsewhere, func(own, _ world) {
			own.delete("a")
			own.gone("a")
		}, false, true},
		"Cluster": {"objects without a namespace", cluster, account, false, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			own, other := newWorld(t), newWorld(t)
			other.admits(own)
			if c.manifest == cluster {
				if err := env.BindClusterAdmin(t.Context(), own.ns, "deployer"); err != nil {
					t.Fatal(err)
				}
			}
			own.app("a", yttApp(map[string]string{"a.yml": replaceAll(c.manifest, "${OTHER}", other.ns)}))
			own.succeeded("a")
			if c.first != nil {
				c.first(own, other)
			}
			own.deleteNamespace()
			own.namespaceGone()
			if c.left {
				other.configMap("a-config")
			}
			if c.gone {
				other.noConfigMap("a-config")
			}
		})
	}
}

// TestForeignNamespaceGoes: the App stays, though a namespace that it deploys to was
// deleted. It says so, and recovers when the namespace is there again.
func TestForeignNamespaceGoes(t *testing.T) {
	t.Parallel()
	own, other := newWorld(t), newWorld(t)
	if err := env.BindClusterAdmin(t.Context(), own.ns, "deployer"); err != nil {
		t.Fatal(err)
	}
	own.app("a", yttApp(map[string]string{"a.yml": cm("own-config") + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a-config, namespace: " + other.ns + "}\n"}))
	own.succeeded("a")
	// A finalizer holds the namespace in its end.
	held := other.record("a-config")
	held.Finalizers = []string{"garboard.dev/held"}
	if err := kube.Update(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	other.deleteNamespace()
	own.app("a", yttApp(map[string]string{"a.yml": cm("own-config") + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b-config, namespace: " + other.ns + "}\n"}))
	app := own.failed("a")
	explained(t, app, "because it is being terminated", []string{"namespace " + other.ns + " is being deleted"})

	held = other.record("a-config")
	held.Finalizers = nil
	if err := kube.Update(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	other.namespaceGone()
	own.delete("a")
	own.gone("a")
	own.noConfigMap("own-config")
}
