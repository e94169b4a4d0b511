package e2e

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestTemplate: each tool, and chains of them.
func TestTemplate(t *testing.T) {
	t.Parallel()
	image, err := servers.Registry.PushImage(t.Context(), "template/web:1.0.0", file("index.html", "<h1>hello</h1>"))
	if err != nil {
		t.Fatal(err)
	}
	_, digest, _ := strings.Cut(image, "@")
	publicKey, sealed := sopsFile(t, cm("templated", "by", "sops"))
	const values = "{apiVersion: v1, kind: Secret, metadata: {name: values}, stringData: {values.yml: 'greeting: hello'}}"
	cases := map[string]struct {
		spec string
		want map[string]string
	}{
		"Ytt": {"fetch:\n" + inline(map[string]string{
			"cm.yml":     "#@ load(\"@ytt:data\", \"data\")\n---\n" + strings.ReplaceAll(cm("templated", "by", "V"), `"V"`, "#@ data.values.greeting"),
			"schema.yml": "#@data/values-schema\n---\ngreeting: \"\"\n",
		}) + "template: [{ytt: {valuesFrom: [{secretRef: {name: values}}]}}]\ndeploy: [{kapp: {}}]\n", map[string]string{"by": "hello"}},
		"YttInline": {"fetch:\n" + inline(map[string]string{"cm.yml": cm("templated", "by", "fetched")}) +
			"template: [{ytt: {paths: [cm.yml], inline: {paths: {overlay.yml: \"#@ load('@ytt:overlay', 'overlay')\\n#@overlay/match by=overlay.all\\n---\\ndata:\\n  #@overlay/match missing_ok=True\\n  more: overlay\\n\"}}}}]\ndeploy: [{kapp: {}}]\n",
			map[string]string{"by": "fetched", "more": "overlay"}},
		"Kbld": {"fetch:\n" + inline(map[string]string{"cm.yml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: templated}\nimage: " + servers.Registry.Host() + "/template/web:1.0.0\n"}) +
			"template:\n- kbld: {}\n- ytt: {inline: {paths: {move.yml: " + fmt.Sprintf("%q", kbldMove) + "}}, paths: ['-']}\ndeploy: [{kapp: {}}]\n",
			map[string]string{"by": servers.Registry.Host() + "/template/web@" + digest}},
		"HelmTemplate": {"fetch:\n" + inline(map[string]string{
			"Chart.yaml":        "apiVersion: v2\nname: inlinechart\nversion: 0.1.0\n",
			"templates/cm.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: templated}\ndata:\n  by: {{ .Values.greeting | quote }}\n  release: {{ .Release.Name }}/{{ .Release.Namespace }}\n  apis: {{ .Capabilities.APIVersions.Has \"apps/v1\" | quote }}\n",
		}) + "template: [{helmTemplate: {name: rel, namespace: relns, kubernetesAPIs: {}, kubernetesVersion: {}, valuesFrom: [{secretRef: {name: values}}]}}]\ndeploy: [{kapp: {}}]\n",
			map[string]string{"by": "hello", "release": "rel/relns", "apis": "true"}},
		"Kustomize": {"fetch:\n" + inline(map[string]string{
			"base/cm.yml": cm("templated", "by", "base"), "base/kustomization.yaml": "resources: [cm.yml]\n",
			"overlay/kustomization.yaml": "resources: [../base]\npatches:\n- target: {kind: ConfigMap}\n  patch: '[{\"op\": \"add\", \"path\": \"/data/more\", \"value\": \"patched\"}]'\n",
		}) + "template: [{kustomize: {path: overlay}}]\ndeploy: [{kapp: {}}]\n", map[string]string{"by": "base", "more": "patched"}},
		"Jsonnet": {"fetch:\n" + inline(map[string]string{
			"main.jsonnet":         "local lib = import 'lib.libsonnet';\n[lib.cm('templated', {by: std.extVar('values').greeting})]\n",
			"vendor/lib.libsonnet": "{ cm(name, data): {apiVersion: 'v1', kind: 'ConfigMap', metadata: {name: name}, data: data} }\n",
		}) + "template: [{jsonnet: {libraryPaths: [vendor], valuesFrom: [{secretRef: {name: values}}]}}]\ndeploy: [{kapp: {}}]\n", map[string]string{"by": "hello"}},
		"Sops": {"fetch:\n" + inline(map[string]string{"cm.sops.yml": sealed}) +
			"template: [{sops: {age: {privateKeysSecretRef: {name: age}}}}, {ytt: {}}]\ndeploy: [{kapp: {}}]\n", map[string]string{"by": "sops"}},
		"Cue": {"fetch:\n" + inline(map[string]string{
			"main.cue": "package main\n\ninput: greeting: string\nobject: {apiVersion: \"v1\", kind: \"ConfigMap\", metadata: name: \"templated\", data: by: input.greeting}\n",
		}) + "template: [{cue: {inputExpression: 'input:', outputExpression: object, valuesFrom: [{secretRef: {name: values}}]}}]\ndeploy: [{kapp: {}}]\n", map[string]string{"by": "hello"}},
		"Chain": {"fetch:\n" + inline(map[string]string{
			"Chart.yaml":        "apiVersion: v2\nname: inlinechart\nversion: 0.1.0\n",
			"templates/cm.yaml": cm("templated", "by", "helm"),
		}) + "template:\n- helmTemplate: {}\n- ytt: {paths: ['-'], inline: {paths: {overlay.yml: \"#@ load('@ytt:overlay', 'overlay')\\n#@overlay/match by=overlay.all\\n---\\ndata:\\n  #@overlay/match missing_ok=True\\n  then: ytt\\n\"}}}\n- kbld: {}\ndeploy: [{kapp: {}}]\n",
			map[string]string{"by": "helm", "then": "ytt"}},
		"DownwardAPI": {"fetch:\n" + inline(map[string]string{
			"cm.yml":     "#@ load(\"@ytt:data\", \"data\")\n---\n" + strings.ReplaceAll(cm("templated", "by", "V"), `"V"`, "#@ data.values.app.name"),
			"schema.yml": "#@data/values-schema\n---\napp: {name: \"\"}\n",
		}) + "template: [{ytt: {valuesFrom: [{downwardAPI: {items: [{name: app.name, fieldPath: metadata.name}]}}]}}]\ndeploy: [{kapp: {}}]\n", map[string]string{"by": "templated"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.apply(values)
			w.apply(fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {name: age}, stringData: {key.txt: %q}}", publicKey))
			w.app("templated", c.spec)
			s := w.succeeded("templated").Status
			w.wantConfigMap("templated", c.want)
			if s.Template.ExitCode != 0 || s.Template.Error != "" {
				t.Errorf("template: %+v", s.Template)
			}
		})
	}
}

// kbldMove is an overlay that moves the image which kbld resolved to where a
// ConfigMap keeps data.
const kbldMove = `#@ load("@ytt:overlay", "overlay")
#@ def move(old, _):
#@   return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "templated"}, "data": {"by": old["image"]}}
#@ end
#@overlay/match by=overlay.all
#@overlay/replace via=move
---
`

// sopsFile makes an age key and encrypts content for it with the real tools.
func sopsFile(t *testing.T, content string) (key, sealed string) {
	t.Helper()
	run := func(stdin string, path string, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		cmd := exec.CommandContext(t.Context(), path, args...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
		if err := cmd.Run(); err != nil {
			t.Fatalf("%s: %v: %s", path, err, errs.String())
		}
		return out.String()
	}
	key = run("", filepath.Join(env.BinDir("dev"), "age-keygen"))
	recipient := run(key, filepath.Join(env.BinDir("dev"), "age-keygen"), "-y")
	sealed = run(content, filepath.Join(env.BinDir("tools"), "sops"), "--encrypt", "--age", strings.TrimSpace(recipient),
		"--encrypted-regex", "^data$", "--input-type", "yaml", "--output-type", "yaml", "/dev/stdin")
	return key, sealed
}
