package e2e

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/client-go/discovery"
)

// echo is a ytt program that deploys what it is given in data value out, and takes
// any other value, too.
var echo = map[string]string{
	"config/echo.yml":   "#@ load(\"@ytt:data\", \"data\")\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: templated\ndata: #@ data.values.out\n",
	"config/schema.yml": "#@data/values-schema\n---\n#@schema/type any=True\nout: {}\n",
}

// with returns files and more of them, as name and content.
func with(files map[string]string, more ...string) map[string]string {
	out := map[string]string{}
	for name, content := range files {
		out[name] = content
	}
	for i := 0; i < len(more); i += 2 {
		out[more[i]] = more[i+1]
	}
	return out
}

// templated is the spec of an App that runs steps on files.
func templated(files map[string]string, steps string) string {
	return "fetch:\n" + inline(files) + "template: " + steps + "\ndeploy: [{kapp: {}}]\n"
}

// field is a test of one field of a template step: an App that uses it, and the
// ConfigMap named templated that is deployed then.
type field struct {
	files map[string]string
	steps string
	// objects are there before the App.
	objects string
	want    map[string]string
}

func (f field) run(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if f.objects != "" {
		w.apply(f.objects)
	}
	w.apply(fmt.Sprintf("apiVersion: kappctrl.k14s.io/v1alpha1\nkind: App\nmetadata:\n  name: templated\n  labels: {app.example.com/part: web}\n  annotations: {plain: note}\nspec:\n  serviceAccountName: deployer\n%s", indent(templated(f.files, f.steps))))
	app := w.succeeded("templated")
	for key, value := range f.want {
		f.want[key] = replaceAll(value, "${UID}", string(app.UID), "${NAMESPACE}", w.ns)
	}
	w.wantConfigMap("templated", f.want)
}

// values is a Secret and a ConfigMap, each with two values files.
const values = `
apiVersion: v1
kind: Secret
metadata: {name: secret}
stringData: {b.yml: 'out: {by: secret, b: "2"}', a.yml: 'out: {by: first, a: "1"}'}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: map}
data: {c.yml: 'out: {by: map, c: "3"}'}
`

// TestYttFields: each field of a ytt step but the downward API.
func TestYttFields(t *testing.T) {
	t.Parallel()
	plain := cm("templated", "by", "plain")
	for name, f := range map[string]field{
		"ignoreUnknownComments": {files: map[string]string{"a.yml": "# a comment that ytt does not know\n#@ x = 1\n---\n" + plain}, steps: "[{ytt: {ignoreUnknownComments: true}}]", want: map[string]string{"by": "plain"}},
		"strict":                {files: map[string]string{"a.yml": plain}, steps: "[{ytt: {strict: true}}]", want: map[string]string{"by": "plain"}},
		"paths":                 {files: map[string]string{"a/cm.yml": plain, "b.yml": "not: deployed\n"}, steps: "[{ytt: {paths: [/a/cm.yml]}}]", want: map[string]string{"by": "plain"}},
		"paths-stream":          {files: with(echo, "o.yml", addThen), steps: "[{ytt: {paths: [config]}}, {ytt: {paths: ['-', o.yml]}}]", want: map[string]string{"then": "ytt"}},
		"inline.paths":          {files: map[string]string{"cm.yml": plain}, steps: fmt.Sprintf("[{ytt: {paths: [cm.yml], inline: {paths: {a/b/o.yml: %q}}}}]", addThen), want: map[string]string{"by": "plain", "then": "ytt"}},
		"inline.pathsFrom":      {files: with(echo), steps: "[{ytt: {paths: [config], inline: {pathsFrom: [{secretRef: {name: overlay}}, {configMapRef: {name: overlay}}]}}}]", objects: overlays, want: map[string]string{"from": "config map", "then": "ytt"}},
		"fileMarks":             {files: map[string]string{"a.yml": plain, "b.yml": "not: deployed\n", "c.txt": plain}, steps: "[{ytt: {fileMarks: ['b.yml:exclude=true']}}]", want: map[string]string{"by": "plain"}},
		"valuesFrom.secretRef":  {files: with(echo), steps: "[{ytt: {valuesFrom: [{secretRef: {name: secret}}]}}]", objects: values, want: map[string]string{"by": "secret", "a": "1", "b": "2"}},
		"valuesFrom.order":      {files: with(echo, "v.txt", "out: {by: path}"), steps: "[{ytt: {valuesFrom: [{path: v.txt}, {secretRef: {name: secret}}, {configMapRef: {name: map}}]}}]", objects: values, want: map[string]string{"by": "map", "a": "1", "b": "2", "c": "3"}},
		"valuesFrom.path":       {files: with(echo, "v.txt", "out: {by: path}"), steps: "[{ytt: {valuesFrom: [{configMapRef: {name: map}}, {path: ./v.txt}]}}]", objects: values, want: map[string]string{"by": "path", "c": "3"}},
		"valuesFrom.stream":     {files: with(echo, "v/v.yml", "out: {by: stream}"), steps: "[{ytt: {paths: [v]}}, {ytt: {paths: [config], valuesFrom: [{path: '-'}]}}]", want: map[string]string{"by": "stream"}},
	} {
		t.Run(name, f.run)
	}
}

// addThen is an overlay for all documents.
const addThen = "#@ load('@ytt:overlay', 'overlay')\n#@overlay/match by=overlay.all\n---\ndata:\n  #@overlay/match missing_ok=True\n  then: ytt\n"

// overlays has the same key in a Secret and a ConfigMap: by directoryPath they would
// differ; here their content does not.
var overlays = fmt.Sprintf(`
apiVersion: v1
kind: Secret
metadata: {name: overlay}
stringData: {o.yml: %q}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: overlay}
data: {v.yml: "#@data/values\n---\n#@overlay/match missing_ok=True\nout:\n  #@overlay/match missing_ok=True\n  from: config map\n"}
`, addThen)

// TestDownwardAPI: each fact, live and given. The cluster is asked what it is.
func TestDownwardAPI(t *testing.T) {
	t.Parallel()
	live, err := discovery.NewDiscoveryClientForConfig(env.Config())
	if err != nil {
		t.Fatal(err)
	}
	version, err := live.ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	// Lists become text, as a ConfigMap holds nothing else.
	lists := with(echo)
	lists["config/echo.yml"] = "#@ load(\"@ytt:data\", \"data\")\n#@ load(\"@ytt:struct\", \"struct\")\n#@ out = struct.decode(data.values.out)\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: templated\ndata:\n  given: #@ \",\".join(out[\"given\"])\n  apps: #@ str(\"apps/v1\" in out[\"live\"])\n  core: #@ str(\"v1\" in out[\"live\"])\n  none: #@ str(\"example.com/v1\" in out[\"live\"])\n"
	fact := func(item string) string { return "[{ytt: {valuesFrom: [{downwardAPI: {items: [" + item + "]}}]}}]" }
	for name, f := range map[string]field{
		"fieldPath.name":        {files: with(echo), steps: fact("{name: out.x, fieldPath: metadata.name}"), want: map[string]string{"x": "templated"}},
		"fieldPath.namespace":   {files: with(echo), steps: fact("{name: out.x, fieldPath: .metadata.namespace}"), want: map[string]string{"x": "${NAMESPACE}"}},
		"fieldPath.uid":         {files: with(echo), steps: fact("{name: out.x, fieldPath: '{.metadata.uid}'}"), want: map[string]string{"x": "${UID}"}},
		"fieldPath.labels":      {files: with(echo), steps: fact(`{name: 'out.a\.b', fieldPath: "metadata.labels['app\\.example\\.com/part']"}`), want: map[string]string{"a.b": "web"}},
		"fieldPath.annotation":  {files: with(echo), steps: fact("{name: out.x, fieldPath: metadata.annotations.plain}"), want: map[string]string{"x": "note"}},
		"fieldPath.map":         {files: with(echo), steps: fact("{name: out, fieldPath: metadata.annotations}"), want: map[string]string{"plain": "note"}},
		"kubernetesVersion":     {files: with(echo), steps: fact("{name: out.x, kubernetesVersion: {}}"), want: map[string]string{"x": strings.TrimPrefix(version.GitVersion, "v")}},
		"kubernetesVersion.set": {files: with(echo), steps: fact("{name: out.x, kubernetesVersion: {version: '1.20'}}"), want: map[string]string{"x": "1.20"}},
		"controllerVersion":     {files: with(echo), steps: fact("{name: out.x, kappControllerVersion: {}}"), want: map[string]string{"x": "0.54.0"}},
		"controllerVersion.set": {files: with(echo), steps: fact("{name: out.x, kappControllerVersion: {version: 0.1.0}}"), want: map[string]string{"x": "0.1.0"}},
		"kubernetesAPIs":        {files: lists, steps: fact("{name: out.live, kubernetesAPIs: {}}, {name: out.given, kubernetesAPIs: {groupVersions: [a/v1, b/v2]}}"), want: map[string]string{"given": "a/v1,b/v2", "apps": "True", "core": "True", "none": "False"}},
		"typed":                 {files: with(echo), steps: fact("{name: out.x, kubernetesVersion: {version: 'on'}}, {name: out.y, kappControllerVersion: {version: '1.0'}}"), want: map[string]string{"x": "on", "y": "1.0"}},
	} {
		t.Run(name, f.run)
	}
}

// TestOtherFields: each field of the steps that are neither ytt, helm nor sops.
func TestOtherFields(t *testing.T) {
	t.Parallel()
	program := "package main\n\n#in: {data: [string]: string, ...}\nin: #in\nobject: {apiVersion: \"v1\", kind: \"ConfigMap\", metadata: name: \"templated\", data: in.data}\n"
	cueValues := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: values}\ndata: {v.yml: 'data: {by: map}'}\n"
	jsonnet := "local v = std.extVar('values'); (import 'cm.libsonnet') + { data: v.out }\n"
	object := "{apiVersion: 'v1', kind: 'ConfigMap', metadata: {name: 'templated'}}\n"
	for name, f := range map[string]field{
		"kbld.paths":           {files: map[string]string{"a/cm.yml": cm("templated", "by", "kbld"), "b.yml": "not: deployed\n"}, steps: "[{kbld: {paths: [a]}}]", want: map[string]string{"by": "kbld"}},
		"kbld.stream":          {files: map[string]string{"cm.yml": cm("templated", "by", "kbld"), "o.yml": "not: deployed\n"}, steps: "[{ytt: {paths: [cm.yml]}}, {kbld: {paths: ['-']}}]", want: map[string]string{"by": "kbld"}},
		"kustomize.default":    {files: map[string]string{"cm.yml": cm("templated", "by", "root"), "kustomization.yaml": "resources: [cm.yml]\n"}, steps: "[{kustomize: {}}]", want: map[string]string{"by": "root"}},
		"kustomize.path":       {files: map[string]string{"base/cm.yml": cm("templated", "by", "base"), "base/kustomization.yaml": "resources: [cm.yml]\n", "prod/kustomization.yaml": "resources: [../base]\n"}, steps: "[{kustomize: {path: ./prod}}]", want: map[string]string{"by": "base"}},
		"jsonnet.default":      {files: map[string]string{"main.jsonnet": object}, steps: "[{jsonnet: {}}]", want: nil},
		"jsonnet.path":         {files: map[string]string{"a/b.jsonnet": jsonnet, "a/cm.libsonnet": object, "v.yml": "out: {by: path}"}, steps: "[{jsonnet: {path: a/b.jsonnet, valuesFrom: [{secretRef: {name: secret}}, {path: v.yml}]}}]", objects: values, want: map[string]string{"by": "path", "a": "1", "b": "2"}},
		"jsonnet.libraryPaths": {files: map[string]string{"main.jsonnet": jsonnet, "one/cm.libsonnet": object, "two/cm.libsonnet": "error 'the second folder'"}, steps: "[{jsonnet: {libraryPaths: [one, two], valuesFrom: [{configMapRef: {name: map}}]}}]", objects: values, want: map[string]string{"by": "map", "c": "3"}},
		"cue.paths":            {files: map[string]string{"a/one.cue": program, "b.cue": "package other\n"}, steps: "[{cue: {paths: [a/one.cue], inputExpression: 'in:', outputExpression: object, valuesFrom: [{configMapRef: {name: values}}]}}]", objects: cueValues, want: map[string]string{"by": "map"}},
		"cue.valuesFrom.path":  {files: map[string]string{"one.cue": program, "v.yml": "data: {by: path}"}, steps: "[{cue: {inputExpression: 'in:', outputExpression: object, valuesFrom: [{path: v.yml}]}}]", want: map[string]string{"by": "path"}},
		"cue.whole":            {files: map[string]string{"one.cue": "apiVersion: \"v1\"\nkind: \"ConfigMap\"\nmetadata: name: \"templated\"\ndata: [string]: string\n", "v.yml": "data: {by: whole}"}, steps: "[{cue: {paths: [one.cue], valuesFrom: [{path: v.yml}]}}]", want: map[string]string{"by": "whole"}},
		"cue.valuesFrom.facts": {files: map[string]string{"one.cue": program}, steps: "[{cue: {inputExpression: 'in:', outputExpression: object, valuesFrom: [{downwardAPI: {items: [{name: data.by, fieldPath: metadata.name}]}}]}}]", want: map[string]string{"by": "templated"}},
		"last-output-counts":   {files: map[string]string{"a.yml": cm("other", "not", "deployed"), "b.yml": cm("templated", "by", "second")}, steps: "[{ytt: {paths: [a.yml]}}, {ytt: {paths: [b.yml]}}]", want: map[string]string{"by": "second"}},
		"first-member-counts":  {files: map[string]string{"a.yml": cm("templated", "by", "ytt")}, steps: "[{ytt: {}, kbld: {paths: [none]}, kustomize: {}}]", want: map[string]string{"by": "ytt"}},
	} {
		t.Run(name, f.run)
	}
}
