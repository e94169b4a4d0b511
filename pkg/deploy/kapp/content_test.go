package kapp_test

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
)

func TestPruneAndInspect(t *testing.T) {
	b := newBench(t, true)
	b.mustDeploy("app", configMap("keep", "1")+configMap("drop", "1"))
	b.mustDeploy("app", configMap("keep", "1"))
	_, err := env.Core.CoreV1().ConfigMaps(b.namespace).Get(t.Context(), "drop", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("drop is left: %v", err)
	}

	req := b.request("app", "")
	req.Kapp.Inspect = &v1alpha1.AppDeployKappInspect{}
	res := b.runner.Inspect(t.Context(), req)
	if res.Failed() || res.Kapp != nil {
		t.Fatalf("inspect: %+v %v", res.Stage, res.Kapp)
	}
	lines := strings.Split(res.Stdout, "\n")
	want := []string{"Target cluster '", "Resources in app 'app.app'", "Namespace", b.namespace + "  keep  ConfigMap  kapp   ", "Rs: Reconcile state", "Ri: Reconcile information", "1 resources", "Succeeded"}
	if len(lines) != len(want) {
		t.Fatalf("inspect:\n%s", res.Stdout)
	}
	for i := range want {
		if !strings.HasPrefix(lines[i], want[i]) {
			t.Errorf("line %d is %q, want %q", i, lines[i], want[i])
		}
	}

	req.Kapp.Inspect.RawOptions = []string{"--tty=false"}
	if res = b.runner.Inspect(t.Context(), req); strings.Contains(res.Stdout, "Target cluster") || !strings.HasPrefix(res.Stdout, b.namespace+"\tkeep\tConfigMap\t") {
		t.Errorf("inspect without decoration: %q %q", res.Stdout, res.Stderr)
	}
	req.Kapp.Inspect.RawOptions = []string{"--json=true"}
	if res = b.runner.Inspect(t.Context(), req); !strings.HasPrefix(res.Stdout, "{") || !strings.HasSuffix(res.Stdout, "}") {
		t.Errorf("inspect as JSON: %q %q", res.Stdout, res.Stderr)
	}
}

// Nothing may break because an App's name is as long as names can be, nor may
// two such Apps be taken for one.
func TestLongNames(t *testing.T) {
	b := newBench(t, true)
	for _, n := range []int{60, 63, 200, 241, 253} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			stem := strings.Repeat("long.name-", 26)[:n-1]
			for _, last := range []string{"a", "b"} {
				name := stem + last
				cm := fmt.Sprintf("n%d-%s", n, last)
				for range 2 {
					b.mustDeploy(name, configMap(cm, "1"))
				}
				b.mustDeploy(name, configMap(cm, "2"))
				if res := b.runner.Inspect(t.Context(), b.request(name, "")); !strings.Contains(res.Stdout, "\n1 resources\n") {
					t.Errorf("inspect: %s\n%s", res.Stdout, res.Stderr)
				}
			}
			if res := b.runner.Delete(t.Context(), b.request(stem+"a", "")); res.Failed() {
				t.Fatalf("delete: %s\n%s", res.Err, res.Stderr)
			}
			b.configMap(fmt.Sprintf("n%d-b", n))
			if res := b.runner.Delete(t.Context(), b.request(stem+"b", "")); res.Failed() {
				t.Fatalf("delete: %s\n%s", res.Err, res.Stderr)
			}
		})
	}
}

// One ConfigMap, none, none again, one: never are all kinds listed.
func TestEmptyThenFull(t *testing.T) {
	b := newBench(t, false)
	allow := "--dangerous-allow-empty-list-of-resources=true"
	b.mustDeploy("app", configMap("x", "1"), allow)
	for i, manifest := range []string{"", "", configMap("x", "2"), "", configMap("x", "3")} {
		b.requests.take()
		b.mustDeploy("app", manifest, allow)
		lists := 0
		seen := b.requests.take()
		for _, s := range seen {
			if strings.Contains(s, "?labelSelector=kapp.k14s.io%2Fapp%3D") && !strings.Contains(s, "/pods?") {
				lists++
			}
		}
		if lists > 1 {
			t.Errorf("step %d: %d lists:\n%s", i, lists, strings.Join(seen, "\n"))
		}
	}
}

// kapp's copy of an object does not fit beside a large annotation: the deploy
// does without it.
func TestAnnotationBudget(t *testing.T) {
	b := newBench(t, true)
	manifest := func(value string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: big\n  annotations:\n    note: " + strings.Repeat("x", 131072) + "\ndata:\n  key: \"" + value + "\"\n"
	}
	b.mustDeploy("big", manifest("1"))
	b.requests.take()
	res := b.mustDeploy("big", manifest("1"))
	if w := writes(b.requests.take()); len(w) > 0 {
		t.Errorf("the second deploy wrote:\n%s\n%s", strings.Join(w, "\n"), res.Stdout)
	}
	res = b.mustDeploy("big", manifest("2"), "--diff-changes=true")
	if !strings.Contains(res.Stdout, "Op:      0 create, 0 delete, 1 update") || strings.Count(res.Stdout, " + ")+strings.Count(res.Stdout, " - ") > 8 {
		t.Errorf("the diff is not of one key:\n%s", res.Stdout)
	}
	if got := b.configMap("big").Data["key"]; got != "2" {
		t.Errorf("value %q", got)
	}
}

// A namespaced identity is asked for what it may do, not for what it may not,
// once that is known.
func TestNarrowIdentity(t *testing.T) {
	b := newBench(t, true)
	b.mustDeploy("narrow", configMap("x", "1"))
	b.mustDeploy("narrow", configMap("x", "1"))
	b.requests.take()
	b.mustDeploy("narrow", configMap("x", "1"))
	if seen := b.requests.take(); len(seen) > 2 {
		t.Errorf("%d requests:\n%s", len(seen), strings.Join(seen, "\n"))
	}
}

// A kind and an object of it in one manifest; then the kind goes, unseen.
func TestDefinitionAndObject(t *testing.T) {
	b := newBench(t, false)
	group := b.namespace + ".example.com"
	manifest := func(value string) string { return definition(group, "v1") + thing(group, "v1", value) }
	b.mustDeploy("crd", manifest("1"))
	b.mustDeploy("crd", manifest("2"))
	if out, err := env.Kubectl(t.Context(), "delete", "crd", "things."+group, "--wait"); err != nil {
		t.Fatal(out, err)
	}
	b.mustDeploy("crd", manifest("3"))
	if res := b.runner.Delete(t.Context(), b.request("crd", "")); res.Failed() {
		t.Errorf("delete: %s\n%s", res.Err, res.Stderr)
	}
}

// A second version of a definition, with an object of that version, in one manifest:
// the object waits until the version is served.
func TestSecondVersion(t *testing.T) {
	b := newBench(t, false)
	group := b.namespace + ".example.com"
	b.mustDeploy("crd", definition(group, "v1")+thing(group, "v1", "1"))
	res := b.mustDeploy("crd", definition(group, "v1", "v2")+thing(group, "v2", "2"))
	if strings.Contains(res.Stdout, "create thing/one") || strings.Contains(res.Stdout, "delete thing/one") {
		t.Errorf("the object was made anew:\n%s", res.Stdout)
	}
	out, err := env.Kubectl(t.Context(), "get", "things.v2."+group, "one", "-n", b.namespace, "-o", "jsonpath={.apiVersion} {.spec.value}")
	if err != nil || out != group+"/v2 2" {
		t.Errorf("the object is %q, %v", out, err)
	}
	if res := b.runner.Delete(t.Context(), b.request("crd", "")); res.Failed() {
		t.Errorf("delete: %s\n%s", res.Err, res.Stderr)
	}
}

// A kind that one App defines is there for the next, although the kinds of the cluster
// are known already.
func TestKindOfAnotherApp(t *testing.T) {
	b := newBench(t, false)
	group := b.namespace + ".example.com"
	b.mustDeploy("warm", configMap("warm", "1"))
	b.mustDeploy("kind", definition(group, "v1"))
	b.mustDeploy("object", thing(group, "v1", "1"))
}

// definition defines Things of any shape in some versions, the last of which is stored.
func definition(group string, versions ...string) string {
	out := fmt.Sprintf(`---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.%[1]s}
spec:
  group: %[1]s
  scope: Namespaced
  names: {plural: things, singular: thing, kind: Thing, listKind: ThingList}
  versions:
`, group)
	for i, v := range versions {
		out += fmt.Sprintf("  - name: %s\n    served: true\n    storage: %t\n    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}\n", v, i == len(versions)-1)
	}
	return out
}

func thing(group, version, value string) string {
	return fmt.Sprintf("---\napiVersion: %s/%s\nkind: Thing\nmetadata: {name: one}\nspec: {value: %q}\n", group, version, value)
}

// A wait is not over too early: old Pods that are gone are no new ones, and a status
// that is not of this generation is none.
func TestWaitsRightly(t *testing.T) {
	b := newBench(t, false)
	group := b.namespace + ".example.com"
	b.mustDeploy("kind", strings.Replace(definition(group, "v1"), "served: true\n", "served: true\n    subresources: {status: {}}\n", 1))
	recreate := func(fail string) string {
		return strings.Replace(strings.Replace(workload, "spec:\n  selector", "spec:\n  strategy: {type: Recreate}\n  selector", 1),
			"labels: {app: web}}", "labels: {app: web}, annotations: {"+fail+"}}", 1)
	}
	b.mustDeploy("web", recreate(""))
	rule := fmt.Sprintf(`---
apiVersion: kapp.k14s.io/v1alpha1
kind: Config
waitRules:
- supportsObservedGeneration: true
  conditionMatchers: [{type: Stalled, status: "True", failure: true}, {type: Ready, status: "True", success: true}]
  resourceMatchers: [{apiVersionKindMatcher: {apiVersion: %s/v1, kind: Thing}}]
`, group)
	// told makes an object of the first generation with a condition, as its controller
	// would, and returns the manifest that gives it value.
	told := func(name, condition, value string) string {
		things := env.Dynamic.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "things"}).Namespace(b.namespace)
		obj, err := things.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": group + "/v1", "kind": "Thing", "metadata": map[string]any{"name": name}, "spec": map[string]any{"value": "1"},
		}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		obj.Object["status"] = map[string]any{"observedGeneration": int64(1), "conditions": []any{map[string]any{"type": condition, "status": "True"}}}
		if _, err := things.UpdateStatus(t.Context(), obj, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		return rule + strings.Replace(thing(group, "v1", value), "name: one", "name: "+name, 1)
	}
	cases := map[string]struct{ reason, name, manifest, want string }{
		"Recreate": {"the old Pods are gone, the new ones are not there", "web", recreate("garboard.dev/fail: hang"), "Timed out waiting after 3s for resources: [deployment/web"},
		"Older":    {"nothing is said of this generation", "older", rule + thing(group, "v1", "1"), "Timed out waiting after 3s for resources: [thing/one"},
		"Behind":   {"what is said is of the generation before", "behind", told("behind", "Ready", "2"), "Timed out waiting after 3s for resources: [thing/behind"},
		"Stalled":  {"it will never be ready, so there is nothing to wait for", "stalled", told("stalled", "Stalled", "1"), "Encountered failure condition Stalled == True"},
	}
	for name, c := range cases {
		res := b.runner.Deploy(t.Context(), b.request(c.name, c.manifest, "--wait-timeout=3s", "--wait-check-interval=500ms"))
		if !res.Failed() || !strings.Contains(res.Stderr, c.want) {
			t.Errorf("%s: %s: %q\n%s\n%s", name, c.reason, res.Err, res.Stdout, res.Stderr)
		}
		if name == "Older" && !strings.Contains(res.Stdout, "Waiting for generation 1 to be observed") {
			t.Errorf("%s: waited for something else:\n%s", c.reason, res.Stdout)
		}
	}
}
