package why_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard-dev/garboard/pkg/deploy/why"
)

var by = why.Run{App: "shop/web", Account: "shop/deployer"}

func ExampleHints() {
	hints := why.Hints(`configmaps "x" is forbidden: User "system:serviceaccount:shop:deployer" cannot create resource "configmaps" in API group "" in the namespace "shop"`,
		why.Run{App: "shop/web", Account: "shop/deployer"})
	fmt.Println(hints[0])
	// Output: service account shop/deployer needs a Role in namespace shop, bound with a RoleBinding, that has the rule {apiGroups: [""], resources: ["configmaps"], verbs: ["create"]}
}

func TestHints(t *testing.T) {
	remote := why.Run{App: "shop/web"}
	cases := map[string]struct {
		reason string
		text   string
		by     why.Run
		want   []string // a part of each hint
	}{
		"Nothing":      {"what is not known gets no hint", "kapp: Error: error converting YAML to JSON: yaml: line 1", by, nil},
		"Empty":        {"nor does nothing", "", by, nil},
		"Cluster":      {"rights without a namespace", `User "system:serviceaccount:shop:deployer" cannot list resource "widgets" in API group "example.com" at the cluster scope`, by, []string{`service account shop/deployer needs a ClusterRole, bound with a ClusterRoleBinding, that has the rule {apiGroups: ["example.com"], resources: ["widgets"], verbs: ["list"]}`}},
		"OtherUser":    {"a kubeconfig's user has a name of its own", `User "jane" cannot get resource "pods" in API group "" in the namespace "x"`, remote, []string{"user jane needs a Role in namespace x"}},
		"TwoRights":    {"each right once", strings.Repeat(`User "a" cannot get resource "pods" in API group "" in the namespace "x" `, 2) + `User "a" cannot get resource "jobs" in API group "batch" in the namespace "x"`, remote, []string{`["pods"]`, `["jobs"]`}},
		"Escalation":   {"rights that nobody here has", `is forbidden: user "x" (groups=[]) is attempting to grant RBAC permissions not currently held:`, by, []string{"service account shop/deployer needs the listed rights itself"}},
		"Owned":        {"both owners and what to do", "Resource 'configmap/c (v1) namespace: ns' is already associated with a different app 'other.app' namespace: shop (label 'kapp.k14s.io/app=1')", by, []string{"configmap/c (v1) namespace: ns belongs to App shop/other and is in App shop/web too"}},
		"OwnerUnknown": {"an owner whose record cannot be read", "Resource 'configmap/c (v1) namespace: ns' is already associated with a different label 'kapp.k14s.io/app=1'", by, []string{"in App shop/web now"}},
		"NoKind":       {"a definition is missing", "Expected to find kind 'example.com/v1/Widget', but did not:", by, []string{"no kind example.com/v1/Widget; deploy its CustomResourceDefinition"}},
		"Immutable":    {"a field that stays", `Job.batch "x" is invalid: spec.template: Invalid value: {}: field is immutable`, by, []string{"kapp.k14s.io/update-strategy: fallback-on-replace"}},
		"ClusterIP":    {"the same in other words", `spec.clusterIPs[0]: Invalid value: ["10.0.0.9"]: may not change once set`, by, []string{"fallback-on-replace"}},
		"StatefulSet":  {"and in others", `spec: Forbidden: updates to statefulset spec for fields other than 'replicas' are forbidden`, by, []string{"fallback-on-replace"}},
		"Denied":       {"a policy, and not one of the texts that it repeats", `admission webhook "policy.example.com" denied the request: field is immutable, connection refused`, by, []string{"the webhook policy.example.com; change the object"}},
		"Policy":       {"the same without a server", `ValidatingAdmissionPolicy 'small' with binding 'b' denied request: too large`, by, []string{"the ValidatingAdmissionPolicy small"}},
		"WebhookDown":  {"whose server is away", `failed calling webhook "policy.example.com": failed to call webhook: Post "https://x": dial tcp: connection refused`, by, []string{"asks the webhook policy.example.com"}},
		"Quota":        {"nothing left", `pods "x" is forbidden: exceeded quota: small, requested: pods=1, used: pods=1, limited: pods=1`, by, []string{"ResourceQuota small is used up"}},
		"QuotaWants":   {"a quota that wants requests", `pods "x" is forbidden: failed quota: small: must specify limits.cpu for: c`, by, []string{"ResourceQuota small counts limits.cpu"}},
		"PodSecurity":  {"a level that the Pod does not keep", `pods "x" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false`, by, []string{"level restricted only"}},
		"NoNamespace":  {"a namespace that is not there", `namespaces "nope" not found`, by, []string{"namespace nope does not exist"}},
		"Terminating":  {"a namespace that goes, though the text is one of rights", `configmaps "x" is forbidden: unable to create new content in namespace gone because it is being terminated`, by, []string{"namespace gone is being deleted"}},
		"FailingAPI":   {"an API that is needed", "unable to retrieve the complete list of server APIs: metrics.k8s.io/v1beta1: the server is currently unable to handle the request", by, []string{"the API metrics.k8s.io/v1beta1 does not answer"}},
		"Expired":      {"credentials of a kubeconfig", "kapp: Error: Unauthorized", remote, []string{"renew them in the Secret of spec.cluster.kubeconfigSecretRef"}},
		"NoToken":      {"a service account's", "kapp: Error: Unauthorized", by, []string{"the token of service account shop/deployer"}},
		"Unreachable":  {"nobody listens", `Get "https://127.0.0.1:1/api": dial tcp 127.0.0.1:1: connect: connection refused`, remote, []string{"correct server or proxy-url"}},
		"UnknownCA":    {"a certificate that is not trusted", `tls: failed to verify certificate: x509: certificate signed by unknown authority`, remote, []string{"certificate-authority-data"}},
		"Many": {"five hints are enough", func() (s string) {
			for i := range 20 {
				s += fmt.Sprintf("namespaces \"n%d\" not found\n", i)
			}
			return s
		}(), by, []string{"n0", "n1", "n2", "n3", "n4"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := why.Hints(c.text, c.by)
			if len(got) != len(c.want) {
				t.Fatalf("%s: %q", c.reason, got)
			}
			for i := range got {
				if !strings.Contains(got[i], c.want[i]) {
					t.Errorf("%s: hint %q, want %q", c.reason, got[i], c.want[i])
				}
			}
		})
	}
}

func TestWaited(t *testing.T) {
	cases := map[string]struct {
		reason string
		text   string
		want   []why.Object
	}{
		"TimedOut":   {"each object of the list", "kapp: Error: Timed out waiting after 1s for resources: [deployment/web (apps/v1) namespace: shop, pod/p (v1) namespace: shop]", []why.Object{{"deployment", "web", "shop"}, {"pod", "p", "shop"}}},
		"Failed":     {"one that failed", "kapp: Error: waiting on reconcile job/j (batch/v1) namespace: shop: Finished waiting unsuccessfully: Failed with reason X", []why.Object{{"job", "j", "shop"}}},
		"NotWaiting": {"another error about an object", "kapp: Error: create deployment/web (apps/v1) namespace: shop: boom", nil},
		"OtherKinds": {"kinds that no Pod explains", "Timed out waiting after 1s for resources: [service/s (v1) namespace: shop, customresourcedefinition/x.y (apiextensions.k8s.io/v1) cluster]", nil},
		"Bounded": {"four are enough", "Timed out waiting after 1s for resources: [" + func() (s string) {
			for i := range 10 {
				s += fmt.Sprintf("pod/p%d (v1) namespace: shop, pod/p%d (v1) namespace: shop,", i, i)
			}
			return s
		}() + "]", []why.Object{{"pod", "p0", "shop"}, {"pod", "p1", "shop"}, {"pod", "p2", "shop"}, {"pod", "p3", "shop"}}},
	}
	for name, c := range cases {
		if diff := cmp.Diff(c.want, why.Waited(c.text)); diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", name, c.reason, diff)
		}
	}
}

func pod(with func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "shop"}}
	p.Status.Phase = corev1.PodRunning
	with(&p)
	return p
}

func status(s corev1.ContainerStatus) func(*corev1.Pod) {
	s.Name, s.Image = "c", "example.com/c:1"
	return func(p *corev1.Pod) { p.Status.ContainerStatuses = []corev1.ContainerStatus{s} }
}

func waiting(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

func event(reason, message string, second int) corev1.Event {
	return corev1.Event{
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "p", Namespace: "shop"},
		Reason:         reason, Message: message, LastTimestamp: metav1.Unix(int64(second), 0),
	}
}

func TestPods(t *testing.T) {
	ended := func(code int32, reason string) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason}}
	}
	cases := map[string]struct {
		reason string
		pod    corev1.Pod
		events []corev1.Event
		text   string
		hint   string
	}{
		"Ready": {"nothing is wrong", pod(func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}), []corev1.Event{event("Unhealthy", "was so once", 1)}, "", ""},
		"Succeeded": {"it did its work", pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), nil, "", ""},
		"Unschedulable": {"the scheduler's words", pod(func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/2 nodes"}}
		}), nil, "Unschedulable: 0/2 nodes", "compare its requests"},
		"Image":    {"image and cause", pod(status(corev1.ContainerStatus{State: waiting("ImagePullBackOff", "not found")})), nil, "container c: ImagePullBackOff: not found (image example.com/c:1)", "imagePullSecret"},
		"Crash":    {"how it ended last", pod(status(corev1.ContainerStatus{RestartCount: 3, State: waiting("CrashLoopBackOff", ""), LastTerminationState: ended(2, "Error")})), nil, "container c: CrashLoopBackOff, it last ended with exit code 2 (Error) (3 restarts)", "kubectl logs -n shop p -c c --previous"},
		"Memory":   {"a limit that is too low", pod(status(corev1.ContainerStatus{State: ended(137, "OOMKilled")})), nil, "container c: ended with exit code 137 (OOMKilled): it needs more memory than its limit", "kubectl logs"},
		"Config":   {"a key that is missing", pod(status(corev1.ContainerStatus{State: waiting("CreateContainerConfigError", `secret "s" not found`)})), nil, `container c: CreateContainerConfigError: secret "s" not found`, "check the Secrets"},
		"Starting": {"being made is no cause", pod(status(corev1.ContainerStatus{State: waiting("ContainerCreating", "")})), []corev1.Event{event("FailedMount", "no such secret", 1)}, "FailedMount: no such secret", "volumes"},
		"Probe":    {"the newest event", pod(status(corev1.ContainerStatus{})), []corev1.Event{event("Unhealthy", "Readiness probe failed: 500", 2), event("Unhealthy", "old", 1), event("Scheduled", "x", 3)}, "Unhealthy: Readiness probe failed: 500", "probe"},
		"NoCause":  {"at least how it is", pod(func(*corev1.Pod) {}), nil, "is Running and not ready", "kubectl describe pod -n shop p"},
		"Evicted":  {"the node's words", pod(func(p *corev1.Pod) { p.Status.Reason, p.Status.Message = "Evicted", "low on memory" }), nil, "Evicted: low on memory", "node"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			reasons := why.Pods([]corev1.Pod{c.pod, c.pod}, c.events)
			if c.text == "" {
				if len(reasons) > 0 {
					t.Fatalf("%s: %+v", c.reason, reasons)
				}
				return
			}
			if len(reasons) != 1 || reasons[0].Text != c.text || !strings.Contains(reasons[0].Hint, c.hint) || reasons[0].Object != "pod/p in namespace shop" {
				t.Errorf("%s: %+v, want %q, %q", c.reason, reasons, c.text, c.hint)
			}
		})
	}
}

func TestOthers(t *testing.T) {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j", Namespace: "shop"}}
	if r, ok := why.Job(job); ok {
		t.Errorf("a Job that runs: %+v", r)
	}
	job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "BackoffLimitExceeded", Message: "too often"}}
	if r, _ := why.Job(job); r.Text != "BackoffLimitExceeded: too often" {
		t.Errorf("a Job that failed: %+v", r)
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "shop"}}
	claim.Spec.StorageClassName = new(string)
	*claim.Spec.StorageClassName = "fast"
	if r, ok := why.Claim(claim, nil); !ok || !strings.Contains(r.Text, "storage class fast") {
		t.Errorf("a claim that waits: %+v", r)
	}
	e := event("ProvisioningFailed", `storageclass "fast" not found`, 1)
	e.InvolvedObject.Kind = "PersistentVolumeClaim"
	if r, _ := why.Claim(claim, []corev1.Event{e}); !strings.Contains(r.Text, "not found") || !strings.Contains(r.Hint, "storageClassName") {
		t.Errorf("a claim with an event: %+v", r)
	}
	claim.Status.Phase = corev1.ClaimBound
	if r, ok := why.Claim(claim, nil); ok {
		t.Errorf("a claim that is bound: %+v", r)
	}
	created := corev1.Event{InvolvedObject: corev1.ObjectReference{Kind: "StatefulSet", Name: "s"}, Reason: "FailedCreate", Message: "exceeded quota: small, requested: pods=1", EventTime: metav1.NewMicroTime(time.Unix(1, 0))}
	if r, ok := why.Events([]corev1.Event{created}, "statefulset", "s"); !ok || !strings.Contains(r.Hint, "ResourceQuota small") {
		t.Errorf("a workload over its quota: %+v", r)
	}
	if r, ok := why.Events([]corev1.Event{created}, "deployment", "s"); ok {
		t.Errorf("another object of that name: %+v", r)
	}
}

func TestText(t *testing.T) {
	got := why.Text([]why.Reason{{"pod/a", "x\ny", "try"}, {"pod/b", strings.Repeat("ü", 1000), "try"}}, []string{"try", "or else"})
	lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
	if len(lines) != 4 || lines[0] != "Why: pod/a: x y" || !strings.HasSuffix(lines[1], "...") || lines[2] != "Hint: try" || lines[3] != "Hint: or else" {
		t.Errorf("%q", lines)
	}
	if got := why.Text(nil, nil); got != "" {
		t.Errorf("nothing to say: %q", got)
	}
}

// FuzzText: whatever a cluster says, what is added is whole lines of valid text, of
// bounded size, each once.
func FuzzText(f *testing.F) {
	f.Add("kapp: Error: Timed out waiting after 1s for resources: [deployment/web (apps/v1) namespace: shop]", "ImagePullBackOff", "shop/web")
	f.Add(`User "a" cannot get resource "pods" in API group "" in the namespace "x"`, "\n\xff", "")
	f.Add("Resource 'a' is already associated with a different app 'b' namespace: c", "Unhealthy", "a/b")
	f.Fuzz(func(t *testing.T, text, reason, app string) {
		objects := why.Waited(text)
		if len(objects) > why.MaxObjects {
			t.Fatalf("%d objects", len(objects))
		}
		p := pod(status(corev1.ContainerStatus{State: waiting(reason, text)}))
		reasons := why.Pods([]corev1.Pod{p, pod(func(*corev1.Pod) {})}, []corev1.Event{event(reason, text, 1)})
		got := why.Text(reasons, why.Hints(text, why.Run{App: app}))
		if !utf8.ValidString(got) || len(got) > 16<<10 {
			t.Fatalf("%d bytes, valid %t", len(got), utf8.ValidString(got))
		}
		lines := strings.SplitAfter(got, "\n")
		seen := map[string]bool{}
		for i, line := range lines {
			if i == len(lines)-1 && line == "" {
				break
			}
			if !strings.HasPrefix(line, "Why: ") && !strings.HasPrefix(line, "Hint: ") || !strings.HasSuffix(line, "\n") || seen[line] {
				t.Fatalf("line %q", line)
			}
			seen[line] = true
		}
		if again := why.Text(reasons, why.Hints(text, why.Run{App: app})); !slices.Equal(strings.Split(again, "\n"), strings.Split(got, "\n")) {
			t.Fatalf("not the same twice")
		}
	})
}
