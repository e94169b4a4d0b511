package template_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/garboard-dev/garboard/pkg/sidecar"
	"github.com/garboard-dev/garboard/pkg/template"
	"github.com/garboard-dev/garboard/pkg/tool"
	"github.com/garboard-dev/garboard/pkg/tool/budget"
	"github.com/garboard-dev/garboard/test/golden"
	"github.com/garboard-dev/garboard/test/pgp"
	"github.com/garboard-dev/garboard/test/workspace"
)

// These tests run the real tools.

const deployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {replicas: 1}
`

const chart = "apiVersion: v2\nname: demo\nversion: 0.1.0\n"

var fetched = map[string]map[string]string{
	"ytt": {
		"config/app.yml":    "#@ load(\"@ytt:data\", \"data\")\nkind: ConfigMap\nmetadata: {name: #@ data.values.name\n}\n",
		"config/schema.yml": "#@data/values-schema\n---\nname: x\na: 0\nb: 0\nc: 0\nuid: \"\"\n",
		"plain.yml":         "kind: Plain\n",
		"v.yml":             "name: from-path\n",
	},
	"helm": {
		"chart/Chart.yaml":               chart,
		"chart/values.yaml":              "a: 0\nb: 0\n",
		"chart/crds/crd.yaml":            "kind: CustomResourceDefinition\n",
		"chart/templates/cm.yaml":        "kind: ConfigMap\nmetadata: {name: {{ .Release.Name }}, namespace: {{ .Release.Namespace }}}\ndata: {a: \"{{ .Values.a }}\", b: \"{{ .Values.b }}\", v: {{ .Capabilities.KubeVersion.Version }}, has: \"{{ .Capabilities.APIVersions.Has \"example.com/v1\" }}\"}\n",
		"chart/templates/hook.yaml":      "kind: Job\nmetadata: {name: before, annotations: {helm.sh/hook: pre-install}}\n",
		"chart/templates/test.yaml":      "kind: Pod\nmetadata: {name: tested, annotations: {helm.sh/hook: test}}\n",
		"chart/templates/test-fail.yaml": "kind: Pod\nmetadata: {name: tested, annotations: {helm.sh/hook: test-success}}\n",
	},
	"helm-hooks": {
		"Chart.yaml":                "apiVersion: v2\nname: demo\nversion: 0.1.0\nkubeVersion: '>=1.30'\n",
		"crds/crd.yaml":             "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: things.example.com}\n",
		"templates/_helpers.tpl":    "{{/* lookup \"v1\" is not called here */}}\n{{- define \"demo.lookup\" }}x{{ end }}\n{{- define \"demo.secret\" }}{{ if not (lookup \"v1\" \"Secret\" \"a\" \"b\") }}new{{ end }}{{ end }}\n",
		"templates/plain.yaml":      "kind: ConfigMap\nmetadata: {name: plain}\ndata:\n  password: {{ include \"demo.secret\" . }}\n  other: {{ include \"demo.lookup\" . }}\n  large: 9007199254740993\n---\n# Nothing.\n---\nkind: ConfigMap\nmetadata: {name: settings}\n---\nkind: ServiceAccount\nmetadata: {name: migrate}\n---\nkind: ClusterRole\nmetadata: {name: migrate}\n---\nkind: Namespace\nmetadata: {name: ns}\n",
		"templates/called.yaml":     "{{- $old := lookup `v1` \"Secret\" .Release.Namespace \"x\" -}}\nkind: Secret\nmetadata:\n  name: called\n  annotations:\n",
		"templates/values.yaml":     "{{- if .Values.lookup }}{{ .Values.lookup }}{{ end }}\n# lookup \"v1\"\n",
		"templates/before.yaml":     "kind: Job\nmetadata: {name: before, annotations: {helm.sh/hook: \"pre-install, pre-upgrade\", helm.sh/hook-weight: \"5\"}}\nspec: {template: {spec: {serviceAccountName: migrate, containers: [{name: a, envFrom: [{configMapRef: {name: settings}}]}]}}}\n",
		"templates/first.yaml":      "kind: Secret\nmetadata: {name: first, annotations: {helm.sh/hook: pre-install, helm.sh/hook-weight: \"-5\"}}\n",
		"templates/after.yaml":      "kind: Job\nmetadata: {name: after, annotations: {helm.sh/hook: \"post-install,post-upgrade,test\", kapp.k14s.io/update-strategy: always-replace}}\n",
		"templates/upgrade.yaml":    "kind: Job\nmetadata: {name: upgrade, annotations: {helm.sh/hook: pre-upgrade}}\n",
		"templates/delete.yaml":     "kind: Job\nmetadata: {name: cleanup, annotations: {helm.sh/hook: \"pre-delete,post-rollback\"}}\n",
		"templates/test.yaml":       "kind: Pod\nmetadata: {name: tested, annotations: {helm.sh/hook: \"test,test-failure\"}}\n",
		"plain/Chart.yaml":          chart,
		"plain/templates/hook.yaml": "# kept as it is\nkind: Job\nmetadata: {name: upgrade, annotations: {helm.sh/hook: pre-upgrade}}\n---\nkind: Pod\nmetadata: {name: tested, annotations: {helm.sh/hook: test}}\n",
	},
	"kustomize": {
		"base/kustomization.yaml": "resources: [web.yaml]\n", "base/web.yaml": deployment,
		"prod/kustomization.yaml":   "resources: [../base]\nnamePrefix: prod-\n",
		"remote/kustomization.yaml": "resources: ['https://git.invalid/x/y?ref=v1']\n",
	},
	"jsonnet": {
		"main.jsonnet":       "local v = std.extVar('values'); [{kind: 'A', name: std.get(v, 'name', 'none')}, (import 'lib/b.libsonnet') { on: 'on' }]\n",
		"lib/b.libsonnet":    "{kind: 'B'}\n",
		"vendor/b.libsonnet": "{kind: 'wrong'}\n",
		"one.jsonnet":        "(import 'b.libsonnet')",
		"bad.jsonnet":        "[1]",
		"values.jsonnet":     "std.extVar('values')",
		"a.yml":              "name: first\nmap: {a: 1, gone: 2}\n",
		"b.yml":              "name: second\nmap: {b: 2, gone: null}\n",
		"empty.yml":          "# nothing\n",
		"list.yml":           "- 1\n",
	},
	"cue": {
		"app.cue":      "package app\n\nvalues: name: string\nout: {kind: \"A\", metadata: name: values.name}\n",
		"v.yml":        "name: from-path\n",
		"lone/one.cue": "kind: \"One\"\n",
	},
}

// The sidecar's workspace is one.
var _ template.Workspace = (*sidecar.Workspace)(nil)

func files(dir string, from map[string]string) []tool.File {
	var list []tool.File
	for name, content := range from {
		list = append(list, tool.File{Path: dir + "/" + name, Content: []byte(content)})
	}
	return list
}

// TestTools holds what comes out of each tool, and what users see when it fails.
func TestTools(t *testing.T) {
	data := map[string]map[string]string{
		"secret/vals":    {"b.yml": "b: 2\n", "a.yml": "a: 1\nb: 1\n"},
		"configmap/vals": {"c.yml": "name: from-map\n"},
		"secret/bad":     {"x.yml": "password: hunter2\n"},
		"secret/one":     {"o.yml": "kind: One\n"},
		"secret/two":     {"o.yml": "kind: Two\n"},
	}
	for name, tc := range map[string]struct{ root, in string }{
		"ytt":                {"ytt", `[{ytt: {paths: [config], inline: {pathsFrom: [{secretRef: {name: two, directoryPath: b}}, {secretRef: {name: one, directoryPath: a}}]}, valuesFrom: [{path: v.yml}, {secretRef: {name: vals}}, {configMapRef: {name: vals}}, {downwardAPI: {items: [{name: uid, fieldPath: metadata.uid}]}}]}}]`},
		"ytt-values-order":   {"ytt", `[{ytt: {paths: [config], valuesFrom: [{configMapRef: {name: vals}}, {path: v.yml}]}}]`},
		"ytt-unknown-value":  {"ytt", `[{ytt: {paths: [config], valuesFrom: [{secretRef: {name: bad}}]}}]`},
		"ytt-missing-values": {"ytt", `[{ytt: {paths: [config], valuesFrom: [{path: none.yml}]}}]`},
		"ytt-strict":         {"ytt", `[{ytt: {strict: true, inline: {paths: {a.yml: "on: yes\n"}}, paths: [plain.yml]}}]`},
		"ytt-kbld":           {"ytt", `[{ytt: {paths: [plain.yml]}}, {kbld: {}}]`},
		"ytt-missing":        {"ytt", `[{ytt: {paths: [none]}}]`},
		"helm":               {"helm", `[{helmTemplate: {path: chart, kubernetesVersion: {version: 1.30.0}, kubernetesAPIs: {groupVersions: [example.com/v1]}, valuesFrom: [{secretRef: {name: vals}}]}}]`},
		"helm-missing":       {"helm", `[{helmTemplate: {path: none}}]`},
		"helm-hooks":         {"helm-hooks", `[{helmTemplate: {}}]`},
		"helm-hooks-plain":   {"helm-hooks", `[{helmTemplate: {path: plain}}]`},
		"helm-kbld":          {"helm", `[{helmTemplate: {path: chart, name: rel, namespace: other}}, {kbld: {}}]`},
		"kustomize":          {"kustomize", `[{kustomize: {path: prod}}, {ytt: {}}]`},
		"kustomize-none":     {"kustomize", `[{kustomize: {}}]`},
		"jsonnet":            {"jsonnet", `[{jsonnet: {}}, {ytt: {}}]`},
		"jsonnet-alone":      {"jsonnet", `[{jsonnet: {}}]`},
		"jsonnet-library":    {"jsonnet", `[{jsonnet: {path: one.jsonnet, libraryPaths: [lib, vendor]}}]`},
		"jsonnet-values":     {"jsonnet", `[{jsonnet: {path: values.jsonnet, valuesFrom: [{path: a.yml}, {path: empty.yml}, {path: b.yml}, {secretRef: {name: vals}}]}}]`},
		"jsonnet-bad":        {"jsonnet", `[{jsonnet: {path: bad.jsonnet}}]`},
		"jsonnet-bad-values": {"jsonnet", `[{jsonnet: {valuesFrom: [{path: list.yml}]}}]`},
		"jsonnet-none":       {"jsonnet", `[{jsonnet: {valuesFrom: [{path: none.yml}]}}]`},
		"cue":                {"cue", `[{cue: {inputExpression: "values:", outputExpression: out, valuesFrom: [{configMapRef: {name: vals}}]}}, {ytt: {}}]`},
		"cue-path":           {"cue", `[{cue: {paths: [app.cue], inputExpression: "values:", outputExpression: out, valuesFrom: [{path: v.yml}]}}]`},
		"cue-label":          {"cue", `[{cue: {inputExpression: values, valuesFrom: [{path: v.yml}]}}]`},
		"cue-folder":         {"cue", `[{cue: {paths: [lone/one.cue]}}]`},
		"cue-missing":        {"cue", `[{cue: {paths: [none.cue]}}]`},
		"cue-qualifier":      {"cue", `[{cue: {paths: ["text:/etc/passwd"]}}]`},
	} {
		t.Run(name, func(t *testing.T) {
			ws := workspace.New(t)
			if err := ws.Put(t.Context(), files("src/0", fetched[tc.root])); err != nil {
				t.Fatal(err)
			}
			res := template.New(objects{data: data}).Template(t.Context(), ws, request(t, tc.in))
			text := string(res.Output) + "\n== error: " + res.Err + "\n== stderr\n" + res.Stderr
			golden.Equal(t, "testdata/tools/"+name+".want", []byte(strings.ReplaceAll(text, ws.Path("."), "WORKSPACE")))
			if strings.Contains(text, "hunter2") {
				t.Errorf("a secret is shown: %s", text)
			}
			for file := range ws.Tree("src/0") {
				if _, found := fetched[tc.root][file]; !found {
					t.Errorf("%s was left among the sources", file)
				}
			}
		})
	}
}

func TestKustomizeRemote(t *testing.T) {
	ws := workspace.New(t)
	if err := ws.Put(t.Context(), files("src/0", fetched["kustomize"])); err != nil {
		t.Fatal(err)
	}
	res := template.New(objects{}).Template(t.Context(), ws, request(t, `[{kustomize: {path: remote}}]`))
	if !res.Failed() || !strings.Contains(res.Stderr, "(hint: remote bases") {
		t.Errorf("error %q: %s", res.Err, res.Stderr)
	}
}

const plainSecret = "kind: Secret\nstringData:\n    password: hunter2-hunter2\n"

// encrypt returns plain as sops encrypts it.
func encrypt(t *testing.T, plain string, env []string, args ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "x.yaml")
	if err := os.WriteFile(file, []byte(plain), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), workspace.Bin(t, "tools/sops"), append(append([]string{"--encrypt"}, args...), file)...)
	cmd.Env = append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	return string(out)
}

// ageKey returns a new key and its recipient.
func ageKey(t *testing.T) (key, recipient string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), workspace.Bin(t, "dev/age-keygen")).Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if _, after, found := strings.Cut(line, "public key: "); found {
			recipient = strings.TrimSpace(after)
		}
	}
	return string(out), recipient
}

// TestSops decrypts with age and PGP, also when the right key is not the first.
func TestSops(t *testing.T) {
	key, recipient := ageKey(t)
	other, _ := ageKey(t)
	right, otherPGP := pgp.New(t), pgp.New(t).Private
	withAge := encrypt(t, plainSecret, nil, "--age", recipient)
	withPGP := encrypt(t, plainSecret, []string{"GNUPGHOME=" + right.Home}, "--pgp", right.Fingerprint)
	data := map[string]map[string]string{
		"secret/age": {"b": key, "a": other}, "secret/wrong": {"a": other},
		"secret/pgp": {"a": otherPGP + right.Private}, "secret/pgp-two": {"a": otherPGP, "b": right.Private}, "secret/pgp-wrong": {"a": otherPGP},
	}
	for name, tc := range map[string]struct {
		in, file, content string
		ok                bool
	}{
		"Age":      {`age: {privateKeysSecretRef: {name: age}}`, "d/x.sops.yaml", withAge, true},
		"AgePath":  {`paths: [d], age: {privateKeysSecretRef: {name: age}}`, "d/x.sops.yml", withAge, true},
		"AgeWrong": {`age: {privateKeysSecretRef: {name: wrong}}`, "d/x.sops.yml", withAge, false},
		"PGP":      {`pgp: {privateKeysSecretRef: {name: pgp}}`, "x.sops.yml", withPGP, true},
		"PGPTwo":   {`pgp: {privateKeysSecretRef: {name: pgp-two}}`, "x.sops.yml", withPGP, true},
		"PGPWrong": {`pgp: {privateKeysSecretRef: {name: pgp-wrong}}`, "x.sops.yml", withPGP, false},
		"Broken":   {`age: {privateKeysSecretRef: {name: age}}`, "x.sops.yml", "no: encryption\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			ws := workspace.New(t)
			if err := ws.Put(t.Context(), files("src/0", map[string]string{tc.file: tc.content, "y.yml": "kind: Y\n"})); err != nil {
				t.Fatal(err)
			}
			res := template.New(objects{data: data}).Template(t.Context(), ws, request(t, "[{sops: {"+tc.in+"}}, {ytt: {}}]"))
			if res.Failed() == tc.ok {
				t.Fatalf("error %q", res.Err)
			}
			if keys := ws.Tree("keys"); len(keys) != 0 {
				t.Errorf("keys remain: %v", keys)
			}
			tree := ws.Tree("src/0")
			if !tc.ok {
				if !strings.HasPrefix(res.Err, "Decrypting dir: Decrypting file '"+tc.file+"': Running sops: ") || res.Stderr != "" || res.ExitCode != -1 {
					t.Errorf("error %q, stderr %q, code %d", res.Err, res.Stderr, res.ExitCode)
				}
				if strings.Contains(res.Err, "AGE-SECRET-KEY") {
					t.Errorf("a key is shown: %s", res.Err)
				}
				t.Log(res.Err)
				return
			}
			plain := strings.Replace(tc.file, ".sops", "", 1)
			if tree[plain] != plainSecret || tree[tc.file] != "" || !strings.Contains(string(res.Output), "hunter2-hunter2") {
				t.Errorf("sources %v, output %s", tree, res.Output)
			}
		})
	}
}

// TestSopsHidesWhatItDecrypts: a later step that fails does not show it.
func TestSopsHidesWhatItDecrypts(t *testing.T) {
	key, recipient := ageKey(t)
	ws := workspace.New(t)
	broken := "#@ x =\nkind: Secret\nstringData:\n    password: hunter2-hunter2 #@ bad\n"
	if err := ws.Put(t.Context(), files("src/0", map[string]string{"x.sops.yml": encrypt(t, broken, nil, "--age", recipient)})); err != nil {
		t.Fatal(err)
	}
	data := map[string]map[string]string{"secret/age": {"a": key}}
	res := template.New(objects{data: data}).Template(t.Context(), ws, request(t, `[{sops: {age: {privateKeysSecretRef: {name: age}}}}, {ytt: {}}]`))
	if !res.Failed() || strings.Contains(res.Stderr, "hunter2") {
		t.Errorf("error %q: %s", res.Err, res.Stderr)
	}
	t.Log(res.Stderr)
}

// large prints three MiB of YAML.
const large = "#@ for i in range(3):\n---\nkind: ConfigMap\nmetadata:\n  name: #@ str(i)\ndata:\n  x: #@ \"x\" * 1048576\n#@ end\n"

// TestLargeOutput: an output that is large waits in the sidecar until there is room
// for it, and is whole then; a wait that is given up says what for.
func TestLargeOutput(t *testing.T) {
	room := budget.New(4 << 20)
	run := func(ctx context.Context, in string) (*budget.Hold, template.Result) {
		ws := workspace.New(t)
		if err := ws.Put(t.Context(), files("src/0", map[string]string{"a.yml": large})); err != nil {
			t.Fatal(err)
		}
		req := request(t, in)
		req.Memory = room.Hold()
		return req.Memory, template.New(objects{}).Template(ctx, ws, req)
	}
	first, res := run(t.Context(), `[{ytt: {}}, {kbld: {}}]`)
	if res.Failed() || len(res.Output) < 3<<20 || bytes.Count(res.Output, []byte("kind: ConfigMap")) != 3 {
		t.Fatalf("error %q, %d bytes", res.Err, len(res.Output))
	}
	// The second App waits as long as the first is deployed.
	ctx, cancel := context.WithCancelCause(t.Context())
	waiting := make(chan template.Result)
	go func() {
		_, res := run(ctx, `[{ytt: {}}]`)
		waiting <- res
	}()
	cancel(errors.New("the App was canceled"))
	if res := <-waiting; res.Output != nil || !strings.HasSuffix(res.Err, "the App was canceled") {
		t.Errorf("error %q, %d bytes", res.Err, len(res.Output))
	}
	go func() {
		_, res := run(t.Context(), `[{ytt: {}}, {ytt: {paths: ["-"], fileMarks: ["**/*:exclude=true"]}}]`)
		waiting <- res
	}()
	first.Release()
	if res := <-waiting; res.Failed() {
		t.Errorf("error %q", res.Err)
	}
	// Its last step printed little, so there is room again.
	if err := room.Hold().Resize(t.Context(), 4<<20); err != nil {
		t.Error(err)
	}
}
