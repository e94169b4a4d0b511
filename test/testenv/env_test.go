package testenv_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard-dev/garboard/test/testenv"
	"github.com/garboard-dev/garboard/test/testenv/controlplane"
)

var (
	env     *testenv.Env
	servers *testenv.Servers
)

func TestMain(m *testing.M) {
	if os.Getenv(asOwner) != "" {
		ownEnvironment()
	}
	testenv.Main(m, &env, testenv.Options{}, func(ctx context.Context, e *testenv.Env) (err error) {
		servers, err = e.StartServers(ctx)
		return err
	})
}

// workload is one object with a Pod template whose Pods fail as %s says.
const workload = `
apiVersion: %s
kind: %s
metadata: {name: x}
spec:
  selector: {matchLabels: {app: x}}
  progressDeadlineSeconds: 2
  template:
    metadata: {labels: {app: x}, annotations: {%s}}
    spec: {containers: [{name: c, image: example.com/c:1}]}
`

const statefulSet = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: x}
spec:
  replicas: 2
  serviceName: x
  selector: {matchLabels: {app: x}}
  template:
    metadata: {labels: {app: x}}
    spec: {containers: [{name: c, image: example.com/c:1}]}
`

const job = `
apiVersion: batch/v1
kind: Job
metadata: {name: x}
spec:
  backoffLimit: 0
  template:
    metadata: {annotations: {%s}}
    spec: {restartPolicy: Never, containers: [{name: c, image: example.com/c:1}]}
`

func TestWorkloadsRunAndFail(t *testing.T) {
	deployment := func(ctx context.Context, ns string) (any, error) {
		d, err := env.Core.AppsV1().Deployments(ns).Get(ctx, "x", metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		for _, c := range d.Status.Conditions {
			if c.Reason == "ProgressDeadlineExceeded" {
				return c.Reason, nil
			}
		}
		return d.Status.AvailableReplicas, nil
	}
	job1 := func(ctx context.Context, ns string) (any, error) {
		j, err := env.Core.BatchV1().Jobs(ns).Get(ctx, "x", metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return []int32{j.Status.Succeeded, j.Status.Failed}, nil
	}
	waiting := func(ctx context.Context, ns string) (any, error) {
		pods, err := env.Core.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{})
		if err != nil || len(pods.Items) == 0 || len(pods.Items[0].Status.ContainerStatuses) == 0 {
			return nil, err
		}
		s := pods.Items[0].Status.ContainerStatuses[0].State
		if s.Waiting == nil {
			return nil, nil
		}
		return s.Waiting.Reason, nil
	}
	cases := map[string]struct {
		reason   string
		manifest string
		state    func(context.Context, string) (any, error)
		want     any
	}{
		"Deployment":      {"Pods become ready", fmt.Sprintf(workload, "apps/v1", "Deployment", ""), deployment, int32(1)},
		"DeploymentHangs": {"the deadline passes", fmt.Sprintf(workload, "apps/v1", "Deployment", "garboard.dev/fail: hang"), deployment, "ProgressDeadlineExceeded"},
		"Crash":           {"containers crash", fmt.Sprintf(workload, "apps/v1", "Deployment", "garboard.dev/fail: crash"), waiting, "CrashLoopBackOff"},
		"Image":           {"images cannot be pulled", fmt.Sprintf(workload, "apps/v1", "Deployment", "garboard.dev/fail: image"), waiting, "ImagePullBackOff"},
		"Job":             {"Pods of Jobs complete", fmt.Sprintf(job, ""), job1, []int32{1, 0}},
		"JobFails":        {"Pods of Jobs exit with 1", fmt.Sprintf(job, "garboard.dev/fail: exit"), job1, []int32{0, 1}},
		"StatefulSet": {"Pods become ready in order", statefulSet, func(ctx context.Context, ns string) (any, error) {
			s, err := env.Core.AppsV1().StatefulSets(ns).Get(ctx, "x", metav1.GetOptions{})
			if err != nil {
				return nil, err
			}
			return s.Status.ReadyReplicas, nil
		}, int32(2)},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := env.Namespace(t)
			env.MustApply(t, ns, c.manifest)
			testenv.Eventually(t, 20*time.Second, func(ctx context.Context) string {
				got, err := c.state(ctx, ns)
				if err != nil {
					return err.Error()
				}
				return cmp.Diff(c.want, got)
			})
		})
	}
}

func TestAuditCountsRequests(t *testing.T) {
	ns := env.Namespace(t)
	filter := controlplane.Filter{Verb: "get", Resource: "configmaps", Namespace: ns, Name: "x", NoSubresource: true}
	for range 3 {
		// The answer is "not found", which counts like any other.
		_, _ = env.Core.CoreV1().ConfigMaps(ns).Get(t.Context(), "x", metav1.GetOptions{})
	}
	testenv.Eventually(t, 5*time.Second, func(context.Context) string {
		return cmp.Diff(3, env.AuditCount(t, filter))
	})
	other := filter
	other.User = testenv.ControllerUser
	if got := env.AuditCount(t, other); got != 0 {
		t.Errorf("requests of another user: %d, want 0", got)
	}
	found, err := env.Audit().Requests(filter)
	if err != nil {
		t.Fatal(err)
	}
	if found[0].Code != 404 || found[0].User != "garboard-test-admin" {
		t.Errorf("request is %+v, want code 404 of garboard-test-admin", found[0])
	}
}

func TestTwoControlPlanesAtOnce(t *testing.T) {
	second, err := testenv.Start(t.Context(), testenv.Options{Nodes: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := second.Stop(); err != nil {
			t.Error(err)
		}
	})
	count := func(e *testenv.Env) int {
		nodes, err := e.Core.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return len(nodes.Items)
	}
	if diff := cmp.Diff([]int{2, 1}, []int{count(env), count(second)}); diff != "" {
		t.Errorf("nodes: -want +got:\n%s", diff)
	}
}

func TestApplyWaitsForNewKinds(t *testing.T) {
	ns := env.Namespace(t)
	env.MustApply(t, ns, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.garboard.test}
spec:
  group: garboard.test
  scope: Namespaced
  names: {kind: Boat, plural: boats}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: garboard.test/v1
kind: Boat
metadata: {name: one}
`)
	out, err := env.Kubectl(t.Context(), "get", "boats", "-n", ns, "-o", "name")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("boat.garboard.test/one\n", out); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestServiceAccountIsBoundByRBAC(t *testing.T) {
	ns := env.Namespace(t)
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "weak"}}
	if _, err := env.Core.CoreV1().ServiceAccounts(ns).Create(t.Context(), sa, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := env.Kubectl(t.Context(), "auth", "can-i", "create", "configmaps", "-n", ns, "--as=system:serviceaccount:"+ns+":weak")
	if err == nil {
		t.Error("a service account without a role may create ConfigMaps")
	}
}
