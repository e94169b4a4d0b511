package clustertest_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/garboard-dev/garboard/test/testenv"
)

func installed(t *testing.T) appsv1.Deployment {
	t.Helper()
	manifest, err := os.ReadFile(filepath.Join(env.Root(), "config/install.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	objects, err := testenv.Objects(manifest)
	if err != nil {
		t.Fatal(err)
	}
	for _, obj := range objects {
		if obj.GetKind() == "Deployment" {
			d := appsv1.Deployment{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(obj.Object, &d, true); err != nil {
				t.Fatal(err)
			}
			return d
		}
	}
	t.Fatal("config/install.yaml has no Deployment")
	return appsv1.Deployment{}
}

// TestInstallApplies: the API server takes config/install.yaml as `kubectl apply`
// sends it, knows every field of it, takes it again without a change, and rolls the
// Deployment out: its Pod can be made and scheduled, and its volumes exist.
func TestInstallApplies(t *testing.T) {
	file := filepath.Join(env.Root(), "config/install.yaml")
	apply := func(extra ...string) string {
		t.Helper()
		out, err := env.Kubectl(t.Context(), append([]string{"apply", "--validate=strict", "-f", file}, extra...)...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	// Objects that the environment has applied itself are known to another manager.
	apply("--server-side", "--force-conflicts")
	deployments := env.Core.AppsV1().Deployments(systemNamespace)
	before, err := deployments.Get(t.Context(), "kapp-controller", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	apply("--server-side", "--force-conflicts")
	testenv.Eventually(t, time.Minute, func(ctx context.Context) string {
		d, err := deployments.Get(ctx, "kapp-controller", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if d.Generation != before.Generation {
			t.Errorf("applied again, generation %d became %d", before.Generation, d.Generation)
		}
		if d.Status.ReadyReplicas != *d.Spec.Replicas || d.Status.ObservedGeneration != d.Generation {
			status, _ := json.Marshal(d.Status)
			return "not rolled out: " + string(status)
		}
		return ""
	})
}

// TestPodIsRestricted: namespaces that enforce the strictest Pod security standard
// admit the Pod; the test would see it refused.
func TestPodIsRestricted(t *testing.T) {
	ns := env.Namespace(t)
	patch := []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`)
	if _, err := env.Core.CoreV1().Namespaces().Patch(t.Context(), ns, "application/merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	env.MustApply(t, ns, "{apiVersion: v1, kind: ServiceAccount, metadata: {name: kapp-controller-sa}}")
	template := installed(t).Spec.Template
	create := func(change func(*corev1.PodSpec)) error {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "garboard", Labels: template.Labels}, Spec: *template.Spec.DeepCopy()}
		change(&pod.Spec)
		_, err := env.Core.CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	if err := create(func(*corev1.PodSpec) {}); err != nil {
		t.Error(err)
	}
	err := create(func(s *corev1.PodSpec) { s.HostNetwork = true })
	if err == nil {
		t.Error("the standard is not enforced here: a Pod in the node's network is admitted")
	}
}
