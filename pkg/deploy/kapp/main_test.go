package kapp_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard-dev/garboard/pkg/access"
	"github.com/garboard-dev/garboard/pkg/deploy"
	"github.com/garboard-dev/garboard/pkg/deploy/kapp"
	"github.com/garboard-dev/garboard/test/testenv"
)

var env *testenv.Env

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == childArg {
		os.Exit(kapp.ChildMain(os.Stdin, os.Stdout, os.Stderr))
	}
	testenv.Main(m, &env, testenv.Options{})
}

// counter counts the requests of one test's target.
type counter struct {
	next http.RoundTripper
	mu   sync.Mutex // guards what follows
	seen []string
	// before is called ahead of each request, or is nil.
	before func(*http.Request)
}

func (c *counter) RoundTrip(req *http.Request) (*http.Response, error) {
	c.mu.Lock()
	before := c.before
	c.mu.Unlock()
	if before != nil {
		before(req)
	}
	res, err := c.next.RoundTrip(req)
	code := 0
	if res != nil {
		code = res.StatusCode
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = append(c.seen, fmt.Sprintf("%s %s %d", req.Method, req.URL.RequestURI(), code))
	return res, err
}

// take returns the requests since the last call.
func (c *counter) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := c.seen
	c.seen = nil
	return seen
}

func (c *counter) onRequest(f func(*http.Request)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.before = f
}

// writes are the requests among seen that change something.
func writes(seen []string) []string {
	var out []string
	for _, s := range seen {
		if !strings.HasPrefix(s, "GET ") {
			out = append(out, s)
		}
	}
	return out
}

// bench is a namespace with a service account and a runner.
type bench struct {
	t         testing.TB
	namespace string
	runner    *kapp.Runner
	resolver  *access.Resolver
	requests  *counter
}

// newBench gives the service account all rights in its namespace and the right
// to list everything, or, if narrow, the former only.
func newBench(t testing.TB, narrow bool) *bench {
	t.Helper()
	b := &bench{t: t, namespace: env.Namespace(t), runner: kapp.New(kapp.Options{})}
	ctx := t.Context()
	_, err := env.Core.CoreV1().ServiceAccounts(b.namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "sa"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if narrow {
		subject := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: b.namespace, Name: "sa"}}
		_, err = env.Core.RbacV1().RoleBindings(b.namespace).Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "sa"}, Subjects: subject,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"},
		}, metav1.CreateOptions{})
	} else {
		err = env.BindClusterAdmin(ctx, b.namespace, "sa")
	}
	if err != nil {
		t.Fatal(err)
	}
	b.resolver = access.New(env.Config(), env.Core, access.Options{})
	return b
}

// request is a deploy of manifest as the App name.
func (b *bench) request(name, manifest string, rawOptions ...string) deploy.Request {
	b.t.Helper()
	target, err := b.resolver.Resolve(b.t.Context(), access.Request{Namespace: b.namespace, ServiceAccountName: "sa"})
	if err != nil {
		b.t.Fatal(err)
	}
	if b.requests == nil {
		b.requests = &counter{next: target.HTTP.Transport}
	}
	target.HTTP = &http.Client{Transport: b.requests}
	req := deploy.Request{Name: name, Suffix: ".app", Target: deploy.Target(target), Manifest: []byte(manifest)}
	req.Kapp.RawOptions = rawOptions
	return req
}

// mustDeploy deploys and ends the test if that fails.
func (b *bench) mustDeploy(name, manifest string, rawOptions ...string) deploy.Result {
	b.t.Helper()
	res := b.runner.Deploy(b.t.Context(), b.request(name, manifest, rawOptions...))
	if res.Failed() {
		b.t.Fatalf("deploy %s: %s\n%s\n%s", name, res.Err, res.Stdout, res.Stderr)
	}
	return res
}

func (b *bench) configMap(name string) *corev1.ConfigMap {
	b.t.Helper()
	cm, err := env.Core.CoreV1().ConfigMaps(b.namespace).Get(b.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	return cm
}

func configMap(name, value string) string {
	return fmt.Sprintf("---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\ndata:\n  key: %q\n", name, value)
}
