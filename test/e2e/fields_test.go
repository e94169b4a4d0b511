package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
)

// What is here is about single fields that no other test needs; docs/reference/app.md
// lists the tests of all.

// TestStderr: what the tool of the stage that failed printed is in that stage, with
// its exit code, and is what users are to read first.
func TestStderr(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.app("fetch", fmt.Sprintf("fetch: [{http: {url: %q}}]\n", servers.Files.URL()+"/is-not-there.yml")+deployAll)
	w.app("template", yttApp(map[string]string{"a.yml": "v: #@ nothere"}))
	w.app("deploy", yttApp(map[string]string{"a.yml": "just: data"}))
	for name, tool := range map[string]string{"fetch": "vendir: Error: ", "template": "ytt: Error: ", "deploy": "kapp: Error: "} {
		s := w.failed(name).Status
		var stderr string
		var exitCode int
		switch name {
		case "fetch":
			stderr, exitCode = s.Fetch.Stderr, s.Fetch.ExitCode
		case "template":
			stderr, exitCode = s.Template.Stderr, s.Template.ExitCode
		case "deploy":
			stderr, exitCode = s.Deploy.Stderr, s.Deploy.ExitCode
		}
		if exitCode != 1 || !strings.Contains(stderr, tool) || s.UsefulErrorMessage != stderr {
			t.Errorf("%s: exit code %d, stderr %q, useful message %q", name, exitCode, stderr, s.UsefulErrorMessage)
		}
	}
}

// TestInspectFails: an App whose inspect fails has deployed all the same, and says
// why there is no table.
func TestInspectFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.app("i", strings.Replace(yttApp(map[string]string{"a.yml": cm("i-config")}), "kapp: {}", "kapp: {inspect: {rawOptions: ['--filter=not-json']}}", 1))
	i := w.succeeded("i").Status.Inspect
	if i == nil || i.ExitCode != 1 || !strings.Contains(i.Error, "Inspecting: Error") || !strings.Contains(i.Stderr, "kapp: Error: ") || i.UpdatedAt.IsZero() {
		t.Fatalf("inspect: %+v", i)
	}
	w.edit("i", func(a *v1alpha1.App) { a.Spec.Deploy[0].Kapp.Inspect.RawOptions = []string{"--status=true"} })
	if i = w.succeeded("i").Status.Inspect; i.ExitCode != 0 || i.Error != "" || i.Stderr != "" || !strings.Contains(i.Stdout, "Resources in app 'i.app'") {
		t.Errorf("inspect: %+v", i)
	}
}

// TestGroupKinds: the kinds that were deployed, each in its group.
func TestGroupKinds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.app("kinds", yttApp(map[string]string{"a.yml": cm("kinds"), "d.yml": deployment("kinds", "")}))
	kinds := w.succeeded("kinds").Status.Deploy.KappDeployStatus.AssociatedResources.GroupKinds
	for _, want := range []v1alpha1.GroupKind{{Group: "", Kind: "ConfigMap"}, {Group: "apps", Kind: "Deployment"}} {
		if !slices.Contains(kinds, want) {
			t.Errorf("kinds %v lack %v", kinds, want)
		}
	}
}

// TestFieldsNeverSet: clients that wait for these would wait for ever, and those that
// show them show nothing, as with kapp-controller.
func TestFieldsNeverSet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.app("good", yttApp(map[string]string{"a.yml": cm("good")}))
	w.app("bad", yttApp(map[string]string{"a.yml": "just: data"}))
	w.succeeded("good")
	w.failed("bad")
	for _, name := range []string{"good", "bad"} {
		app, err := w.apps().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		status, _, _ := unstructured.NestedMap(app.Object, "status")
		if v, ok := status["managedAppName"]; ok {
			t.Errorf("%s: managedAppName is %v", name, v)
		}
		condition := status["conditions"].([]any)[0].(map[string]any)
		if v, ok := condition["reason"]; ok {
			t.Errorf("%s: the condition has reason %v", name, v)
		}
	}
}
