package kapp_test

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
)

// lists are the requests among seen that look for what carries the App's label.
func lists(seen []string) (n int) {
	for _, s := range seen {
		if strings.HasPrefix(s, "GET ") && strings.Contains(s, "?labelSelector=kapp.k14s.io%2Fapp%3D") {
			n++
		}
	}
	return n
}

const workload = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: example.com/c:1}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
`

// TestFewLists: to inspect and to delete, the kinds that the record names and those
// made of them suffice; all kinds are listed once, to see that a delete left nothing.
func TestFewLists(t *testing.T) {
	b := newBench(t, false)
	b.mustDeploy("web", workload)
	inspect := func(options ...string) (string, int) {
		req := b.request("web", "")
		req.Kapp.Inspect = &v1alpha1.AppDeployKappInspect{RawOptions: options}
		b.requests.take()
		res := b.runner.Inspect(t.Context(), req)
		if res.Failed() {
			t.Fatalf("inspect: %s\n%s", res.Err, res.Stderr)
		}
		return res.Stdout, lists(b.requests.take())
	}
	out, few := inspect()
	// A filter asks for everything: it may be for what the record does not name.
	whole, all := inspect("--filter-ns=" + b.namespace)
	for _, kind := range []string{"Deployment", "ReplicaSet", "Pod", "Service", "Endpoints", "EndpointSlice"} {
		if !strings.Contains(out, "  "+kind+"  ") || !strings.Contains(whole, "  "+kind+"  ") {
			t.Errorf("inspect shows no %s:\n%s\n%s", kind, out, whole)
		}
	}
	if few > 6 || all < 30 {
		t.Errorf("%d lists to inspect, %d with a filter", few, all)
	}

	b.requests.take()
	res := b.runner.Delete(t.Context(), b.request("web", ""))
	if n := lists(b.requests.take()); res.Failed() || n > all+6 {
		t.Errorf("%d lists to delete, of %d kinds: %+v", n, all, res.Stage)
	}
}

// TestDeleteFindsAll: what a deploy with a filter took off the record is deleted too.
func TestDeleteFindsAll(t *testing.T) {
	b := newBench(t, true)
	lease := "---\napiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: forgotten}\n"
	b.mustDeploy("both", configMap("both", "1")+"---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: forgotten}\nspec: {podSelector: {}}\n")
	res := b.mustDeploy("both", configMap("both", "2"), "--filter-kind=ConfigMap")
	if kinds := res.Kapp.AssociatedResources.GroupKinds; len(kinds) != 1 {
		t.Fatalf("the record names %v, so this tests nothing", kinds)
	}
	if res := b.runner.Delete(t.Context(), b.request("both", "")); res.Failed() {
		t.Fatalf("delete: %s\n%s", res.Err, res.Stderr)
	}
	_, err := env.Core.NetworkingV1().NetworkPolicies(b.namespace).Get(t.Context(), "forgotten", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the NetworkPolicy is left: %v", err)
	}

	// A kind of which nobody knows what is made of it: all kinds from the start.
	b = newBench(t, false)
	b.mustDeploy("lease", lease)
	b.requests.take()
	if res := b.runner.Inspect(t.Context(), b.request("lease", "")); res.Failed() || !strings.Contains(res.Stdout, "  Lease  ") {
		t.Errorf("inspect: %+v", res.Stage)
	}
	if n := lists(b.requests.take()); n < 30 {
		t.Errorf("%d lists to inspect a kind that is not known", n)
	}
}
