package pkg_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/garboard-dev/garboard/pkg/"

// layers lists what lies below pkg, lowest line first. Code imports only earlier
// lines, never a sibling on its own. Changing this list is changing the
// architecture: keep it equal to the package comment.
var layers = [][]string{
	{"apis"},
	{"tool", "workdir", "settings", "metrics"},
	{"plan", "refs", "packages", "resolve"},
	{"status", "repository"},
	{"access", "sidecar", "fetch", "template", "deploy", "track", "status/writer"},
	{"pipeline", "repository/offer"},
	{"controller/app", "controller/packageinstall", "controller/packagerepository", "controller/settings", "apiserver"},
}

// functionalCore are the entries that see values only, and impure is what they
// must not import.
var (
	functionalCore = []string{"plan", "refs", "packages", "resolve", "status", "repository"}
	impure         = []string{"os", "os/exec", "net", "net/http", "k8s.io/client-go", "sigs.k8s.io/controller-runtime"}
)

// onlyThere names modules that one folder alone may import.
var onlyThere = map[string]string{"carvel.dev/kapp": "deploy/kapp"}

// place returns the longest entry of layers that holds dir, and its line, or -1.
func place(dir string) (name string, line int) {
	line = -1
	for i, names := range layers {
		for _, n := range names {
			if (dir == n || strings.HasPrefix(dir, n+"/")) && len(n) > len(name) {
				name, line = n, i
			}
		}
	}
	return name, line
}

func below(path, root string) bool { return path == root || strings.HasPrefix(path, root+"/") }

func TestImportsPointDown(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		dir := filepath.ToSlash(filepath.Dir(path))
		if err != nil || d.IsDir() || dir == "." || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range f.Imports {
			imp, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			checkImport(t, path, dir, imp)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func checkImport(t *testing.T, path, dir, imp string) {
	t.Helper()
	from, line := place(dir)
	if line < 0 {
		t.Errorf("%s: on no line of layers", path)
	}
	if slices.Contains(functionalCore, from) && slices.ContainsFunc(impure, func(p string) bool { return below(imp, p) }) {
		t.Errorf("%s: the functional core imports %s", path, imp)
	}
	for mod, folder := range onlyThere {
		if below(imp, mod) && !below(dir, folder) {
			t.Errorf("%s: only %s may import %s", path, folder, mod)
		}
	}
	rest, ours := strings.CutPrefix(imp, module)
	if to, at := place(rest); ours && to != from && at >= line {
		t.Errorf("%s: %s (line %d) imports %s (line %d)", path, from, line, to, at)
	}
}

func TestLayersExist(t *testing.T) {
	for _, names := range layers {
		for _, n := range names {
			if files, err := filepath.Glob(filepath.Join(n, "*")); err != nil || len(files) == 0 {
				t.Errorf("layers names %s, which has no files", n)
			}
		}
	}
}
