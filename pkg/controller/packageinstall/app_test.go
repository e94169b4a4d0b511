package packageinstall

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	data "github.com/garboard-dev/garboard/pkg/apis/datapackaging/v1alpha1"
	kappctrl "github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	packaging "github.com/garboard-dev/garboard/pkg/apis/packaging/v1alpha1"
	"github.com/garboard-dev/garboard/test/golden"
)

// story is one file of testdata: what there is before.
type story struct {
	App     *kappctrl.App
	Install packaging.PackageInstall
	Package data.Package
}

// TestMakeApp: each story's App is in the golden file beside it.
func TestMakeApp(t *testing.T) {
	stories, err := filepath.Glob("testdata/*.in.yml")
	if err != nil || len(stories) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, name := range stories {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".in.yml"), func(t *testing.T) {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			var s story
			if err := yaml.UnmarshalStrict(text, &s); err != nil {
				t.Fatal(err)
			}
			before := s.App.DeepCopy()
			app, placeholders := makeApp(s.App, &s.Install, &s.Package, 10*time.Minute)
			if diff := cmp.Diff(before, s.App); diff != "" {
				t.Errorf("the App that there is was changed:\n%s", diff)
			}
			out, err := yaml.Marshal(map[string]any{
				"metadata": app.ObjectMeta, "spec": app.Spec, "placeholders": placeholders,
			})
			if err != nil {
				t.Fatal(err)
			}
			golden.Equal(t, strings.Replace(name, ".in.yml", ".want.yml", 1), out)
			again, _ := makeApp(app, &s.Install, &s.Package, 10*time.Minute)
			if diff := cmp.Diff(app, again); diff != "" {
				t.Errorf("made of itself it differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSuffixed(t *testing.T) {
	annotations := map[string]string{"k.b": "3", "k": "1", "k.10": "2", "kx": "no", "k-x": "no", "other.k": "no"}
	if diff := cmp.Diff([]string{"1", "2", "3"}, suffixed(annotations, "k")); diff != "" {
		t.Error(diff)
	}
	if got := suffixed(nil, "k"); got != nil {
		t.Errorf("of nothing: %q", got)
	}
}

// TestOwnIsFirst: clients look at the first owner only.
func TestOwnIsFirst(t *testing.T) {
	pkgi := &packaging.PackageInstall{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "u1"}}
	app := &kappctrl.App{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{
		{Kind: "Other", Name: "o", UID: "u0"}, {Kind: kind, Name: "web", UID: "u1"},
	}}}
	own(app, pkgi)
	own(app, pkgi)
	if refs := app.OwnerReferences; len(refs) != 2 || refs[0].UID != "u1" || refs[1].UID != "u0" || !controls(pkgi, app) {
		t.Errorf("owners: %+v", refs)
	}
}
