package e2e

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/discovery"
)

// chart is a chart whose ConfigMap has what the chart sees, as its only template.
func chart(more ...string) map[string]string {
	return with(map[string]string{
		"Chart.yaml":  "apiVersion: v2\nname: demo\nversion: 0.1.0\nkubeVersion: '>=1.29.0'\n",
		"values.yaml": "out: {by: chart}\napi: none\n",
		"templates/cm.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: templated}\ndata: {{ toYaml .Values.out | nindent 2 }}\n" +
			"  release: {{ .Release.Name }} in {{ .Release.Namespace }}\n  version: {{ .Capabilities.KubeVersion }}\n  has: {{ .Capabilities.APIVersions.Has .Values.api | quote }}\n",
	}, more...)
}

// TestHelmFields: each field of a helmTemplate step.
func TestHelmFields(t *testing.T) {
	t.Parallel()
	live, err := discovery.NewDiscoveryClientForConfig(env.Config())
	if err != nil {
		t.Fatal(err)
	}
	version, err := live.ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	// Without the field charts see the release that Helm itself was made for. Which
	// that is is not ours to say, but not 1.20, which this chart would refuse.
	fixed := func(step string) string {
		return strings.Replace(step, "{", "{kubernetesVersion: {version: 1.30.0}, ", 1)
	}
	moved := map[string]string{}
	for name, content := range chart() {
		moved["a/b/"+name] = content
	}
	data := func(pairs ...string) map[string]string {
		return with(map[string]string{"by": "chart", "release": "templated in ${NAMESPACE}", "version": "v1.30.0", "has": "false"}, pairs...)
	}
	for name, f := range map[string]field{
		"defaults":                {files: chart(), steps: "[{helmTemplate: " + fixed("{}") + "}]", want: data()},
		"no-version":              {files: chart("templates/cm.yaml", cm("templated", "by", "chart")), steps: "[{helmTemplate: {}}]", want: map[string]string{"by": "chart"}},
		"name":                    {files: chart(), steps: "[{helmTemplate: " + fixed("{name: rel.one-2}") + "}]", want: data("release", "rel.one-2 in ${NAMESPACE}")},
		"namespace":               {files: chart(), steps: "[{helmTemplate: " + fixed("{namespace: elsewhere}") + "}]", want: data("release", "templated in elsewhere")},
		"path":                    {files: moved, steps: "[{helmTemplate: " + fixed("{path: a/b}") + "}]", want: data()},
		"valuesFrom.secretRef":    {files: chart(), objects: values, steps: "[{helmTemplate: " + fixed("{valuesFrom: [{secretRef: {name: secret}}]}") + "}]", want: data("by", "secret", "a", "1", "b", "2")},
		"valuesFrom.configMapRef": {files: chart(), objects: values, steps: "[{helmTemplate: " + fixed("{valuesFrom: [{secretRef: {name: secret}}, {configMapRef: {name: map}}]}") + "}]", want: data("by", "map", "a", "1", "b", "2", "c", "3")},
		"valuesFrom.path":         {files: chart("a,b.yml", "out: {by: path}"), steps: "[{helmTemplate: " + fixed("{valuesFrom: [{path: 'a,b.yml'}]}") + "}]", want: data("by", "path")},
		"valuesFrom.stream":       {files: chart("v/v.yml", "out: {by: stream}"), steps: "[{ytt: {paths: [v]}}, {helmTemplate: " + fixed("{valuesFrom: [{path: '-'}]}") + "}]", want: data("by", "stream")},
		"valuesFrom.downwardAPI":  {files: chart(), steps: "[{helmTemplate: " + fixed("{valuesFrom: [{downwardAPI: {items: [{name: out.uid, fieldPath: metadata.uid}]}}]}") + "}]", want: data("uid", "${UID}")},
		"kubernetesVersion":       {files: chart(), steps: "[{helmTemplate: {kubernetesVersion: {}}}]", want: data("version", version.GitVersion)},
		"kubernetesAPIs":          {files: chart("values.yaml", "out: {by: chart}\napi: apps/v1\n"), steps: "[{helmTemplate: " + fixed("{kubernetesAPIs: {}}") + "}]", want: data("has", "true")},
		"kubernetesAPIs.set":      {files: chart("values.yaml", "out: {by: chart}\napi: example.com/v1\n"), steps: "[{helmTemplate: " + fixed("{kubernetesAPIs: {groupVersions: [a/v1, example.com/v1]}}") + "}]", want: data("has", "true")},
		"then-ytt": {files: chart("o.yml", addThen, "templates/job.yaml", job("first", "pre-install")), steps: "[{helmTemplate: " + fixed("{}") + "}, {ytt: {paths: ['-'], inline: {paths: {o.yml: " +
			quoted(strings.Replace(addThen, "overlay.all", `overlay.subset({"kind": "ConfigMap"})`, 1)) + "}}}}]", want: data("then", "ytt")},
	} {
		t.Run(name, f.run)
	}
}

// job is a Job with the hook annotation, as a template of a chart.
func job(name, hook string, more ...string) string {
	text := "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: " + name + "\n  annotations:\n    helm.sh/hook: " + hook + "\n"
	for _, line := range more {
		text += "    " + line + "\n"
	}
	return text + "spec:\n  template:\n    spec:\n      restartPolicy: Never\n      containers: [{name: a, image: example.com/a}]\n"
}

// TestHelmHooks: hooks of an install are deployed around the rest of the chart, each
// when the one before is complete; those for other times are not deployed at all.
func TestHelmHooks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.app("hooks", templated(chart(
		"templates/before.yaml", job("before", "pre-install,pre-upgrade"),
		"templates/early.yaml", job("early", "pre-install", `helm.sh/hook-weight: "-1"`),
		"templates/after.yaml", job("after", "post-install"),
		"templates/upgrade.yaml", job("upgrade", "pre-upgrade"),
		"templates/cleanup.yaml", job("cleanup", "pre-delete"),
		"templates/test.yaml", job("test", "test"),
		"templates/tested.yaml", job("tested", "test-success"),
		"templates/secret.yaml", "{{- $old := lookup \"v1\" \"Secret\" .Release.Namespace \"x\" }}\n",
	), "[{helmTemplate: {}}]"))
	app := w.succeeded("hooks")
	w.configMap("templated")
	stdout, at := app.Status.Deploy.Stdout, map[string]int{}
	for _, text := range []string{
		"create job/early (batch/v1)", "ok: reconcile job/early (batch/v1)", "create job/before (batch/v1)", "ok: reconcile job/before (batch/v1)",
		"create configmap/templated (v1)", "ok: reconcile configmap/templated (v1)", "create job/after (batch/v1)", "create job/upgrade (batch/v1)",
	} {
		if at[text] = strings.LastIndex(stdout, text); at[text] < 0 {
			t.Errorf("%q is missing in\n%s", text, stdout)
		}
	}
	order := slices.SortedFunc(maps.Keys(at), func(a, b string) int { return at[a] - at[b] })
	for _, pair := range [][2]string{
		{"ok: reconcile job/early (batch/v1)", "create job/before (batch/v1)"}, {"ok: reconcile job/before (batch/v1)", "create configmap/templated (v1)"},
		{"ok: reconcile configmap/templated (v1)", "create job/after (batch/v1)"},
	} {
		if at[pair[0]] > at[pair[1]] {
			t.Errorf("%q comes after %q: %q", pair[0], pair[1], order)
		}
	}
	for _, name := range []string{"job/test ", "job/tested ", "job/cleanup "} {
		if strings.Contains(stdout, name) {
			t.Errorf("%s is deployed:\n%s", name, stdout)
		}
	}
	for _, text := range []string{"warning: hook Job cleanup is left out: it is for pre-delete only\n", "warning: templates/secret.yaml calls lookup, which finds nothing"} {
		if problem := contains(app.Status.Template.Stderr, text); problem != "" {
			t.Error(problem)
		}
	}
	if app.Status.Template.ExitCode != 0 || app.Status.UsefulErrorMessage != "" {
		t.Errorf("a warning became an error: %+v, %q", app.Status.Template, app.Status.UsefulErrorMessage)
	}

	// A changed hook is made anew, as Helm does it; kapp cannot change a Job.
	w.app("hooks", templated(chart("templates/before.yaml", strings.Replace(job("before", "pre-install,pre-upgrade"), "example.com/a", "example.com/b", 1)), "[{helmTemplate: {}}]"))
	w.succeeded("hooks")
}
