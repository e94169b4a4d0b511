package fetch_test

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
	"github.com/garboard-dev/garboard/pkg/fetch"
	"github.com/garboard-dev/garboard/pkg/tool"
	"github.com/garboard-dev/garboard/test/golden"
)

// objects serves what is in it and counts reads.
type objects struct {
	secrets    map[string]*corev1.Secret
	configMaps map[string]*corev1.ConfigMap
	reads      map[string]int
}

func newObjects(list ...any) *objects {
	o := &objects{secrets: map[string]*corev1.Secret{}, configMaps: map[string]*corev1.ConfigMap{}, reads: map[string]int{}}
	for _, obj := range list {
		switch obj := obj.(type) {
		case *corev1.Secret:
			o.secrets[obj.Name] = obj
		case *corev1.ConfigMap:
			o.configMaps[obj.Name] = obj
		}
	}
	return o
}

func (o *objects) Secret(_ context.Context, namespace, name string) (*corev1.Secret, error) {
	o.reads["secret/"+namespace+"/"+name]++
	if s := o.secrets[name]; s != nil {
		return s, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
}

func (o *objects) ConfigMap(_ context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	o.reads["configmap/"+namespace+"/"+name]++
	if s := o.configMaps[name]; s != nil {
		return s, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, name)
}

func secret(name string, kv ...string) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: "team-a", Annotations: map[string]string{"note": "not for vendir"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "not for vendir"}},
	}, Data: map[string][]byte{}}
	for i := 0; i < len(kv); i += 2 {
		s.Data[kv[i]] = []byte(kv[i+1])
	}
	return s
}

func configMap(name string, kv ...string) *corev1.ConfigMap {
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{}}
	for i := 0; i < len(kv); i += 2 {
		c.Data[kv[i]] = kv[i+1]
	}
	return c
}

// fake answers each run with run, or with success.
type fake struct {
	run  func(tool.Command) (tool.Result, error)
	runs []tool.Command
	// files are those that are there, gone those that were.
	files, gone map[string]string
}

func (f *fake) Put(_ context.Context, files []tool.File) error {
	for _, file := range files {
		if f.files == nil {
			f.files, f.gone = map[string]string{}, map[string]string{}
		}
		f.files[file.Path] = string(file.Content)
	}
	return nil
}

func (f *fake) Remove(_ context.Context, paths []string) error {
	for _, p := range paths {
		f.gone[p] = f.files[p]
		delete(f.files, p)
	}
	return nil
}

// vendir is the one run of it, of which there must be no other.
func (f *fake) vendir(t *testing.T) tool.Command {
	t.Helper()
	if len(f.runs) == 0 || f.runs[0].Name != "vendir" || len(f.runs) > 1 && f.runs[1].Name == "vendir" {
		t.Fatalf("ran %+v", f.runs)
	}
	return f.runs[0]
}

func (f *fake) Run(_ context.Context, c tool.Command) (tool.Result, error) {
	f.runs = append(f.runs, c)
	if f.run == nil {
		return tool.Result{}, nil
	}
	return f.run(c)
}

// sources parses spec.fetch as a user writes it.
func sources(t testing.TB, text string) []v1alpha1.AppFetch {
	t.Helper()
	var s []v1alpha1.AppFetch
	if err := yaml.UnmarshalStrict([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestConfig holds the mapping to vendir's configuration.
func TestConfig(t *testing.T) {
	all := newObjects(
		secret("files", "a.yml", "..."), configMap("maps", "b.yml", "b"),
		secret("login", "username", "u", "password", "hunter2"),
		secret("flux", "identity", "key", "identity.pub", "pub", "known_hosts", "hosts"),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "docker"}, Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{".dockerconfigjson": []byte(`{"auths":{}}`)}},
	)
	for name, text := range map[string]string{
		"worked-example":   `[{inline: {pathsFrom: [{secretRef: {name: files, directoryPath: conf}}]}}, {git: {url: "https://git.example.com/x.git", ref: origin/main, subPath: deploy}, path: app}]`,
		"inline":           `[{inline: {paths: {a.yml: "a: 1\n", d/b.yml: "b"}, pathsFrom: [{configMapRef: {name: maps}}]}}, {inline: {}}]`,
		"image":            `[{image: {url: "r.example:5000/x:1", secretRef: {name: docker}, subPath: config}}]`,
		"image-hub":        `[{image: {url: "library/x", tagSelection: {semver: {constraints: ">=1.0.0", prereleases: {}}}}}]`,
		"imgpkg-bundle":    `[{imgpkgBundle: {image: "skip.example/x", tagSelection: {semver: {prereleases: {identifiers: [rc]}}}, secretRef: {name: docker}}}]`,
		"http":             `[{http: {url: "https://h.example/x.tgz", sha256: abc, subPath: a/b, secretRef: {name: login}}, path: ./deep/er/}]`,
		"git-all":          `[{git: {url: "https://skip.example:8443/x.git", refSelection: {semver: {constraints: "1.x"}}, secretRef: {name: login}, lfsSkipSmudge: true, forceHTTPBasicAuth: true, depth: 5}}]`,
		"git-scp-full":     `[{git: {url: "git@skip.example:x.git", ref: v1, depth: 0, secretRef: {name: flux}}}, {git: {url: "ssh://git@h/x", ref: v1, secretRef: {name: flux}}}]`,
		"helm":             `[{helmChart: {name: redis, version: 1.2.3, repository: {url: "https://charts.example", secretRef: {name: login}}}}]`,
		"helm-oci":         `[{helmChart: {name: redis, version: 1.2.3, repository: {url: "oci://r.example/a/b", secretRef: {name: login}}}}]`,
		"helm-oci-open":    `[{helmChart: {name: redis, version: 1.2.3, repository: {url: "oci://r.example/a/b"}}}]`,
		"same-object-once": `[{inline: {pathsFrom: [{configMapRef: {name: maps}}, {configMapRef: {name: maps, directoryPath: d}}]}}, {inline: {pathsFrom: [{configMapRef: {name: maps}}, {secretRef: {name: login}}]}}, {http: {url: "http://h/x", secretRef: {name: login}}}]`,
		"first-wins":       `[{imgpkgBundle: {image: x}, helmChart: {name: x}, git: {url: "https://h/x", ref: v1}, image: {url: x}}]`,
	} {
		t.Run(name, func(t *testing.T) {
			clear(all.reads)
			ws := &fake{}
			res := fetch.New(all).Fetch(t.Context(), ws, fetch.Request{
				Namespace: "team-a", Sources: sources(t, text),
				SkipTLS: func(authority string) bool { return authority == "skip.example" },
			})
			if res.Err != "" {
				t.Fatal(res.Err)
			}
			for object, n := range all.reads {
				if n != 1 {
					t.Errorf("%s was read %d times", object, n)
				}
			}
			golden.Equal(t, "testdata/config/"+name+".want.yml", ws.vendir(t).Stdin)
		})
	}
}

func TestRoot(t *testing.T) {
	const x = `{inline: {paths: {a: b}}`
	for text, want := range map[string]string{
		"[" + x + "}]":                      "src/0",
		"[" + x + ", path: foo}]":           "src",
		"[" + x + "}, " + x + "}]":          "src",
		"[" + x + ", path: f}, " + x + "}]": "src",
	} {
		if res := fetch.New(newObjects()).Fetch(t.Context(), &fake{}, fetch.Request{Sources: sources(t, text)}); res.Root != want || res.Failed() {
			t.Errorf("%s: root %q, error %q; want %q", text, res.Root, res.Err, want)
		}
	}
}

// TestRefused holds what never reaches vendir.
func TestRefused(t *testing.T) {
	git := func(fields string) string { return "[{git: {" + fields + "}}]" }
	for name, tc := range map[string]struct{ in, want string }{
		"Empty":             {`[]`, "Expected at least one fetch option"},
		"Unknown":           {`[{inline: {}}, {path: x}]`, "Fetching (1): Unsupported way to fetch templates"},
		"SecretMissing":     {git(`url: "https://h/x", ref: v1, secretRef: {name: x}`), `Fetching: secrets "x" not found`},
		"ConfigMapMissing":  {`[{inline: {pathsFrom: [{configMapRef: {name: x}}]}}]`, `Fetching: configmaps "x" not found`},
		"PathOutside":       {`[{inline: {}, path: ../x}]`, `Fetching (0): Invalid path: "../x" (hint: a relative path inside the fetched root is expected)`},
		"PathInsideOut":     {`[{inline: {}, path: a/../../x}]`, `Fetching (0): Invalid path: "a/../../x" (hint: a relative path inside the fetched root is expected)`},
		"PathAbsolute":      {`[{inline: {}, path: /etc}]`, `Fetching (0): Invalid path: "/etc" (hint: a relative path inside the fetched root is expected)`},
		"PathHidden":        {`[{inline: {}, path: ../.}]`, `Fetching (0): Invalid path: "../." (hint: a relative path inside the fetched root is expected)`},
		"PathRoot":          {`[{inline: {}, path: ./}]`, `Fetching (0): Invalid path: "./" (hint: a relative path inside the fetched root is expected)`},
		"PathVendirs":       {`[{inline: {}, path: .vendir-tmp-1}]`, `Fetching (0): Invalid path: ".vendir-tmp-1" (hint: vendir works in folders of that name)`},
		"PathsOverlap":      {`[{inline: {}, path: a/b}, {inline: {}, path: ./a}]`, "Fetching (1): Expected paths of sources not to overlap, but 'a' overlaps with 'a/b' of source 0"},
		"PathIsIndex":       {`[{inline: {}, path: "1"}, {inline: {}}]`, "Fetching (1): Expected paths of sources not to overlap, but '1' overlaps with '1' of source 0"},
		"InlineOutside":     {`[{inline: {paths: {../x: y}}}]`, "Fetching: Invalid path: ../x"},
		"InlineCollision":   {`[{inline: {pathsFrom: [{secretRef: {name: a}}, {secretRef: {name: b}}]}}]`, "Fetching: Expected each file to come from one source, but 'values.yml' comes from secret 'a' and from secret 'b' (hint: give them different directoryPath)"},
		"InlineNeither":     {`[{inline: {pathsFrom: [{}]}}]`, "Fetching: Expected either secretRef or configMapRef as a source"},
		"SubPathOutside":    {`[{http: {url: "https://h/x", subPath: ../x}}]`, "Fetching (0): subPath: Invalid path: ../x"},
		"HTTPFile":          {`[{http: {url: "file:///etc/passwd"}}]`, "Fetching (0): Invalid url: expected an address that starts with http:// or https://"},
		"HTTPNone":          {`[{http: {}}]`, "Fetching (0): Expected non-empty url"},
		"GitFile":           {git(`url: "file:///x", ref: v1`), "Fetching (0): Invalid url: expected an address that starts with http:// or https:// or ssh://"},
		"GitLocal":          {git(`url: /x/y, ref: v1`), "Fetching (0): Invalid url: expected an address that starts with http:// or https:// or ssh://"},
		"GitHelper":         {git(`url: "ext::sh -c touch% /tmp/x", ref: v1`), "Fetching (0): Invalid url: expected an address that starts with http:// or https:// or ssh://"},
		"GitHelperScheme":   {git(`url: "ext::ssh://x", ref: v1`), "Fetching (0): Invalid url: expected an address that starts with http:// or https:// or ssh://"},
		"GitOption":         {git(`url: "--upload-pack=x", ref: v1`), "Fetching (0): Invalid url: must not start with '-'"},
		"GitHostOption":     {git(`url: "ssh://-oProxyCommand=x/y", ref: v1`), "Fetching (0): Invalid url: expected a host after 'ssh://'"},
		"GitUserOption":     {git(`url: "-oProxyCommand=x@h:y", ref: v1`), "Fetching (0): Invalid url: must not start with '-'"},
		"GitNoHost":         {git(`url: "https:///x", ref: v1`), "Fetching (0): Invalid url: expected a host after 'https://'"},
		"GitRefOption":      {git(`url: "https://h/x", ref: --upload-pack=touch`), "Fetching (0): Invalid ref: must not start with '-'"},
		"GitOriginOption":   {git(`url: "https://h/x", ref: "origin/--upload-pack=touch x"`), "Fetching (0): Invalid ref: must not start with '-'"},
		"GitRefNewline":     {git(`url: "https://h/x", ref: "a\nb"`), "Fetching (0): Invalid ref: must not contain control characters"},
		"GitNoRef":          {git(`url: "https://h/x"`), "Fetching (0): Expected either ref or ref selection to be specified"},
		"GitDepth":          {git(`url: "https://h/x", ref: v1, depth: -1`), "Fetching (0): Invalid depth: -1 (hint: 0 fetches all commits)"},
		"HelmNameOption":    {`[{helmChart: {name: "--post-renderer=x"}}]`, "Fetching (0): Invalid name: must not start with '-'"},
		"HelmVersionOption": {`[{helmChart: {name: x, version: "--x"}}]`, "Fetching (0): Invalid version: must not start with '-'"},
		"HelmRepository":    {`[{helmChart: {name: x, repository: {url: "file:///x"}}}]`, "Fetching (0): Invalid repository.url: expected an address that starts with http:// or https:// or oci://"},
	} {
		t.Run(name, func(t *testing.T) {
			ws := &fake{}
			res := fetch.New(newObjects(secret("a", "values.yml", "a"), secret("b", "values.yml", "b"))).
				Fetch(t.Context(), ws, fetch.Request{Namespace: "n", Sources: sources(t, tc.in)})
			if res.Err != tc.want || res.ExitCode != -1 || len(ws.runs) != 0 {
				t.Errorf("error %q, exit code %d, %d runs; want %q", res.Err, res.ExitCode, len(ws.runs), tc.want)
			}
		})
	}
}

// TestSecretsStayHidden: nothing of a login is in what users see, wherever the
// tools print it, and the host is.
func TestSecretsStayHidden(t *testing.T) {
	for name, tc := range map[string]struct{ in, stderr string }{
		"URL":       {`[{git: {url: "https://u:tok3n@git.example/r.git", ref: v1}}]`, "vendir: Error: Git [remote add origin https://u:tok3n@git.example/r.git]: fatal: tok3n at git.example"},
		"BadEscape": {`[{http: {url: "https://robot:tok3n%ss@git.example"}}]`, `parse "https://robot:tok3n%ss@git.example": invalid URL escape`},
		"BasicAuth": {`[{git: {url: "https://git.example/r.git", ref: v1, secretRef: {name: login}}}]`, "Git [config --add http.extraHeader Authorization: Basic dTp0b2szbg==] git.example"},
		"Password":  {`[{helmChart: {name: x, repository: {url: "https://git.example", secretRef: {name: login}}}}]`, "helm --password tok3n: git.example"},
	} {
		t.Run(name, func(t *testing.T) {
			ws := &fake{run: func(tool.Command) (tool.Result, error) {
				return tool.Result{Stdout: []byte(tc.stderr), Stderr: []byte(tc.stderr), ExitCode: 1}, errors.New(tc.stderr)
			}}
			res := fetch.New(newObjects(secret("login", "username", "u", "password", "tok3n"))).
				Fetch(t.Context(), ws, fetch.Request{Sources: sources(t, tc.in)})
			for where, text := range map[string]string{"stdout": res.Stdout, "stderr": res.Stderr, "error": res.Err} {
				if strings.Contains(text, "tok3n") || strings.Contains(text, "dTp0b2szbg") || !strings.Contains(text, "git.example") {
					t.Errorf("%s: %s", where, text)
				}
			}
		})
	}
}

func TestCAHint(t *testing.T) {
	run := func(code int) fetch.Result {
		ws := &fake{run: func(tool.Command) (tool.Result, error) {
			return tool.Result{Stderr: []byte("vendir: Error:\n  x509: certificate signed by unknown authority\n"), ExitCode: code}, nil
		}}
		return fetch.New(newObjects()).Fetch(t.Context(), ws, fetch.Request{Sources: sources(t, `[{image: {url: r.example/x}}]`)})
	}
	golden.Equal(t, "testdata/ca-hint.want", []byte(run(1).Stderr))
	if got := run(0); strings.Contains(got.Stderr, "hint") {
		t.Errorf("a hint after success: %q", got.Stderr)
	}
	if got := run(1).Err; got != "Fetching resources: Error (see .status.usefulErrorMessage for details)" {
		t.Errorf("error %q", got)
	}
}

func ExampleFetcher_Fetch() {
	res := fetch.New(newObjects()).Fetch(context.Background(), &fake{}, fetch.Request{Sources: []v1alpha1.AppFetch{
		{Path: "../other-app", Inline: &v1alpha1.AppFetchInline{}},
	}})
	fmt.Println(res.Err)
	// Output: Fetching (0): Invalid path: "../other-app" (hint: a relative path inside the fetched root is expected)
}
