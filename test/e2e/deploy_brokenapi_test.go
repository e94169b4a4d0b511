package e2e

import (
	"context"
	"testing"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/test/testenv"
)

const brokenAPI = `
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.broken.example.com}
spec:
  group: broken.example.com
  version: v1beta1
  groupPriorityMinimum: 100
  versionPriority: 100
  insecureSkipTLSVerify: true
  service: {name: nobody, namespace: default, port: 443}
`

// TestBrokenAPI: an aggregated API that does not answer stops only Apps that use it.
// The test is not parallel: no namespace goes while an API of the cluster is unknown.
func TestBrokenAPI(t *testing.T) {
	w := newWorld(t)
	w.app("before", yttApp(map[string]string{"a.yml": cm("before", "v", "1")}))
	w.succeeded("before")
	env.MustApply(t, "default", brokenAPI)
	defer func() {
		if out, err := env.Kubectl(t.Context(), "delete", "apiservice", "v1beta1.broken.example.com"); err != nil {
			t.Error(out, err)
		}
	}()
	testenv.Eventually(t, patience, func(ctx context.Context) string {
		out, err := env.Kubectl(ctx, "get", "apiservice", "v1beta1.broken.example.com", "-o", "jsonpath={.status.conditions[?(@.type=='Available')].status}")
		if err != nil || out != "False" {
			return "not found broken yet: " + out
		}
		return ""
	})

	// A change, a new App with a definition of its own, an inspect, a delete.
	group := w.ns + ".example.com"
	if err := env.BindClusterAdmin(t.Context(), w.ns, "deployer"); err != nil {
		t.Fatal(err)
	}
	w.app("before", yttApp(map[string]string{"a.yml": cm("before", "v", "2")}))
	w.succeeded("before")
	w.wantConfigMap("before", map[string]string{"v": "2"})
	w.app("after", replaceAll(yttApp(map[string]string{"a.yml": definition(group) + "---\napiVersion: " + group + "/v1\nkind: Thing\nmetadata: {name: one}\n"}), "kapp: {}", "kapp: {inspect: {}}"))
	app := w.succeeded("after")
	if problem := contains(app.Status.Inspect.Stdout, "  Thing  "); problem != "" || app.Status.Inspect.Error != "" {
		t.Errorf("inspect: %s%s", app.Status.Inspect.Error, problem)
	}
	for _, name := range []string{"before", "after"} {
		w.delete(name)
		w.gone(name)
	}
	w.noConfigMap("before")

	w.app("user", yttApp(map[string]string{"a.yml": "{apiVersion: broken.example.com/v1beta1, kind: Thing, metadata: {name: x}}"}))
	app = w.until("user", func(a *v1alpha1.App) string { return ended(a, v1alpha1.ReconcileFailed) })
	explained(t, app, "broken.example.com/v1beta1", []string{"the API broken.example.com/v1beta1 does not answer and the App uses it"})
}

// definition is a CustomResourceDefinition of Things of any shape.
func definition(group string) string {
	return replaceAll(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.GROUP}
spec:
  group: GROUP
  scope: Namespaced
  names: {plural: things, singular: thing, kind: Thing, listKind: ThingList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`, "GROUP", group)
}
