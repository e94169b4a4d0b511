package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// TestTemplateRefused: what a step is given and cannot use fails it, and says so;
// nothing of it is left out without a word, and nothing becomes an option of a tool.
func TestTemplateRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(secret("one", "values.yml", "a") + "---\n" + secret("two", "values.yml", "b"))
	plain := map[string]string{"a.yml": cm("templated", "by", "plain")}
	age, _ := sopsFile(t, cm("x"))
	w.apply(secret("age", "key", age))
	from := func(where string) string { return "valuesFrom: [{path: " + where + "}]" }
	for name, c := range map[string]struct {
		files         map[string]string
		steps         string
		message, more string
	}{
		"ytt-comment":      {map[string]string{"a.yml": "# unknown\n#@ x = 1\n---\n" + cm("x")}, "[{ytt: {}}]", "Templating dir: Error", "a.yml"},
		"ytt-strict":       {map[string]string{"a.yml": "on: yes\n"}, "[{ytt: {strict: true}}]", "Templating dir: Error", "Strict parsing"},
		"ytt-path-none":    {plain, "[{ytt: {paths: [none]}}]", "Templating dir: Error", "none"},
		"ytt-path-out":     {plain, "[{ytt: {paths: [../x]}}]", "Checking path: Invalid path: ../x", ""},
		"ytt-path-option":  {plain, "[{ytt: {paths: [--output-files=x]}}]", "Checking path: Invalid path: ./src", "meaning of its own"},
		"ytt-mark":         {plain, "[{ytt: {fileMarks: ['--files-inspect']}}]", "Templating dir: Error", "--files-inspect"},
		"ytt-values-none":  {echo, "[{ytt: {" + from("none.yml") + "}}]", "Templating dir: Error", "none.yml"},
		"ytt-values-out":   {echo, "[{ytt: {" + from("../x") + "}}]", "Preparing template values: Invalid path: ../x", ""},
		"ytt-no-stream":    {plain, "[{ytt: {paths: ['-']}}]", "Expected stdin to be available when using it as path, but was not", ""},
		"inline-out":       {plain, "[{ytt: {inline: {pathsFrom: [{secretRef: {name: one, directoryPath: ../x}}]}}}]", "Writing inline paths: Invalid path: ../x/values.yml", ""},
		"inline-same-key":  {plain, "[{ytt: {inline: {pathsFrom: [{secretRef: {name: one}}, {secretRef: {name: two}}]}}}]", "'values.yml' comes from secret 'one' and from secret 'two'", "directoryPath"},
		"kbld-option":      {plain, "[{kbld: {paths: [--build]}}]", "Templating dir: Error", "./src/0/--build"},
		"helm-name":        {chart(), "[{helmTemplate: {name: --post-renderer=/bin/true}}]", `Templating helm chart: Invalid release name: "--post-renderer=/bin/true"`, ""},
		"helm-namespace":   {chart(), "[{helmTemplate: {namespace: --debug}}]", `Templating helm chart: Invalid namespace: "--debug"`, ""},
		"helm-path-option": {chart(), "[{helmTemplate: {path: --repo}}]", "Templating helm chart: Error", "./src/0/--repo"},
		"helm-values-none": {chart(), "[{helmTemplate: {" + from("none.yml") + "}}]", "Templating helm chart: Error", "none.yml"},
		"helm-values-out":  {chart(), "[{helmTemplate: {" + from("../../x") + "}}]", "Preparing template values: Invalid path: ../../x", ""},
		"helm-version":     {chart(), "[{helmTemplate: {kubernetesVersion: {version: --set=a=b}}}]", "Templating helm chart: Error", "invalid kube version '--set=a=b'"},
		"helm-old-version": {chart(), "[{helmTemplate: {kubernetesVersion: {version: 1.20.0}}}]", "Templating helm chart: Error", "incompatible with Kubernetes"},
		"kustomize-after":  {plain, "[{ytt: {}}, {kustomize: {}}]", "Templating dir: Templating stream is not supported", ""},
		"kustomize-option": {plain, "[{kustomize: {path: --enable-exec}}]", "Templating dir: Error", "./src/0/--enable-exec"},
		"jsonnet-out":      {plain, "[{jsonnet: {libraryPaths: [../x]}}]", "Checking path: Invalid path: ../x", ""},
		"jsonnet-after":    {plain, "[{ytt: {}}, {jsonnet: {}}]", "Templating dir: Templating stream is not supported", ""},
		"cue-after":        {plain, "[{ytt: {}}, {cue: {}}]", "Templating dir: Templating stream is not supported", ""},
		"cue-values-none":  {map[string]string{"a.cue": "package a\n"}, "[{cue: {" + from("none.yml") + "}}]", "Templating dir: Error", "none.yml"},
		"cue-values-out":   {map[string]string{"a.cue": "package a\n"}, "[{cue: {" + from("../x") + "}}]", "Writing values: Preparing template values: Invalid path: ../x", ""},
		"cue-option":       {map[string]string{"a.cue": "package a\n"}, "[{cue: {paths: [--help]}}]", "Templating dir: Error", "--help"},
		"cue-expression":   {map[string]string{"a.cue": "package a\n"}, "[{cue: {outputExpression: --force}}]", "Templating dir: Error", ""},
		"sops-after":       {plain, "[{ytt: {}}, {sops: {age: {privateKeysSecretRef: {name: age}}}}]", "Templating data is not supported", ""},
		"sops-neither":     {plain, "[{sops: {}}]", "Unsupported SOPS strategy", ""},
		"sops-no-ref":      {plain, "[{sops: {pgp: {}}}]", "Building config: Expected privateKeysSecretRef to be specified", ""},
		"sops-plain":       {map[string]string{"a.sops.yml": cm("x")}, "[{sops: {age: {privateKeysSecretRef: {name: age}}}}]", "Decrypting dir: Decrypting file 'a.sops.yml': Running sops: ", ""},
		"values-none":      {echo, "[{ytt: {valuesFrom: [{}]}}]", "Preparing template values: Expected one of secretRef, configMapRef, downwardAPI, or path as a source", ""},
		"values-secret":    {echo, "[{ytt: {valuesFrom: [{secretRef: {name: none}}]}}]", `Preparing template values: secrets "none" not found`, ""},
		"fact-name":        {echo, "[{ytt: {valuesFrom: [{downwardAPI: {items: [{name: a..b, fieldPath: metadata.name}]}}]}}]", "Preparing template values: Invalid name was provided 'a..b'", ""},
		"fact-spec":        {echo, "[{ytt: {valuesFrom: [{downwardAPI: {items: [{name: a, fieldPath: spec}]}}]}}]", "Preparing template values: spec is not found", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world{t, w.ns}
			w.app(name, templated(c.files, c.steps))
			app := w.failed(name)
			useful := []string{}
			if c.more != "" {
				useful = append(useful, c.more)
			}
			checkFailure(t, app, "template", c.message, useful)
			if strings.Contains(app.Status.UsefulErrorMessage, "is not allowed") {
				t.Errorf("only the sidecar stopped it: %s", app.Status.UsefulErrorMessage)
			}
		})
	}
}

// TestYttInlineFolders: two objects with the same key in different folders both reach
// ytt, in the order of their paths.
func TestYttInlineFolders(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	doc := func(name, after string) string {
		return fmt.Sprintf("#@data/values\n---\n#@overlay/match missing_ok=True\nout:\n  #@overlay/match missing_ok=True\n  %s: \"here\"\n  #@overlay/match missing_ok=True\n  last: %q\n", name, after)
	}
	w.apply(secret("a", "values.yml", doc("a", "one")) + "---\n" + secret("b", "values.yml", doc("b", "two")))
	w.app("templated", templated(echo, "[{ytt: {inline: {pathsFrom: [{secretRef: {name: b, directoryPath: two}}, {secretRef: {name: a, directoryPath: one}}]}}}]"))
	w.succeeded("templated")
	w.wantConfigMap("templated", map[string]string{"a": "here", "b": "here", "last": "two"})
}
