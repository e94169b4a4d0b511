package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	internalpackaging "github.com/garboard-dev/garboard/pkg/apis/internalpackaging/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	packaging "github.com/garboard-dev/garboard/pkg/apis/packaging/v1alpha1"
	"github.com/garboard-dev/garboard/test/testenv"
	"github.com/garboard-dev/garboard/test/testenv/controlplane"
)

// What one PackageInstall may cost besides its App: the finalizer, the App, and
// its status when that begins and ends. A slow machine may show a state more of
// the App, and a cache that is behind our own writes costs a read.
const (
	maxInstallWrites = 5
	maxInstallReads  = 3
)

// ofInstalls counts the controller's requests in the namespace that are for
// PackageInstalls: Apps written, PackageInstalls read and written, Secrets made.
func (w installs) ofInstalls(since time.Time) (writes, reads []string) {
	w.Helper()
	all, err := env.Audit().Requests(controlplane.Filter{Namespace: w.ns, User: testenv.ControllerUser, Since: since})
	if err != nil {
		w.Fatal(err)
	}
	for _, r := range all {
		text := fmt.Sprintf("%s %s/%s %s %d", r.Verb, r.Resource, r.Subresource, r.Name, r.Code)
		switch {
		case r.Resource == "packageinstalls" && (r.Verb == "get" || r.Verb == "list"),
			r.Resource == "apps" && r.Verb == "get", r.Resource == "internalpackages" && r.Verb != "watch":
			reads = append(reads, text)
		case r.Resource == "packageinstalls" && r.Verb != "watch",
			r.Resource == "apps" && (r.Verb == "create" || r.Verb == "update" && r.Subresource == ""),
			r.Resource == "secrets" && r.Verb == "create":
			writes = append(writes, text)
		}
	}
	return writes, reads
}

// TestInstallCost: twenty at once, then silence, then a change that concerns one.
func TestInstallCost(t *testing.T) {
	t.Parallel()
	const count = 20
	w := newInstalls(t)
	since := time.Now()
	template := strings.ReplaceAll(webTemplate, "${VERSION}", "1.0.0")
	for i := range count {
		n := installs{w.world, fmt.Sprintf("%s.web%d.example.com", w.ns, i)}
		n.offer(w.ns, "1.0.0", strings.ReplaceAll(template, "name: web", fmt.Sprintf("name: web%d", i)))
		n.installAs(fmt.Sprintf("web%d", i), "1.x", "")
	}
	success := func(p *packaging.PackageInstall) string { return endedPKGI(p, v1alpha1.ReconcileSucceeded) }
	for i := range count {
		w.untilPKGI(fmt.Sprintf("web%d", i), success)
	}
	writes, reads := w.ofInstalls(since)
	t.Logf("%d PackageInstalls cost %d writes and %d reads", count, len(writes), len(reads))
	if len(writes) > count*maxInstallWrites || len(reads) > count*maxInstallReads {
		t.Errorf("%d PackageInstalls cost %d writes, %d reads; want at most %d and %d each:\n%s\n%s",
			count, len(writes), len(reads), maxInstallWrites, maxInstallReads, strings.Join(writes, "\n"), strings.Join(reads, "\n"))
	}

	// What does not concern them, followed by something that does: once that is
	// seen, so was everything before it.
	since = time.Now()
	quiet := &internalpackaging.InternalPackage{}
	quiet.Namespace, quiet.Name = w.ns, storedName(w.ns+".web0.example.com", "1.0.0")
	if err := kube.Patch(t.Context(), quiet, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"kapp.k14s.io/x":"y"}}}`))); err != nil {
		t.Fatal(err)
	}
	w.secret("unrelated", "a", "b")
	label := &packaging.PackageInstall{}
	label.Namespace, label.Name = w.ns, "web0"
	if err := kube.Patch(t.Context(), label, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))); err != nil {
		t.Fatal(err)
	}
	one := installs{w.world, w.ns + ".web1.example.com"}
	one.offer(w.ns, "1.1.0", strings.ReplaceAll(strings.ReplaceAll(webTemplate, "${VERSION}", "1.1.0"), "name: web", "name: web1"))
	w.untilPKGI("web1", func(p *packaging.PackageInstall) string {
		if p.Status.LastAttemptedVersion != "1.1.0" {
			return fmt.Sprintf("not upgraded: %+v", p.Status)
		}
		return success(p)
	})
	writes, reads = w.ofInstalls(since)
	for _, r := range append(writes, reads...) {
		if !strings.Contains(r, " web1 ") {
			t.Errorf("a request for what did not change: %s", r)
		}
	}
	// The App, and the status when that begins and ends.
	if len(writes) > 4 {
		t.Errorf("the upgrade cost %d writes:\n%s", len(writes), strings.Join(writes, "\n"))
	}
}

// TestInstallRetries: a failure that lasts is tried again, ever more rarely, and is
// not written again.
func TestInstallRetries(t *testing.T) {
	t.Parallel()
	w := newInstalls(t)
	w.offerWeb("1.0.0")
	w.install("2.x", "")
	w.failedPKGI("Expected to find at least one version")
	version := func() string {
		return w.untilPKGI("web", func(*packaging.PackageInstall) string { return "" }).ResourceVersion
	}
	before := version()
	attempts := func(ctx context.Context) float64 {
		text, err := garboard.Metrics(ctx)
		if err != nil {
			return 0
		}
		_, rest, _ := strings.Cut(text, fmt.Sprintf("kappctrl_app_reconcile_attempt_total{controller=\"PackageInstall\",name=\"web\",namespace=%q} ", w.ns))
		var n float64
		if _, err := fmt.Sscan(rest, &n); err != nil {
			return 0
		}
		return n
	}
	first := attempts(t.Context())
	testenv.Eventually(t, patience, func(ctx context.Context) string {
		if now := attempts(ctx); now < first+2 {
			return fmt.Sprintf("tried %v times, %v before", now, first)
		}
		return ""
	})
	if after := version(); after != before {
		t.Errorf("written again although nothing changed: %s, %s", before, after)
	}
}

// TestInstallPlaceholder: a bundle from a private registry fails until somebody
// fills in the placeholder for its credentials, which is not emptied again; an
// annotation names others instead.
func TestInstallPlaceholder(t *testing.T) {
	t.Parallel()
	w := newInstalls(t)
	content := fstest.MapFS{"config/cm.yml": {Data: []byte(cm("bundled", "v", "1")), Mode: 0o644}}
	if _, err := servers.PrivateRegistry.PushBundle(t.Context(), "install/bundle:1.0.0", content); err != nil {
		t.Fatal(err)
	}
	w.apply(credentials())
	w.offer(w.ns, "1.0.0", fmt.Sprintf("  template:\n    spec:\n      fetch: [{imgpkgBundle: {image: %q}}]\n      template: [{ytt: {paths: [config]}}]\n      deploy: [{kapp: {}}]\n",
		servers.PrivateRegistry.Host()+"/install/bundle:1.0.0"))
	w.install("1.x", "")
	p := w.failedPKGI("")
	placeholder := &corev1.Secret{}
	key := client.ObjectKey{Namespace: w.ns, Name: "web-fetch-0"}
	if err := kube.Get(t.Context(), key, placeholder); err != nil {
		t.Fatal(err)
	}
	_, marked := placeholder.Annotations["secretgen.carvel.dev/image-pull-secret"]
	if o := placeholder.OwnerReferences; !marked || placeholder.Type != corev1.SecretTypeDockerConfigJson || len(o) != 1 || o[0].UID != p.UID || o[0].Controller != nil ||
		string(placeholder.Data[corev1.DockerConfigJsonKey]) != `{"auths":{}}` {
		t.Errorf("the placeholder: %+v", placeholder)
	}
	filled := &corev1.Secret{}
	if err := kube.Get(t.Context(), client.ObjectKey{Namespace: w.ns, Name: "dockerconfig"}, filled); err != nil {
		t.Fatal(err)
	}
	placeholder.Data = filled.Data
	if err := kube.Update(t.Context(), placeholder); err != nil {
		t.Fatal(err)
	}
	w.installed("1.0.0")
	w.wantConfigMap("bundled", map[string]string{"v": "1"})

	w.annotate("ext.packaging.carvel.dev/fetch-0-secret-name", "dockerconfig")
	w.until("web", func(a *v1alpha1.App) string {
		if got := a.Spec.Fetch[0].ImgpkgBundle.SecretRef.Name; got != "dockerconfig" {
			return "credentials of Secret " + got
		}
		return ended(a, v1alpha1.ReconcileSucceeded)
	})
	if err := kube.Get(t.Context(), key, placeholder); err != nil || string(placeholder.Data[corev1.DockerConfigJsonKey]) != string(filled.Data[corev1.DockerConfigJsonKey]) {
		t.Errorf("the filled placeholder: %v %v", err, placeholder.OwnerReferences)
	}
}

// TestInstallCluster: into another cluster by a kubeconfig, whose version counts.
func TestInstallCluster(t *testing.T) {
	t.Parallel()
	w, target := newInstalls(t), newWorld(t)
	w.offer(w.ns, "1.0.0", "  kubernetesVersionSelection: {constraints: '>=1.20.0'}\n"+strings.ReplaceAll(webTemplate, "${VERSION}", "1.0.0"))
	w.install("1.x", "  cluster: {namespace: "+target.ns+", kubeconfigSecretRef: {name: kubeconfig}}\n")
	w.installed("1.0.0") // the service account wins
	w.untilWeb("1.0.0", "default")
	w.editPKGI(func(p *packaging.PackageInstall) { p.Spec.ServiceAccountName = "" })
	w.failedPKGI(`Unable to get kubernetes version: Getting kubeconfig secret: secrets "kubeconfig" not found`)
	kubeconfig, err := env.ServiceAccountKubeconfig(t.Context(), target.ns, "deployer")
	if err != nil {
		t.Fatal(err)
	}
	w.secret("kubeconfig", "value", string(kubeconfig))
	// Nothing but time tells that the Secret is there.
	w.installed("1.0.0")
	target.configMap("web")
	w.deletePKGI()
	w.gonePKGI()
	target.noConfigMap("web")
}
