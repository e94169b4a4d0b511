package offer_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/garboard-dev/garboard/pkg/repository/offer"
	"github.com/garboard-dev/garboard/pkg/template"
	"github.com/garboard-dev/garboard/pkg/tool"
	"github.com/garboard-dev/garboard/test/workspace"
)

// counting counts the tools that are started.
type counting struct {
	*workspace.Dir
	started []string
}

func (c *counting) Run(ctx context.Context, cmd tool.Command) (tool.Result, error) {
	c.started = append(c.started, cmd.Name)
	return c.Dir.Run(ctx, cmd)
}

const (
	origin = "registry.example.com/app@sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"
	moved  = "127.0.0.1:5000/copy@sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"
	pkgDoc = `apiVersion: data.packaging.carvel.dev/v1alpha1
kind: Package
metadata: {name: a.example.com.1.0.0}
spec:
  refName: a.example.com
  version: 1.0.0
  template:
    spec:
      fetch: [{imgpkgBundle: {image: ` + origin + `}}]
`
	lock = "apiVersion: imgpkg.carvel.dev/v1alpha1\nkind: ImagesLock\nimages:\n- image: IMAGE\n  annotations: {kbld.carvel.dev/id: '" + origin + "'}\n"
)

// TestTemplate reads repositories with the real tools.
func TestTemplate(t *testing.T) {
	const noFolder = "Invalid package repository content: must contain 'packages/' directory but did not"
	cases := map[string]struct {
		reason string
		files  map[string]string
		bundle bool
		tools  []string
		image  string
		fails  string
	}{
		"Plain":       {"no bundle", map[string]string{"packages/a/a.yml": pkgDoc}, false, []string{"ytt"}, origin, ""},
		"NotMoved":    {"kbld would find nothing to do", map[string]string{"packages/a.yml": pkgDoc, ".imgpkg/images.yml": strings.Replace(lock, "IMAGE", origin, 1)}, true, []string{"ytt", "ytt"}, origin, ""},
		"Moved":       {"images follow the bundle", map[string]string{"packages/a.yml": pkgDoc, ".imgpkg/images.yml": strings.Replace(lock, "IMAGE", moved, 1)}, true, []string{"ytt", "ytt", "kbld"}, moved, ""},
		"NoLock":      {"a bundle without one", map[string]string{"packages/a.yml": pkgDoc}, true, []string{"ytt"}, origin, ""},
		"NestedLock":  {"the lock of another bundle", map[string]string{"packages/a.yml": pkgDoc, "other/.imgpkg/images.yml": strings.Replace(lock, "IMAGE", moved, 1)}, true, []string{"ytt"}, origin, ""},
		"BrokenLock":  {"no lock at all", map[string]string{"packages/a.yml": pkgDoc, ".imgpkg/images.yml": "- 1\n"}, true, []string{"ytt", "ytt"}, "", "Reading the bundle's images: "},
		"NoFolder":    {"packages elsewhere", map[string]string{"a/packages/a.yml": pkgDoc}, false, nil, "", noFolder},
		"FolderAFile": {"packages is a file", map[string]string{"packages": pkgDoc}, false, nil, "", noFolder},
		"NoYAML":      {"ytt reads all or nothing", map[string]string{"packages/a.yml": pkgDoc, "packages/b.yml": "a: ["}, false, []string{"ytt"}, "", "Templating dir: "},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			ws := &counting{Dir: workspace.New(t)}
			var files []tool.File
			for path, text := range c.files {
				files = append(files, tool.File{Path: "src/0/" + path, Content: []byte(text)})
			}
			if err := ws.Put(t.Context(), files); err != nil {
				t.Fatal(err)
			}
			run := &offer.Run{Templater: template.New(nil), Namespace: "t", Name: "r", Bundle: c.bundle}
			res := run.Template(t.Context(), ws, template.Request{Root: "src/0"})
			if diff := cmp.Diff(c.tools, ws.started); diff != "" {
				t.Errorf("%s: tools that were started:\n%s", c.reason, diff)
			}
			if c.fails != "" {
				if !strings.HasPrefix(res.Err, c.fails) || res.ExitCode == 0 {
					t.Errorf("%s: %d %q\n%s", c.reason, res.ExitCode, res.Err, res.Stderr)
				}
				return
			}
			if res.Failed() || run.Content.Len() != 1 {
				t.Fatalf("%s: %s %s, %d packages %v", c.reason, res.Err, res.Stderr, run.Content.Len(), run.Content.Problems)
			}
			if got := run.Content.Packages[0].Spec.Template.Spec.Fetch[0].ImgpkgBundle.Image; got != c.image {
				t.Errorf("%s: image %s, want %s", c.reason, got, c.image)
			}
		})
	}
}
