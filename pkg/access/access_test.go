package access_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/garboard-dev/garboard/pkg/access"
	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/test/testenv"
)

var env *testenv.Env

func TestMain(m *testing.M) { testenv.Main(m, &env, testenv.Options{}) }

func newResolver(now func() time.Time) *access.Resolver {
	return access.New(env.Config(), env.Core, access.Options{Now: now})
}

func addAccount(t *testing.T, namespace string) {
	t.Helper()
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "sa"}}
	if _, err := env.Core.CoreV1().ServiceAccounts(namespace).Create(t.Context(), sa, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func addSecret(t *testing.T, namespace, name, key string, data []byte) {
	t.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{key: data}}
	if _, err := env.Core.CoreV1().Secrets(namespace).Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// whoAmI asks the API server for the user behind a target.
func whoAmI(t *testing.T, target access.Target) (string, error) {
	t.Helper()
	client, err := kubernetes.NewForConfigAndClient(target.Config, target.HTTP)
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.CoreV1().Secrets("kube-system").List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) {
		return "", err
	}
	_, rest, _ := strings.Cut(err.Error(), `User "`)
	user, _, _ := strings.Cut(rest, `"`)
	return user, nil
}

// kubeconfig returns one for the service account, with changes.
func kubeconfig(t *testing.T, namespace string, change func(*clientcmdapi.Config)) []byte {
	t.Helper()
	data, err := env.ServiceAccountKubeconfig(t.Context(), namespace, "sa")
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := clientcmd.Load(data)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(cfg)
	}
	if data, err = clientcmd.Write(*cfg); err != nil {
		t.Fatal(err)
	}
	return data
}

func inNamespace(namespace string) func(*clientcmdapi.Config) {
	return func(c *clientcmdapi.Config) { c.Contexts[c.CurrentContext].Namespace = namespace }
}

func TestNamespaces(t *testing.T) {
	ns := env.Namespace(t)
	addAccount(t, ns)
	addSecret(t, ns, "named", "value", kubeconfig(t, ns, inNamespace("ctx")))
	addSecret(t, ns, "unnamed", "value", kubeconfig(t, ns, inNamespace("")))
	cluster := func(namespace, secret string) *v1alpha1.AppCluster {
		return &v1alpha1.AppCluster{Namespace: namespace, KubeconfigSecretRef: &v1alpha1.AppClusterKubeconfigSecretRef{Name: secret}}
	}
	type where struct{ Namespace, AppNamespace string }
	tests := map[string]struct {
		reason string
		req    access.Request
		want   where
	}{
		"ServiceAccount":        {"the App's namespace holds both", access.Request{ServiceAccountName: "sa"}, where{ns, ns}},
		"ServiceAccountDefault": {"only objects go elsewhere", access.Request{ServiceAccountName: "sa", DefaultNamespace: "def"}, where{"def", ns}},
		"ServiceAccountWins":    {"over a cluster", access.Request{ServiceAccountName: "sa", Cluster: cluster("x", "named")}, where{ns, ns}},
		"Cluster":               {"its namespace holds both", access.Request{Cluster: cluster("clu", "named")}, where{"clu", "clu"}},
		"ClusterDefault":        {"only objects go elsewhere", access.Request{Cluster: cluster("clu", "named"), DefaultNamespace: "def"}, where{"def", "clu"}},
		"Context":               {"the context's namespace", access.Request{Cluster: cluster("", "named")}, where{"ctx", ""}},
		"NoContext":             {"the context names none", access.Request{Cluster: cluster("", "unnamed")}, where{"default", ""}},
		"ContextDefault":        {"records stay in the context's", access.Request{Cluster: cluster("", "named"), DefaultNamespace: "def"}, where{"def", "ctx"}},
		"NoContextDefault":      {"records stay in default", access.Request{Cluster: cluster("", "unnamed"), DefaultNamespace: "def"}, where{"def", "default"}},
	}
	r := newResolver(nil)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tc.req.Namespace = ns
			target, err := r.Resolve(t.Context(), tc.req)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, where{target.Namespace, target.AppNamespace}); d != "" {
				t.Errorf("%s: %s", tc.reason, d)
			}
			user, err := whoAmI(t, target)
			if want := "system:serviceaccount:" + ns + ":sa"; err != nil || user != want {
				t.Errorf("acts as %q, %v; want %s", user, err, want)
			}
			if again, err := r.Resolve(t.Context(), tc.req); err != nil || again.HTTP != target.HTTP {
				t.Errorf("the client is not shared, %v", err)
			}
			if target.Config.BearerToken != "" || target.Config.QPS != -1 || !strings.HasPrefix(target.Config.UserAgent, "kapp/") {
				t.Errorf("configuration %v", target.Config)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	ns := env.Namespace(t)
	addAccount(t, ns)
	addSecret(t, ns, "empty", "value", nil)
	addSecret(t, ns, "bad", "value", []byte("{"))
	addSecret(t, ns, "bomb", "value", []byte("a: &a "+strings.Repeat("x", 100_000)+"\nb: ["+strings.Repeat("*a,", 10_000)+"]"))
	ref := func(name, key string) *v1alpha1.AppCluster {
		return &v1alpha1.AppCluster{KubeconfigSecretRef: &v1alpha1.AppClusterKubeconfigSecretRef{Name: name, Key: key}}
	}
	tests := map[string]struct {
		req  access.Request
		want string
	}{
		"Nothing":      {access.Request{Namespace: ns}, "Expected service account or cluster specified"},
		"NoNamespace":  {access.Request{ServiceAccountName: "sa"}, "Expected namespace to be specified"},
		"NoAccount":    {access.Request{Namespace: ns, ServiceAccountName: "x"}, `Getting service account: serviceaccounts "x" not found`},
		"NoRef":        {access.Request{Namespace: ns, Cluster: &v1alpha1.AppCluster{}}, "Expected kubeconfig secret reference to be specified"},
		"NoSecret":     {access.Request{Namespace: ns, Cluster: ref("x", "")}, `Getting kubeconfig secret: secrets "x" not found`},
		"NoKey":        {access.Request{Namespace: ns, Cluster: ref("bad", "other")}, "Expected to find key 'other' in secret (keys: value)"},
		"NotYAML":      {access.Request{Namespace: ns, Cluster: ref("bad", "")}, "Parsing kubeconfig: "},
		"Aliases":      {access.Request{Namespace: ns, Cluster: ref("bomb", "")}, "Parsing kubeconfig: aliases (*name) make this YAML more than 16 MiB larger than it is"},
		"NoCluster":    {access.Request{Namespace: ns, Cluster: ref("empty", "")}, "Expected to find at least one cluster in kubeconfig"},
		"OtherTenants": {access.Request{Namespace: "default", Cluster: ref("bad", "")}, `Getting kubeconfig secret: secrets "bad" not found`},
	}
	r := newResolver(nil)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := r.Resolve(t.Context(), tc.req)
			if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("error %v, want %s", err, tc.want)
			}
		})
	}
}

// A kubeconfig is from a tenant: nothing in it runs a program or reads a file of
// the controller.
func TestKubeconfigIsRestricted(t *testing.T) {
	ns := env.Namespace(t)
	addAccount(t, ns)
	tests := map[string]struct {
		reason string
		change func(*clientcmdapi.AuthInfo, *clientcmdapi.Cluster)
		err    string
	}{
		"Exec": {"no program is run", func(u *clientcmdapi.AuthInfo, _ *clientcmdapi.Cluster) {
			*u = clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{Command: "/bin/true", APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode}}
		}, "user 'garboard-test' of the kubeconfig has only exec, which is not used here (hint: give it token,"},
		"TokenFile": {"no file is read", func(u *clientcmdapi.AuthInfo, _ *clientcmdapi.Cluster) {
			*u = clientcmdapi.AuthInfo{TokenFile: "/etc/hostname"}
		}, "has only tokenFile"},
		"Certificate": {"no file is read", func(u *clientcmdapi.AuthInfo, _ *clientcmdapi.Cluster) {
			*u = clientcmdapi.AuthInfo{ClientCertificate: "/x", ClientKey: "/y"}
		}, "has only client-certificate and client-key"},
		"AuthProvider": {"no plugin is used", func(u *clientcmdapi.AuthInfo, _ *clientcmdapi.Cluster) {
			*u = clientcmdapi.AuthInfo{AuthProvider: &clientcmdapi.AuthProviderConfig{Name: "oidc"}}
		}, "has only auth-provider"},
		"Authority": {"nor for the server's certificate", func(_ *clientcmdapi.AuthInfo, c *clientcmdapi.Cluster) {
			c.CertificateAuthority, c.CertificateAuthorityData = "/x", nil
		}, "cluster 'garboard-test' of the kubeconfig has certificate-authority, which names a file and is not used here"},
		"Nothing": {"without credentials, for a cluster that asks for none", func(u *clientcmdapi.AuthInfo, _ *clientcmdapi.Cluster) {
			*u = clientcmdapi.AuthInfo{}
		}, ""},
		"Beside": {"what is not used does no harm beside what is", func(u *clientcmdapi.AuthInfo, _ *clientcmdapi.Cluster) {
			*u = clientcmdapi.AuthInfo{Token: "not-a-token", Exec: &clientcmdapi.ExecConfig{Command: "/bin/true", APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode}}
		}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			secret := strings.ToLower(name)
			addSecret(t, ns, secret, "key", kubeconfig(t, ns, func(c *clientcmdapi.Config) {
				current := c.Contexts[c.CurrentContext]
				tc.change(c.AuthInfos[current.AuthInfo], c.Clusters[current.Cluster])
			}))
			cluster := &v1alpha1.AppCluster{KubeconfigSecretRef: &v1alpha1.AppClusterKubeconfigSecretRef{Name: secret, Key: "key"}}
			target, err := newResolver(nil).Resolve(t.Context(), access.Request{Namespace: ns, Cluster: cluster})
			if tc.err != "" {
				if err == nil || !strings.HasPrefix(err.Error(), "Building Kubernetes config: ") || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("%s: error %v, want %s", tc.reason, err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if user, err := whoAmI(t, target); user != "system:anonymous" && !apierrors.IsUnauthorized(err) {
				t.Errorf("%s: acts as %q, %v", tc.reason, user, err)
			}
		})
	}

	own := kubeconfig(t, ns, func(c *clientcmdapi.Config) {
		for _, cl := range c.Clusters {
			cl.Server = "https://${KAPP_KUBERNETES_SERVICE_HOST_PORT}"
		}
	})
	addSecret(t, ns, "own", "value", own)
	cluster := &v1alpha1.AppCluster{KubeconfigSecretRef: &v1alpha1.AppClusterKubeconfigSecretRef{Name: "own"}}
	target, err := newResolver(nil).Resolve(t.Context(), access.Request{Namespace: ns, Cluster: cluster})
	if err != nil || target.Config.Host != env.Config().Host {
		t.Errorf("the own cluster is %v, %v", target.Config, err)
	}
}

// TestAuthorityFile: the cluster's authority is renewed in a file, which the clients
// read again now and then; one that is read here once would outlive it.
func TestAuthorityFile(t *testing.T) {
	ns := env.Namespace(t)
	addAccount(t, ns)
	base := env.Config()
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, base.CAData, 0o600); err != nil {
		t.Fatal(err)
	}
	base.CAFile, base.CAData = file, nil
	target, err := access.New(base, env.Core, access.Options{}).Resolve(t.Context(), access.Request{Namespace: ns, ServiceAccountName: "sa"})
	if err != nil {
		t.Fatal(err)
	}
	if user, err := whoAmI(t, target); err != nil || user != "system:serviceaccount:"+ns+":sa" {
		t.Errorf("acts as %q, %v", user, err)
	}
	if target.Config.CAFile != file || len(target.Config.CAData) > 0 {
		t.Errorf("the authority is %q and %d bytes", target.Config.CAFile, len(target.Config.CAData))
	}
}

func TestFacts(t *testing.T) {
	ns := env.Namespace(t)
	addAccount(t, ns)
	f := newResolver(nil).Facts(access.Request{Namespace: ns, ServiceAccountName: "sa"}, "v1.2.3")
	version, err := f.KubernetesVersion(t.Context())
	info, err2 := env.Core.Discovery().ServerVersion()
	if err != nil || err2 != nil || info.GitVersion != "v"+version {
		t.Errorf("version %q of %v, %v, %v", version, info, err, err2)
	}
	apis, err := f.KubernetesAPIs(t.Context())
	for _, want := range []string{"v1", "apps/v1"} {
		if !strings.Contains(" "+strings.Join(apis, " ")+" ", " "+want+" ") {
			t.Errorf("%s is not in %v, %v", want, apis, err)
		}
	}
	if got := f.ControllerVersion(); got != "1.2.3" {
		t.Errorf("controller version %q", got)
	}
	if _, err := newResolver(nil).Facts(access.Request{Namespace: ns}, "").KubernetesVersion(t.Context()); fmt.Sprint(err) != "Expected service account or cluster specified" {
		t.Errorf("error %v", err)
	}
}
