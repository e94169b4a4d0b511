package e2e

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
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

// TestNamespaces: where objects go that name no namespace, and where all go.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		spec   string
		deploy string
		// where is "own" or "other".
		where string
	}{
		"Own":     {"the App's namespace by default", "", "{}", "own"},
		"Default": {"the default that the spec gives", "defaultNamespace: ${OTHER}\n", "{}", "other"},
		"Into":    {"every object is moved", "", "{intoNs: '${OTHER}'}", "other"},
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

// TestAppNamespaceGoes: a namespace with Apps in it can be deleted as a whole,
// although the service account may go before them.
func TestAppNamespaceGoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{"one", "two"} {
		w.app(name, yttApp(map[string]string{"a.yml": cm(name + "-config")}))
	}
	w.succeeded("one")
	w.succeeded("two")
	ns := &corev1.Namespace{}
	ns.Name = w.ns
	if err := kube.Delete(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, patience, func(ctx context.Context) string {
		if err := kube.Get(ctx, client.ObjectKey{Name: w.ns}, ns); client.IgnoreNotFound(err) != nil || err == nil {
			return fmt.Sprintf("namespace is still there: %v %+v", err, ns.Status.Conditions)
		}
		return ""
	})
}
