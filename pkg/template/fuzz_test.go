package template_test

import (
	"context"
	"encoding/csv"
	"errors"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/sidecar"
	"github.com/garboard-dev/garboard/pkg/template"
	"github.com/garboard-dev/garboard/pkg/tool"
)

// hostile are texts that tools might read as something else than text.
var hostile = []string{
	"a", "../x", "a/../../x", "-x", "--", "--post-renderer=x", "a=/etc/passwd", "a,/etc/passwd", `"a",/etc/passwd`, "@lib:/etc/x", "http://h/x",
	`"`, "text:/etc/passwd", "/", "", " -x", "\n--x", "a\x00--x", "$(x)", "-", "x\r\n", "a.yml:path=../../x", ".",
}

// withText returns one step for each field of a step that takes text, with text in it.
func withText(text string) map[string]v1alpha1.AppTemplate {
	values := []v1alpha1.AppTemplateValuesSource{{Path: text}}
	ytt := func(y v1alpha1.AppTemplateYtt) v1alpha1.AppTemplate { return v1alpha1.AppTemplate{Ytt: &y} }
	helm := func(h v1alpha1.AppTemplateHelmTemplate) v1alpha1.AppTemplate {
		return v1alpha1.AppTemplate{HelmTemplate: &h}
	}
	jsonnet := func(j v1alpha1.AppTemplateJsonnet) v1alpha1.AppTemplate { return v1alpha1.AppTemplate{Jsonnet: &j} }
	cue := func(c v1alpha1.AppTemplateCue) v1alpha1.AppTemplate { return v1alpha1.AppTemplate{Cue: &c} }
	fact := func(item v1alpha1.AppTemplateValuesDownwardAPIItem) v1alpha1.AppTemplate {
		facts := &v1alpha1.AppTemplateValuesDownwardAPI{Items: []v1alpha1.AppTemplateValuesDownwardAPIItem{item}}
		return ytt(v1alpha1.AppTemplateYtt{ValuesFrom: []v1alpha1.AppTemplateValuesSource{{DownwardAPI: facts}}})
	}
	dir := &v1alpha1.AppFetchInlineSourceRef{Name: "one", DirectoryPath: text}
	age := &v1alpha1.AppTemplateSopsAge{PrivateKeysSecretRef: &v1alpha1.AppTemplateSopsPrivateKeysSecretRef{Name: "age"}}
	version := &v1alpha1.Version{Version: text}
	return map[string]v1alpha1.AppTemplate{
		"ytt.paths":            ytt(v1alpha1.AppTemplateYtt{Paths: []string{text}}),
		"ytt.fileMarks":        ytt(v1alpha1.AppTemplateYtt{FileMarks: []string{text}}),
		"ytt.valuesFrom":       ytt(v1alpha1.AppTemplateYtt{ValuesFrom: values}),
		"ytt.inline":           ytt(v1alpha1.AppTemplateYtt{Inline: &v1alpha1.AppFetchInline{Paths: map[string]string{text: "x"}}}),
		"ytt.inline.from":      ytt(v1alpha1.AppTemplateYtt{Inline: &v1alpha1.AppFetchInline{PathsFrom: []v1alpha1.AppFetchInlineSource{{SecretRef: dir}}}}),
		"kbld.paths":           {Kbld: &v1alpha1.AppTemplateKbld{Paths: []string{text}}},
		"helm.name":            helm(v1alpha1.AppTemplateHelmTemplate{Name: text}),
		"helm.namespace":       helm(v1alpha1.AppTemplateHelmTemplate{Namespace: text}),
		"helm.path":            helm(v1alpha1.AppTemplateHelmTemplate{Path: text}),
		"helm.valuesFrom":      helm(v1alpha1.AppTemplateHelmTemplate{ValuesFrom: values}),
		"helm.version":         helm(v1alpha1.AppTemplateHelmTemplate{KubernetesVersion: version}),
		"helm.apis":            helm(v1alpha1.AppTemplateHelmTemplate{KubernetesAPIs: &v1alpha1.KubernetesAPIs{GroupVersions: []string{"v1", text}}}),
		"kustomize.path":       {Kustomize: &v1alpha1.AppTemplateKustomize{Path: text}},
		"jsonnet.path":         jsonnet(v1alpha1.AppTemplateJsonnet{Path: text}),
		"jsonnet.libraryPaths": jsonnet(v1alpha1.AppTemplateJsonnet{LibraryPaths: []string{text}}),
		"jsonnet.valuesFrom":   jsonnet(v1alpha1.AppTemplateJsonnet{ValuesFrom: values}),
		"sops.paths":           {Sops: &v1alpha1.AppTemplateSops{Paths: []string{text}, Age: age}},
		"cue.paths":            cue(v1alpha1.AppTemplateCue{Paths: []string{text}}),
		"cue.valuesFrom":       cue(v1alpha1.AppTemplateCue{ValuesFrom: values}),
		"cue.input":            cue(v1alpha1.AppTemplateCue{InputExpression: text}),
		"cue.output":           cue(v1alpha1.AppTemplateCue{OutputExpression: text}),
		"downward.name":        fact(v1alpha1.AppTemplateValuesDownwardAPIItem{Name: text, FieldPath: "metadata.name"}),
		"downward.fieldPath":   fact(v1alpha1.AppTemplateValuesDownwardAPIItem{Name: "a", FieldPath: text}),
		"downward.version":     fact(v1alpha1.AppTemplateValuesDownwardAPIItem{Name: "a", KubernetesVersion: version}),
	}
}

// spy is a workspace that keeps what it is asked for. It has one file to decrypt.
type spy struct {
	commands []tool.Command
	// paths are those of files and folders, relative to the workspace.
	paths []string
}

func (s *spy) Put(_ context.Context, files []tool.File) error {
	for _, f := range files {
		s.paths = append(s.paths, f.Path)
	}
	return nil
}

func (s *spy) Run(_ context.Context, c tool.Command) (tool.Result, error) {
	s.commands = append(s.commands, c)
	return tool.Result{}, nil
}

func (s *spy) List(_ context.Context, dir string, _ []string) ([]string, error) {
	s.paths = append(s.paths, dir)
	return []string{"src/0/a.sops.yml"}, nil
}

func (s *spy) Find(_ context.Context, dir string, _ []string, _ string) ([]string, error) {
	s.paths = append(s.paths, dir)
	return nil, nil
}

func (s *spy) Remove(_ context.Context, paths []string) error {
	s.paths = append(s.paths, paths...)
	return nil
}

// spied runs one step.
func spied(step v1alpha1.AppTemplate) (*spy, template.Result) {
	s := &spy{}
	req := template.Request{Name: "demo", Namespace: "team-a", Root: "src/0", Facts: &cluster{}, Steps: []v1alpha1.AppTemplate{step}}
	return s, template.New(objects{data: stored}).Template(context.Background(), s, req)
}

// shape is what a tool makes of arguments: options by name, and other arguments.
func (s *spy) shape() (shape []string) {
	for _, c := range s.commands {
		shape = append(shape, c.Name)
		for _, a := range c.Args {
			switch option, _, _ := strings.Cut(a, "="); {
			case a == "-" || !strings.HasPrefix(a, "-"):
				shape = append(shape, "argument")
			default:
				shape = append(shape, option)
			}
		}
	}
	return shape
}

// inside says whether p is in the root or in a folder of the step's own.
func inside(p string) bool {
	clean := path.Clean(p)
	return slices.ContainsFunc([]string{"src/0", "values", "inline", "keys"}, func(dir string) bool {
		return clean == dir || strings.HasPrefix(clean, dir+"/")
	})
}

// local checks that the paths among the arguments stay inside.
func (s *spy) local() error {
	for _, p := range s.paths {
		if !inside(p) {
			return errors.New("touches " + p)
		}
	}
	for _, c := range s.commands {
		if err := sidecar.Check(c); err != nil {
			return err
		}
		for _, a := range c.Args {
			if items, err := csv.NewReader(strings.NewReader(a)).Read(); c.Name != "cue" && err == nil && strings.HasPrefix(a, `"`) {
				a = items[0]
			}
			if strings.HasPrefix(a, "./") && !inside(path.Join(c.Dir, a)) {
				return errors.New(c.Name + " gets " + a)
			}
		}
	}
	return nil
}

// fields are the fields of withText, in order.
var fields = slices.Sorted(maps.Keys(withText("")))

// usual is what each field makes of a text that means nothing to a tool.
var usual = sync.OnceValue(func() map[string][]string {
	shapes := map[string][]string{}
	for _, field := range fields {
		text := "a"
		if field == "downward.fieldPath" {
			text = "metadata.name"
		}
		s, _ := spied(withText(text)[field])
		shapes[field] = s.shape()
	}
	return shapes
})

// checkText fails t if a text in a field changes more than the value of that field.
func checkText(t *testing.T, field, text string) {
	t.Helper()
	got, res := spied(withText(text)[field])
	if err := got.local(); err != nil {
		t.Errorf("%s %q: %v", field, text, err)
	}
	if res.Failed() || text == "" {
		return // refused, or as if the field were not there
	}
	if diff := cmp.Diff(usual()[field], got.shape()); diff != "" {
		t.Errorf("%s %q changes the options (-want +got):\n%s", field, text, diff)
	}
}

// TestNoTextBecomesAnOption is the table of what FuzzArguments looks for.
func TestNoTextBecomesAnOption(t *testing.T) {
	for _, text := range hostile {
		for _, field := range fields {
			checkText(t, field, text)
		}
	}
}

// FuzzArguments: whatever a user writes into a field, the tool gets the same options
// as ever, and paths inside the root; nothing panics, and the sidecar's gate has
// nothing to stop.
func FuzzArguments(f *testing.F) {
	for i, text := range hostile {
		for j := range fields {
			if (i+j)%4 == 0 {
				f.Add(uint8(j), text)
			}
		}
	}
	f.Fuzz(func(t *testing.T, field uint8, text string) { checkText(t, fields[int(field)%len(fields)], text) })
}

// FuzzValuesPaths: a values path is refused, or names a file inside the root, in
// every step that has values.
func FuzzValuesPaths(f *testing.F) {
	for _, text := range hostile {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, p string) {
		for field, step := range withText(p) {
			if !strings.HasSuffix(field, ".valuesFrom") {
				continue
			}
			s, res := spied(step)
			if err := s.local(); err != nil {
				t.Fatalf("%s: %v", field, err)
			}
			// Text that is no path in the root never gets as far as a tool.
			up := slices.Contains(strings.Split(path.Clean(strings.TrimLeft(p, "/")), "/"), "..")
			if (up || p == "" || p == "-") && (!res.Failed() || len(s.commands) > 0) {
				t.Fatalf("%s: %q was not refused", field, p)
			}
		}
	})
}

// FuzzHooks: whatever a chart prints, it is deployed as it is unless it has hooks,
// and nothing panics.
func FuzzHooks(f *testing.F) {
	for _, text := range []string{
		"", "---\n", "a: 1\n---\nhelm.sh/hook: x\n", "metadata: {annotations: {helm.sh/hook: test}}\n---\nb: 1", "[helm.sh/hook]\n--- 1\n",
		"metadata: {annotations: {helm.sh/hook: pre-install}}\n---\nkind: A\nmetadata: {}\n", "metadata: {annotations: {helm.sh/hook: 1, helm.sh/hook-weight: x}}\n---\n: :",
		"kind: Job\nmetadata: {name: x, annotations: {helm.sh/hook: post-install}}\n---\n- 1\n", "metadata: {annotations: {helm.sh/hook: pre-delete}}\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, printed []byte) {
		ws := &recorder{run: func(tool.Command) (tool.Result, error) { return tool.Result{Stdout: printed}, nil }}
		req := template.Request{Name: "demo", Namespace: "team-a", Root: "src/0", Steps: []v1alpha1.AppTemplate{{HelmTemplate: &v1alpha1.AppTemplateHelmTemplate{}}}}
		res := template.New(objects{}).Template(context.Background(), ws, req)
		if res.Failed() != (res.Output == nil && len(printed) > 0 && res.Err != "") {
			t.Fatalf("error %q with output %q", res.Err, res.Output)
		}
		if !strings.Contains(string(printed), "helm.sh/hook") && string(res.Output) != string(printed) {
			t.Fatalf("%q became %q", printed, res.Output)
		}
	})
}
