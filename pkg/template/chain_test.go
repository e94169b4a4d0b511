package template_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/sidecar"
	"github.com/garboard-dev/garboard/pkg/template"
	"github.com/garboard-dev/garboard/pkg/tool"
	"github.com/garboard-dev/garboard/test/golden"
)

// objects serves Secrets and ConfigMaps by "secret/name" and "configmap/name".
type objects struct {
	data  map[string]map[string]string
	reads map[string]int
}

func (o objects) Secret(_ context.Context, namespace, name string) (*corev1.Secret, error) {
	data, found := o.data["secret/"+name]
	if !found {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
	}
	if o.reads != nil {
		o.reads[namespace+"/secret/"+name]++
	}
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{}}
	for k, v := range data {
		s.Data[k] = []byte(v)
	}
	return s, nil
}

func (o objects) ConfigMap(_ context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	data, found := o.data["configmap/"+name]
	if !found {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, name)
	}
	if o.reads != nil {
		o.reads[namespace+"/configmap/"+name]++
	}
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}, nil
}

// cluster is what is known of the cluster; err fails all that asks it.
type cluster struct {
	asked int
	err   error
}

func (c *cluster) KubernetesVersion(context.Context) (string, error) {
	c.asked++
	return "1.37.2", c.err
}

func (c *cluster) KubernetesAPIs(context.Context) ([]string, error) {
	c.asked++
	return []string{"v1", "apps/v1"}, c.err
}

func (c *cluster) ControllerVersion() string { return "1.0.0" }

// recorder is a workspace that writes down what happens in it. Each run prints
// the name of its tool, or what run says.
type recorder struct {
	log   strings.Builder
	files []string // for List
	// finds and findErr are what Find returns.
	finds   []string
	findErr error
	run     func(tool.Command) (tool.Result, error)
	runs    int
}

func (r *recorder) Put(_ context.Context, files []tool.File) error {
	for _, f := range files {
		fmt.Fprintf(&r.log, "put %s\n%s", f.Path, indent(string(f.Content)))
	}
	return nil
}

func (r *recorder) Run(_ context.Context, c tool.Command) (tool.Result, error) {
	r.runs++
	fmt.Fprintf(&r.log, "run %s\n", c.Name)
	for _, a := range c.Args {
		fmt.Fprintf(&r.log, "  %s\n", a)
	}
	if c.Dir != "" {
		fmt.Fprintf(&r.log, "  in %s\n", c.Dir)
	}
	if len(c.Env) > 0 {
		fmt.Fprintf(&r.log, "  with %s\n", strings.Join(c.Env, " "))
	}
	if c.Stdin != nil {
		fmt.Fprintf(&r.log, "  stdin\n%s", indent(string(c.Stdin)))
	}
	if err := sidecar.Check(c); err != nil {
		return tool.Result{ExitCode: -1}, err
	}
	if r.run != nil {
		return r.run(c)
	}
	return tool.Result{Stdout: []byte("from " + c.Name + "\n"), Stderr: []byte("warning\n")}, nil
}

func (r *recorder) List(_ context.Context, dir string, _ []string) ([]string, error) {
	fmt.Fprintf(&r.log, "list %s\n", dir)
	var found []string
	for _, f := range r.files {
		if f == dir || strings.HasPrefix(f, dir+"/") {
			found = append(found, f)
		}
	}
	return found, nil
}

func (r *recorder) Find(_ context.Context, dir string, suffixes []string, _ string) ([]string, error) {
	fmt.Fprintf(&r.log, "find in %s%v\n", dir, suffixes)
	return r.finds, r.findErr
}

func (r *recorder) Remove(_ context.Context, paths []string) error {
	fmt.Fprintf(&r.log, "remove %s\n", strings.Join(paths, " "))
	return nil
}

func indent(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		b.WriteString("  | " + line)
	}
	if s != "" && !strings.HasSuffix(s, "\n") {
		b.WriteString("\n")
	}
	return b.String()
}

// steps parses spec.template as a user writes it.
func steps(t testing.TB, text string) []v1alpha1.AppTemplate {
	t.Helper()
	var s []v1alpha1.AppTemplate
	if err := yaml.UnmarshalStrict([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

func request(t testing.TB, text string) template.Request {
	return template.Request{
		Name: "demo", Namespace: "team-a", UID: "1111", Labels: map[string]string{"app.example/part": "web"},
		Annotations: map[string]string{"a": "1", "b": "2"}, Steps: steps(t, text), Root: "src/0", Facts: &cluster{},
	}
}

var stored = map[string]map[string]string{
	"secret/vals":    {"b.yml": "b: 2\n", "a.yml": "a: 1\n"},
	"configmap/vals": {"c.yml": "c: 3\n"},
	"secret/one":     {"values.yml": "a"},
	"secret/two":     {"values.yml": "b"},
	"secret/age":     {"b": "AGE-SECRET-KEY-B", "a": "AGE-SECRET-KEY-A"},
	"secret/nokey":   {"a": "no key"},
}

// TestSteps holds what each step writes and runs.
func TestSteps(t *testing.T) {
	for name, text := range map[string]string{
		"ytt":            `[{ytt: {}}]`,
		"ytt-all":        `[{ytt: {ignoreUnknownComments: true, strict: true, paths: [app, x/../--x, /conf], inline: {paths: {o.yml: x}, pathsFrom: [{secretRef: {name: one, directoryPath: d}}]}, fileMarks: ["a.yml:type=data"], valuesFrom: [{secretRef: {name: vals}}, {path: v.yml}, {configMapRef: {name: vals}}]}}]`,
		"ytt-kbld":       `[{ytt: {}}, {kbld: {}}]`,
		"ytt-then-paths": `[{ytt: {}}, {ytt: {paths: ["-", overlay]}}, {kbld: {paths: ["-", .imgpkg/images.yml]}}]`,
		"ytt-stdin-vals": `[{ytt: {}}, {ytt: {paths: [app], valuesFrom: [{path: "-"}]}}]`,
		"kbld":           `[{kbld: {}}]`,
		"kbld-comma":     `[{kbld: {paths: ["a,/etc/passwd"]}}]`,
		"helm":           `[{helmTemplate: {}}]`,
		"helm-all":       `[{helmTemplate: {name: rel, namespace: ns, path: chart, kubernetesVersion: {version: 1.30.0}, kubernetesAPIs: {groupVersions: [a/v1, b/v1]}, valuesFrom: [{secretRef: {name: vals}}, {path: "a,/etc/x"}]}}]`,
		"helm-live":      `[{helmTemplate: {kubernetesVersion: {}, kubernetesAPIs: {}}}]`,
		"helm-stdin":     `[{ytt: {}}, {helmTemplate: {valuesFrom: [{path: "-"}]}}]`,
		"kustomize":      `[{kustomize: {path: overlays/prod}}]`,
		"jsonnet":        `[{jsonnet: {}}]`,
		"jsonnet-all":    `[{jsonnet: {path: 'a"; error "x', libraryPaths: [lib, vendor], valuesFrom: [{secretRef: {name: vals}}, {path: v.yml}]}}]`,
		"sops-age":       `[{sops: {age: {privateKeysSecretRef: {name: age}}}}, {ytt: {}}]`,
		"sops-paths":     `[{sops: {paths: [a, a/x.sops.yml], age: {privateKeysSecretRef: {name: age}}}}]`,
		"cue":            `[{cue: {}}]`,
		"cue-all":        `[{cue: {paths: [a.cue, --help], inputExpression: "in: x", outputExpression: --out, valuesFrom: [{configMapRef: {name: vals}}, {path: v.yml}]}}]`,
		"downward":       `[{ytt: {valuesFrom: [{downwardAPI: {items: [{name: name, fieldPath: metadata.name}, {name: a.b\.c, fieldPath: "{.metadata.uid}"}, {name: all, fieldPath: metadata.annotations}, {name: one, fieldPath: "metadata.labels['app\\.example/part']"}, {name: v, kubernetesVersion: {}}, {name: v2, kubernetesVersion: {version: 1.2.3}}, {name: c, kappControllerVersion: {}}, {name: c2, kappControllerVersion: {version: 0.1.0}}, {name: apis, kubernetesAPIs: {}}, {name: apis2, kubernetesAPIs: {groupVersions: [x/v1]}}]}}]}}]`,
	} {
		t.Run(name, func(t *testing.T) {
			ws := &recorder{files: []string{"src/0/a/x.sops.yml", "src/0/b.sops.yaml"}}
			reads := map[string]int{}
			res := template.New(objects{stored, reads}).Template(t.Context(), ws, request(t, text))
			fmt.Fprintf(&ws.log, "output\n%serror %q code %d stderr %q\n", indent(string(res.Output)), res.Err, res.ExitCode, res.Stderr)
			golden.Equal(t, "testdata/steps/"+name+".want", []byte(ws.log.String()))
			if res.Failed() || res.Stdout != "" {
				t.Errorf("error %q, stdout %q", res.Err, res.Stdout)
			}
			for object, n := range reads {
				if n != 1 || !strings.HasPrefix(object, "team-a/") {
					t.Errorf("%s was read %d times", object, n)
				}
			}
		})
	}
}

// TestRefused holds what never reaches a tool.
func TestRefused(t *testing.T) {
	values := func(v string) string { return `[{ytt: {valuesFrom: [` + v + `]}}]` }
	item := func(i string) string { return values(`{downwardAPI: {items: [` + i + `]}}`) }
	const badName = "Preparing template values: Invalid name was provided '%s' (hint: separate paths should only use a single '.' character)"
	for name, tc := range map[string]struct{ in, want string }{
		"Empty":             {`[]`, "Expected at least one template option"},
		"Unknown":           {`[{}]`, "Unsupported way to template"},
		"YttOutside":        {`[{ytt: {paths: [../x]}}]`, "Checking path: Invalid path: ../x"},
		"YttNamed":          {`[{ytt: {paths: ["x=/etc/passwd"]}}]`, "Checking path: Invalid path: ./src/0/x=/etc/passwd (hint: ytt gives '=' a meaning of its own)"},
		"YttNamedValues":    {values(`{path: "x=/etc/passwd"}`), "Preparing template values: Invalid path: ./src/0/x=/etc/passwd (hint: ytt gives '=' a meaning of its own)"},
		"YttNoStream":       {`[{ytt: {paths: ["-"]}}]`, "Expected stdin to be available when using it as path, but was not"},
		"YttInlineSameKey":  {`[{ytt: {inline: {pathsFrom: [{secretRef: {name: one}}, {secretRef: {name: two}}]}}}]`, "Writing inline paths: Expected each file to come from one source, but 'values.yml' comes from secret 'one' and from secret 'two' (hint: give them different directoryPath)"},
		"YttInlineOutside":  {`[{ytt: {inline: {pathsFrom: [{secretRef: {name: one, directoryPath: ../x}}]}}}]`, "Writing inline paths: Invalid path: ../x/values.yml"},
		"YttInlineMissing":  {`[{ytt: {inline: {pathsFrom: [{configMapRef: {name: none}}]}}}]`, `Writing inline paths: configmaps "none" not found`},
		"KbldOutside":       {`[{kbld: {paths: [../x]}}]`, "Checking path: Invalid path: ../x"},
		"ValuesNone":        {values(`{}`), "Preparing template values: Expected one of secretRef, configMapRef, downwardAPI, or path as a source"},
		"ValuesOutside":     {values(`{path: ../x}`), "Preparing template values: Invalid path: ../x"},
		"ValuesNoStream":    {values(`{path: "-"}`), "Preparing template values: Expected stdin to be available when using it as path, but was not"},
		"ValuesSecret":      {values(`{secretRef: {name: none}}`), `Preparing template values: secrets "none" not found`},
		"DownwardName":      {item(`{name: .a, fieldPath: metadata.name}`), fmt.Sprintf(badName, ".a")},
		"DownwardNameDots":  {item(`{name: a..b, fieldPath: metadata.name}`), fmt.Sprintf(badName, "a..b")},
		"DownwardNone":      {item(`{name: a}`), "Preparing template values: Invalid downward API item given"},
		"DownwardMany":      {item(`{name: a, fieldPath: "metadata['name','namespace']"}`), "Preparing template values: Invalid field spec provided to DownwardAPI. Only single supported fields are allowed"},
		"DownwardMissing":   {item(`{name: a, fieldPath: metadata.annotations.none}`), "Preparing template values: none is not found"},
		"DownwardSpec":      {item(`{name: a, fieldPath: spec}`), "Preparing template values: spec is not found"},
		"HelmName":          {`[{helmTemplate: {name: "--post-renderer=x"}}]`, `Templating helm chart: Invalid release name: "--post-renderer=x"`},
		"HelmNamespace":     {`[{helmTemplate: {namespace: "--x"}}]`, `Templating helm chart: Invalid namespace: "--x"`},
		"HelmPath":          {`[{helmTemplate: {path: ../x}}]`, "Invalid path: ../x"},
		"KustomizeOutside":  {`[{kustomize: {path: ../x}}]`, "Checking path: Invalid path: ../x"},
		"JsonnetOutside":    {`[{jsonnet: {path: ../x}}]`, "Checking path: Invalid path: ../x"},
		"JsonnetLibrary":    {`[{jsonnet: {libraryPaths: [../x]}}]`, "Checking path: Invalid path: ../x"},
		"SopsNeither":       {`[{sops: {}}]`, "Unsupported SOPS strategy"},
		"SopsNoAgeRef":      {`[{sops: {age: {}}}]`, "Building config: Expected privateKeysSecretRef to be specified"},
		"SopsNoPGPRef":      {`[{sops: {pgp: {}}}]`, "Building config: Expected privateKeysSecretRef to be specified"},
		"SopsMissing":       {`[{sops: {age: {privateKeysSecretRef: {name: none}}}}]`, `Building config: Getting private keys secret: secrets "none" not found`},
		"SopsNoKey":         {`[{sops: {pgp: {privateKeysSecretRef: {name: nokey}}}}]`, "Building config: Reading private keys of secret 'nokey': expected at least one armored PGP private key, but found none"},
		"SopsOutside":       {`[{sops: {paths: [../x], age: {privateKeysSecretRef: {name: age}}}}]`, "Checking path: Invalid path: ../x"},
		"CueOutside":        {`[{cue: {paths: [../x]}}]`, "Checking path: Invalid path: ../x"},
		"CueValues":         {`[{cue: {valuesFrom: [{path: ../x}]}}]`, "Writing values: Preparing template values: Invalid path: ../x"},
		"ControlCharacters": {`[{kbld: {paths: ["a\nb"]}}]`, "Checking path: Invalid path: a\uFFFDb"},
	} {
		t.Run(name, func(t *testing.T) {
			ws := &recorder{}
			res := template.New(objects{data: stored}).Template(t.Context(), ws, request(t, tc.in))
			if res.Err != tc.want || res.ExitCode != -1 || ws.runs != 0 {
				t.Errorf("error %q, exit code %d, %d runs; want %q", res.Err, res.ExitCode, ws.runs, tc.want)
			}
		})
	}
}

// TestAfterStream holds which steps cannot follow one that streams.
func TestAfterStream(t *testing.T) {
	for step, want := range map[string]string{
		`kustomize: {}`: "Templating dir: Templating stream is not supported",
		`jsonnet: {}`:   "Templating dir: Templating stream is not supported",
		`cue: {}`:       "Templating dir: Templating stream is not supported",
		`sops: {age: {privateKeysSecretRef: {name}}}`: "Templating data is not supported",
	} {
		ws := &recorder{}
		res := template.New(objects{data: stored}).Template(t.Context(), ws, request(t, "[{ytt: {}}, {"+strings.ReplaceAll(step, "{name}", "{name: age}")+"}]"))
		if res.Err != want || ws.runs != 1 || res.Output != nil {
			t.Errorf("%s: error %q, %d runs, output %q; want %q", step, res.Err, ws.runs, res.Output, want)
		}
	}
}

func TestFailures(t *testing.T) {
	fails := func(code int, stderr string) func(tool.Command) (tool.Result, error) {
		return func(tool.Command) (tool.Result, error) {
			return tool.Result{Stdout: []byte("half"), Stderr: []byte(stderr), ExitCode: code}, nil
		}
	}
	for name, tc := range map[string]struct {
		reason, in string
		run        func(tool.Command) (tool.Result, error)
		facts      *cluster
		err        string
		stderr     string
		code       int
	}{
		"ExitOne":   {"exit code 1 says nothing", `[{ytt: {}}, {kbld: {}}]`, fails(1, "ytt: Error: x\n"), nil, "Templating dir: Error (see .status.usefulErrorMessage for details)", "ytt: Error: x\n", 1},
		"ExitTwo":   {"other codes do", `[{helmTemplate: {}}]`, fails(2, "Error: x\n"), nil, "Templating helm chart: exit status 2", "Error: x\n", 2},
		"NoRun":     {"the tool did not run", `[{kbld: {}}]`, func(tool.Command) (tool.Result, error) { return tool.Result{}, errors.New("lost") }, nil, "Templating dir: lost", "", -1},
		"Remote":    {"remote bases need an explanation", `[{kustomize: {}}]`, fails(1, "Error: accumulating 'https://u:tok3n@github.com/x'\n"), nil, "Templating dir: Error (see .status.usefulErrorMessage for details)", "Error: accumulating 'https://[redacted]@github.com/x'\n(hint: remote bases and resources are not fetched while templating; fetch them with spec.fetch and refer to their folder)\n", 1},
		"Sops":      {"what sops said is in the error", `[{sops: {age: {privateKeysSecretRef: {name: age}}}}]`, fails(128, "no key AGE-SECRET-KEY-A\n"), nil, "Decrypting dir: Decrypting file 'b.sops.yaml': Running sops: no key [redacted], exit status 128", "", -1},
		"Values":    {"values in messages are hidden", `[{ytt: {valuesFrom: [{secretRef: {name: login}}]}}]`, fails(1, "2 | password: hunter2\n"), nil, "Templating dir: Error (see .status.usefulErrorMessage for details)", "2 | password: [redacted]\n", 1},
		"Version":   {"the cluster does not answer", `[{helmTemplate: {kubernetesVersion: {}}}]`, nil, &cluster{err: errors.New("no answer")}, "Unable to get kubernetes version during helm template: no answer", "", -1},
		"APIs":      {"the cluster does not answer", `[{helmTemplate: {kubernetesAPIs: {}}}]`, nil, &cluster{err: errors.New("no answer")}, "Unable to list all server apigroups/version: no answer", "", -1},
		"Downward":  {"the cluster does not answer", `[{ytt: {valuesFrom: [{downwardAPI: {items: [{name: a, kubernetesVersion: {}}]}}]}}]`, nil, &cluster{err: errors.New("no answer")}, "Preparing template values: Unable to get kubernetes version: no answer", "", -1},
		"Downward2": {"the cluster does not answer", `[{ytt: {valuesFrom: [{downwardAPI: {items: [{name: a, kubernetesAPIs: {}}]}}]}}]`, nil, &cluster{err: errors.New("no answer")}, "Preparing template values: Unable to list all server apigroups/version: no answer", "", -1},
	} {
		t.Run(name, func(t *testing.T) {
			data := map[string]map[string]string{"secret/login": {"values.yml": "password: hunter2\n"}, "secret/age": stored["secret/age"]}
			ws := &recorder{run: tc.run, files: []string{"src/0/b.sops.yaml"}}
			req := request(t, tc.in)
			if tc.facts != nil {
				req.Facts = tc.facts
			}
			res := template.New(objects{data: data}).Template(t.Context(), ws, req)
			if res.Err != tc.err || res.Stderr != tc.stderr || res.ExitCode != tc.code || res.Output != nil || res.Stdout != "" {
				t.Errorf("%s: error %q, stderr %q, code %d, output %q", tc.reason, res.Err, res.Stderr, res.ExitCode, res.Output)
			}
			if strings.Contains(ws.log.String(), "put keys/0") && !strings.Contains(ws.log.String(), "remove keys/0") {
				t.Errorf("%s: keys remain", tc.reason)
			}
		})
	}
}

// TestFactsAreAskedOnce: the cluster answers each question once for all steps.
func TestFactsAreAskedOnce(t *testing.T) {
	facts := &cluster{}
	req := request(t, `[{helmTemplate: {kubernetesVersion: {}, kubernetesAPIs: {}}}, {helmTemplate: {kubernetesVersion: {}, kubernetesAPIs: {}}}]`)
	req.Facts = facts
	if res := template.New(objects{}).Template(t.Context(), &recorder{}, req); res.Failed() || facts.asked != 2 {
		t.Errorf("error %q, %d questions", res.Err, facts.asked)
	}
}

func ExampleTemplater_Template() {
	res := template.New(objects{}).Template(context.Background(), &recorder{}, template.Request{
		Name: "demo", Namespace: "team-a", Root: "src/0",
		Steps: []v1alpha1.AppTemplate{{Ytt: &v1alpha1.AppTemplateYtt{}}, {Kbld: &v1alpha1.AppTemplateKbld{}}},
	})
	fmt.Printf("%s", res.Output)
	// Output: from kbld
}
