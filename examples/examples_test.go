// Package examples_test checks that the examples are what their README says.
package examples_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	kappctrl "github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
)

// documents returns the YAML documents of a file.
func documents(t *testing.T, file string) [][]byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var docs [][]byte
	reader := utilyaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(data)))
	for {
		doc := make([]byte, len(data)+1)
		n, err := reader.Read(doc)
		if errors.Is(err, io.EOF) {
			return docs
		}
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, doc[:n])
	}
}

// stories returns the folders of the examples.
func stories(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

// TestStories expects of each folder a README that the index names, and one App of
// the folder's name that has no unknown field and deploys with the shared account.
func TestStories(t *testing.T) {
	index, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, story := range stories(t) {
		t.Run(story, func(t *testing.T) {
			if !strings.Contains(string(index), "| ["+story+"]("+story+") |") {
				t.Error("not in README.md")
			}
			readme, err := os.ReadFile(filepath.Join(story, "README.md"))
			if err != nil || !strings.HasPrefix(string(readme), "# "+story+"\n\n") {
				t.Errorf("README.md has another heading, or is missing: %v", err)
			}
			var apps []string
			for _, doc := range documents(t, filepath.Join(story, "app.yml")) {
				var kind struct{ APIVersion, Kind string }
				if err := yaml.Unmarshal(doc, &kind); err != nil {
					t.Fatal(err)
				}
				if schema.FromAPIVersionAndKind(kind.APIVersion, kind.Kind) != kappctrl.SchemeGroupVersion.WithKind("App") {
					continue
				}
				app := &kappctrl.App{}
				if err := yaml.UnmarshalStrict(doc, app); err != nil {
					t.Fatal(err)
				}
				apps = append(apps, app.Name)
				if app.Namespace != "" || app.Spec.ServiceAccountName != "examples-deployer" {
					t.Errorf("namespace %q, account %q", app.Namespace, app.Spec.ServiceAccountName)
				}
			}
			if !slices.Equal(apps, []string{story}) {
				t.Errorf("Apps %v, want one of the folder's name", apps)
			}
		})
	}
}

// TestPlaceholders expects that README.md describes each placeholder that a file
// has and that each described one is in a file.
func TestPlaceholders(t *testing.T) {
	index, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	described, used := map[string]bool{}, map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\$\\{[A-Z0-9_]+\\})` \\|").FindAllStringSubmatch(string(index), -1) {
		described[m[1]] = true
	}
	placeholder := regexp.MustCompile(`\$\{[A-Z0-9_]+\}`)
	err = filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path == "README.md" || strings.HasSuffix(path, ".go") {
			return err
		}
		data, err := os.ReadFile(path)
		for _, name := range placeholder.FindAllString(string(data), -1) {
			used[name] = true
			if !described[name] {
				t.Errorf("%s: README.md does not describe %s", path, name)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range described {
		if !used[name] {
			t.Errorf("README.md describes %s, which no file has", name)
		}
	}
}
