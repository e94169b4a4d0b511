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

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	kappctrl "github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	packaging "github.com/garboard-dev/garboard/pkg/apis/packaging/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/repository"
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

// stories returns the folders of the examples that are Apps.
func stories(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if _, err := os.Stat(filepath.Join(e.Name(), "app.yml")); err == nil {
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

// TestPackageRepository expects that each version of each package can be offered and
// has a description, and that README.md lists it.
func TestPackageRepository(t *testing.T) {
	const dir = "package-repository"
	repo := &packaging.PackageRepository{}
	if err := yaml.UnmarshalStrict(documents(t, filepath.Join(dir, "repository.yml"))[0], repo); err != nil || repo.Name != dir {
		t.Errorf("%s: %v", repo.Name, err)
	}
	readme, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "bundle/packages/*/*.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var stream bytes.Buffer
	for _, file := range files {
		stream.WriteString("---\n")
		for _, doc := range documents(t, file) {
			stream.Write(doc)
		}
	}
	content, err := repository.Filter(stream.Bytes())
	if err != nil || len(content.Problems) > 0 || content.Len() != len(files) {
		t.Fatalf("%d of %d files, %v %v", content.Len(), len(files), content.Problems, err)
	}
	versions := map[string]int{}
	for _, p := range content.Packages {
		versions[p.Spec.RefName]++
		if !regexp.MustCompile("`" + regexp.QuoteMeta(p.Spec.RefName) + "` .*[ ,|]" + regexp.QuoteMeta(p.Spec.Version) + "[ ,]").Match(readme) {
			t.Errorf("README.md does not list %s", p.Name)
		}
	}
	for _, m := range content.Metadata {
		if versions[m.Name] < 2 {
			t.Errorf("%s has %d versions, want several", m.Name, versions[m.Name])
		}
	}
	if len(versions) < 3 || len(content.Metadata) != len(versions) {
		t.Errorf("packages %v, %d descriptions", versions, len(content.Metadata))
	}
}

// TestPackageInstall expects that both states of the example install are one
// PackageInstall of the example repository's, whose Secrets come with it.
func TestPackageInstall(t *testing.T) {
	const dir = "package-install"
	secrets := map[string]bool{}
	for _, doc := range documents(t, filepath.Join(dir, "install.yml"))[1:] {
		s := &corev1.Secret{}
		if err := yaml.UnmarshalStrict(doc, s); err != nil {
			t.Fatal(err)
		}
		secrets[s.Name] = true
	}
	for _, file := range []string{"install.yml", "upgrade.yml"} {
		p := &packaging.PackageInstall{}
		if err := yaml.UnmarshalStrict(documents(t, filepath.Join(dir, file))[0], p); err != nil || p.Name != dir {
			t.Fatalf("%s: %s %v", file, p.Name, err)
		}
		named := append(slices.Clone(p.Spec.Values), packaging.PackageInstallValues{SecretRef: &packaging.PackageInstallValuesSecretRef{
			Name: p.Annotations["ext.packaging.carvel.dev/ytt-paths-from-secret-name"],
		}})
		for _, v := range named {
			if !secrets[v.SecretRef.Name] {
				t.Errorf("%s: Secret %q is not in install.yml", file, v.SecretRef.Name)
			}
		}
		if _, err := os.Stat(filepath.Join("package-repository/bundle/packages", p.Spec.PackageRef.RefName)); err != nil {
			t.Errorf("%s: %v", file, err)
		}
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
