package e2e

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/test/testenv"
)

// briefly deploys files and gives up waiting soon.
func briefly(files map[string]string) string {
	return strings.Replace(yttApp(files), "kapp: {}", "kapp: {rawOptions: [--wait-timeout=2s, --wait-check-interval=1s]}", 1)
}

// workload is a manifest of a kind with one Pod, which fails as said.
func workload(apiVersion, kind, fail, pod string) string {
	return fmt.Sprintf(`apiVersion: %s
kind: %s
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}, annotations: {garboard.dev/fail: %s}}
    spec: {%s containers: [{name: c, image: "registry.example.com/web:1"}]}
`, apiVersion, kind, fail, pod)
}

// explained checks that kapp's own text comes first and ours below it.
func explained(t *testing.T, app *v1alpha1.App, kapp string, ours []string) {
	t.Helper()
	text := app.Status.UsefulErrorMessage
	first, rest, _ := strings.Cut(text, "\nWhy: ")
	if rest == "" {
		first, rest, _ = strings.Cut(text, "\nHint: ")
	}
	if !strings.HasPrefix(first, "kapp: Error: ") || !strings.Contains(first, kapp) {
		t.Errorf("kapp's text is %q, want %q", first, kapp)
	}
	for _, part := range ours {
		if !strings.Contains(rest, part) {
			t.Errorf("no %q in what is added:\n%s", part, text)
		}
	}
	if s := app.Status; s.Deploy.Stderr != text || len(text) > 8<<10 {
		t.Errorf("the stage's stderr is another text, or too long: %d bytes", len(text))
	}
}

// untilExplained waits for a failure with these texts: the first try may end before
// the cluster knows the cause.
func (w world) untilExplained(name string, texts []string) *v1alpha1.App {
	w.Helper()
	return w.until(name, func(a *v1alpha1.App) string {
		problem := ended(a, v1alpha1.ReconcileFailed)
		for _, text := range texts {
			if problem == "" {
				problem = contains(a.Status.UsefulErrorMessage, text)
			}
		}
		return problem
	})
}

// TestReasons: what does not come up is explained by what its Pods and events say.
func TestReasons(t *testing.T) {
	t.Parallel()
	const (
		timedOut = "Timed out waiting after 2s for resources: ["
		web      = "deployment/web (apps/v1)"
		quota    = "{apiVersion: v1, kind: ResourceQuota, metadata: {name: none}, spec: {hard: {pods: '0'}}}"
	)
	job := "apiVersion: batch/v1\nkind: Job\nmetadata: {name: web}\nspec:\n  backoffLimit: 0\n  template:\n    metadata: {annotations: {garboard.dev/fail: exit}}\n    spec: {restartPolicy: Never, containers: [{name: c, image: x}]}\n"
	claims := strings.Replace(workload("apps/v1", "StatefulSet", "none", ""), "spec:\n", "spec:\n  volumeClaimTemplates:\n  - metadata: {name: data}\n    spec: {storageClassName: nope, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n", 1)
	cases := map[string]struct {
		reason   string
		first    string // applied before the App
		manifest string
		kapp     string
		ours     []string
	}{
		"Image": {"an image that cannot be pulled", "", workload("apps/v1", "Deployment", "image", ""), timedOut + "deployment/web",
			[]string{"pod/web-", "container c: ImagePullBackOff: ", "(image registry.example.com/web:1)", "Hint: check the image's name and tag"}},
		"Crash": {"a container that ends again and again", "", workload("apps/v1", "DaemonSet", "crash", ""), timedOut + "daemonset/web",
			[]string{"container c: CrashLoopBackOff, it last ended with exit code 1 (Error) (3 restarts)", "Hint: see kubectl logs -n ", " -c c --previous"}},
		"Unschedulable": {"no node takes it", "", workload("apps/v1", "Deployment", "none", "nodeSelector: {"+nowhere+"}, "), timedOut,
			[]string{"Unschedulable: 0/", "Hint: no node takes the Pod"}},
		"Claim": {"nor when a volume is missing", "", claims, timedOut + "statefulset/web", []string{"Unschedulable: ", "PersistentVolumeClaim"}},
		"Quota": {"the quota is used up", quota, workload("apps/v1", "Deployment", "none", ""), web,
			[]string{"deployment/web in namespace ", "exceeded quota: none", "Hint: ResourceQuota none is used up"}},
		"QuotaOfOthers": {"and where only an event says so", quota, workload("apps/v1", "StatefulSet", "none", ""), timedOut,
			[]string{"statefulset/web in namespace ", "FailedCreate: ", "Hint: ResourceQuota none is used up"}},
		"Job": {"a Job that fails", "", job, "waiting on reconcile job/web (batch/v1)",
			[]string{"container c: ended with exit code 1 (Error)", "job/web in namespace ", "BackoffLimitExceeded", "Hint: see kubectl logs -n "}},
		"Pod": {"a Pod without an owner", "", "{apiVersion: v1, kind: Pod, metadata: {name: web, annotations: {garboard.dev/fail: exit}}, spec: {restartPolicy: Never, containers: [{name: c, image: x}]}}",
			"waiting on reconcile pod/web (v1)", []string{"pod/web in namespace ", "ended with exit code 1"}},
		"Hang": {"nobody says why", "", workload("apps/v1", "Deployment", "hang", ""), timedOut, []string{"is Pending and not ready", "Hint: see kubectl describe pod -n "}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if c.first != "" {
				w.apply(c.first)
			}
			w.app("a", briefly(map[string]string{"a.yml": c.manifest}))
			app := w.untilExplained("a", c.ours)
			checkFailure(t, app, "deploy", "Deploying: Error (see .status.usefulErrorMessage for details)", nil)
			explained(t, app, c.kapp, c.ours)
		})
	}
	t.Run("NotAllowed", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.apply(`
apiVersion: v1
kind: ServiceAccount
metadata: {name: narrow}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: narrow}
rules:
- {apiGroups: [""], resources: [configmaps], verbs: ["*"]}
- {apiGroups: [apps], resources: [deployments], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: narrow}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: narrow}
subjects: [{kind: ServiceAccount, name: narrow}]
`)
		w.apply("apiVersion: kappctrl.k14s.io/v1alpha1\nkind: App\nmetadata: {name: a}\nspec:\n  serviceAccountName: narrow\n" +
			indent(briefly(map[string]string{"a.yml": workload("apps/v1", "Deployment", "image", "")})))
		explained(t, w.failed("a"), "deployment/web", []string{"deployment/web in namespace ", "the cause cannot be read here", "Hint: to see causes here, let the App's identity get and list"})
	})
}

// TestHints: a refusal comes with what to do about it.
func TestHints(t *testing.T) {
	t.Parallel()
	service := "{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {ports: [{port: 80}]}}"
	job := func(image string) string {
		return "{apiVersion: batch/v1, kind: Job, metadata: {name: web}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: " + image + "}]}}}}"
	}
	cases := map[string]struct {
		reason string
		// before is applied, then deployed by an App, if given.
		applied, owner, before string
		manifest               string
		admin                  bool
		kapp                   string
		ours                   []string
	}{
		"Forbidden": {"the right that is missing, ready for a Role", "", "", "", "{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: default}}", false, `configmaps "x" is forbidden:`,
			[]string{"service account ${NS}/deployer needs a Role in namespace default, bound with a RoleBinding, that has the rule {apiGroups: [\"\"], resources: [\"configmaps\"], verbs: ["}},
		"Escalation": {"rights that the account does not have", "", "", "", "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: ${NS}-x}, rules: [{apiGroups: ['x.example.com'], resources: [things], verbs: [get]}]}", false, `is forbidden:`,
			[]string{"needs a ClusterRole"}},
		"Owned": {"both owners", "", "other", cm("shared"), cm("shared"), false, "Ownership errors:",
			[]string{"configmap/shared (v1) namespace: ${NS} belongs to App ${NS}/other and is in App ${NS}/a too", "--dangerous-override-ownership-of-existing-resources=true"}},
		"NoKind": {"a definition is missing", "", "", "", "{apiVersion: example.com/v1, kind: Widget, metadata: {name: x}}", false, "Expected to find kind 'example.com/v1/Widget'",
			[]string{"the cluster has no kind example.com/v1/Widget; deploy its CustomResourceDefinition"}},
		"Immutable": {"a field that stays as it is", "", "a", job("one"), job("two"), false, "field is immutable", []string{"kapp.k14s.io/update-strategy: fallback-on-replace"}},
		"Quota": {"nothing left of what is counted", "{apiVersion: v1, kind: ResourceQuota, metadata: {name: none}, spec: {hard: {services: '0'}}}", "", "", service, false, "exceeded quota: none",
			[]string{"ResourceQuota none is used up"}},
		"NoNamespace": {"a namespace that is not there", "", "", "", "{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: ${NS}-nope}}", true, `namespaces "${NS}-nope" not found`,
			[]string{"namespace ${NS}-nope does not exist; create it"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			fill := func(s string) string { return replaceAll(s, "${NS}", w.ns) }
			if c.admin {
				if err := env.BindClusterAdmin(t.Context(), w.ns, "deployer"); err != nil {
					t.Fatal(err)
				}
			}
			if c.applied != "" {
				w.apply(c.applied)
			}
			if c.owner != "" {
				w.app(c.owner, yttApp(map[string]string{"a.yml": c.before}))
				w.succeeded(c.owner)
			}
			w.app("a", yttApp(map[string]string{"a.yml": fill(c.manifest)}))
			ours := []string{}
			for _, part := range c.ours {
				ours = append(ours, fill(part))
			}
			explained(t, w.untilExplained("a", ours), fill(c.kapp), ours)
		})
	}
}

// TestWebhookHints: one that refuses, and one that does not answer.
func TestWebhookHints(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	server := httptest.NewTLSServer(http.HandlerFunc(func(out http.ResponseWriter, req *http.Request) {
		var review struct {
			Request struct{ UID string }
		}
		_ = json.NewDecoder(req.Body).Decode(&review)
		out.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(out, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":%q,"allowed":false,"status":{"message":"no Services on Sundays"}}}`, review.Request.UID)
	}))
	defer server.Close()
	url, none, fail := server.URL, admissionv1.SideEffectClassNone, admissionv1.Fail
	hooks := env.Core.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err := hooks.Create(t.Context(), &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: w.ns},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "sundays.example.com", SideEffects: &none, FailurePolicy: &fail, AdmissionReviewVersions: []string{"v1"},
			ClientConfig:      admissionv1.WebhookClientConfig{URL: &url, CABundle: pemOf(server.Certificate())},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": w.ns}},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"services"}},
			}},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := hooks.Delete(t.Context(), w.ns, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}()
	testenv.Eventually(t, patience, func(ctx context.Context) string {
		probe := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "probe"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
		_, err := env.Core.CoreV1().Services(w.ns).Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return contains(fmt.Sprint(err), "no Services on Sundays")
	})
	const service = "{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {ports: [{port: 80}]}}"
	spec := strings.Replace(yttApp(map[string]string{"a.yml": service}), "kapp: {}", "kapp: {rawOptions: [--apply-timeout=1s]}", 1)
	w.app("a", spec)
	explained(t, w.failed("a"), `admission webhook "sundays.example.com" denied the request: no Services on Sundays`,
		[]string{"the webhook sundays.example.com; change the object as its text says"})
	server.Close()
	w.app("a", spec+"syncPeriod: 1h\n")
	explained(t, w.failed("a"), "failed calling webhook", []string{"the cluster asks the webhook sundays.example.com before it takes the object"})
}

// pemOf is a certificate as a bundle.
func pemOf(cert *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
}

// TestRemoteHints: what keeps a kubeconfig from working.
func TestRemoteHints(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := httptest.NewTLSServer(http.NotFoundHandler())
	defer other.Close()
	authority := string(pemOf(other.Certificate()))
	cases := map[string]struct {
		reason        string
		server, token string
		authority     string
		kapp          string
		ours          string
	}{
		"Unreachable": {"nobody listens", "https://127.0.0.1:1", "x", authority, "connection refused", "the API server of the kubeconfig cannot be reached from here"},
		"Expired":     {"a token that is not valid", env.Config().Host, "x", string(env.Config().CAData), "nauthorized", "the cluster does not accept the credentials of the kubeconfig"},
		"Authority":   {"a certificate of somebody else", env.Config().Host, "x", authority, "x509: ", "certificate is none that the kubeconfig trusts"},
	}
	for name, c := range cases {
		secret := strings.ToLower(name)
		w.apply(fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {name: %s}, stringData: {value: %q}}", secret, fmt.Sprintf(`
apiVersion: v1
kind: Config
current-context: c
clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}]
users: [{name: u, user: {token: %s}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
`, c.server, base64.StdEncoding.EncodeToString([]byte(c.authority)), c.token)))
		w.apply("apiVersion: kappctrl.k14s.io/v1alpha1\nkind: App\nmetadata: {name: " + secret + "}\nspec:\n  cluster: {namespace: " + w.ns + ", kubeconfigSecretRef: {name: " + secret + "}}\n" +
			indent(yttApp(map[string]string{"a.yml": cm("x")})))
	}
	for name, c := range cases {
		explained(t, w.failed(strings.ToLower(name)), c.kapp, []string{c.ours})
	}
}
