package docs_test

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
)

// shared are the types that several fields have: reference/app.md lists what is in
// them once, below these names.
var shared = map[reflect.Type]string{
	reflect.TypeFor[v1alpha1.AppFetchInline]():          "inline",
	reflect.TypeFor[v1alpha1.VersionSelection]():        "selection",
	reflect.TypeFor[v1alpha1.AppTemplateValuesSource](): "valuesFrom[]",
}

// fields adds the path of each field below a struct type.
func fields(t reflect.Type, prefix string, paths map[string]bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if strings.Contains(options, "inline") {
			fields(f.Type, prefix, paths)
			continue
		}
		path, elem := prefix+"."+name, f.Type
		for elem.Kind() == reflect.Pointer || elem.Kind() == reflect.Slice {
			elem = elem.Elem()
		}
		paths[path] = true
		if f.Type.Kind() == reflect.Slice {
			path += "[]"
		}
		if name, ok := shared[elem]; ok {
			path = name
		}
		if elem.Kind() == reflect.Struct && elem != reflect.TypeFor[metav1.Time]() && elem != reflect.TypeFor[v1alpha1.Duration]() {
			fields(elem, path, paths)
		}
	}
}

// TestAppReference: the table has each field of an App with what it does, its
// default, and an end-to-end test that proves it; and each of those tests exists.
func TestAppReference(t *testing.T) {
	want := map[string]bool{}
	fields(reflect.TypeFor[v1alpha1.AppSpec](), "spec", want)
	fields(reflect.TypeFor[v1alpha1.AppStatus](), "status", want)
	seen := map[string]bool{}
	for line := range strings.Lines(read(t, "reference/app.md")) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		m := regexp.MustCompile("^ *`([^`]+)`").FindStringSubmatch(cells[0])
		if m == nil || !strings.HasPrefix(line, "| `") {
			continue
		}
		path := m[1]
		if !want[path] || seen[path] {
			t.Errorf("%s: no such field, or listed twice", path)
		}
		seen[path] = true
		// A field of the status has no default.
		if columns := 4; len(cells) != columns && (len(cells) != columns-1 || !strings.HasPrefix(path, "status.")) || slices.Contains(cells, "") {
			t.Errorf("%s: %d cells in its row, want none empty and %d", path, len(cells), columns)
		}
		tests := regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[len(cells)-1], -1)
		if len(tests) == 0 {
			t.Errorf("%s: no test proves it", path)
		}
		for _, test := range tests {
			checkTest(t, path, test[1])
		}
	}
	for path := range want {
		if !seen[path] {
			t.Errorf("%s is not in the table", path)
		}
	}
}

// checkTest looks for a test, named as file/TestName or file/TestName/Case.
func checkTest(t *testing.T, field, name string) {
	t.Helper()
	parts := strings.Split(name, "/")
	if len(parts) < 2 {
		t.Errorf("%s: %q is not file/TestName", field, name)
		return
	}
	code, err := os.ReadFile(filepath.Join("../test/e2e", parts[0]))
	if err != nil {
		t.Errorf("%s: %v", field, err)
		return
	}
	if !strings.Contains(string(code), "func "+parts[1]+"(") {
		t.Errorf("%s: %s has no %s", field, parts[0], parts[1])
	}
	for _, c := range parts[2:] {
		if !strings.Contains(string(code), `"`+c+`"`) {
			t.Errorf("%s: %s has no case %s", field, parts[0], c)
		}
	}
}

// TestFlagReference: the tables have each flag and each variable that the program
// reads, and no other.
func TestFlagReference(t *testing.T) {
	text := read(t, "reference/flags.md")
	for what, c := range map[string]struct {
		rows, code *regexp.Regexp
		// more are those that the code does not name where the others are.
		more []string
	}{
		"flag":     {regexp.MustCompile("(?m)^\\| `-([a-z-]+)` \\|"), regexp.MustCompile(`fs\.[A-Za-z0-9]+\((?:&o\.[A-Za-z]+, )?"([a-z-]+)"`), []string{"kubeconfig"}},
		"variable": {regexp.MustCompile("(?m)^\\| `([A-Z_]+)` \\|"), regexp.MustCompile(`getenv\("([A-Z_]+)"\)`), []string{"IMGPKG_ACTIVE_KEYCHAINS", "SSL_CERT_FILE", "GOMEMLIMIT"}},
	} {
		want := slices.Clone(c.more)
		for _, m := range c.code.FindAllStringSubmatch(read(t, "../cmd/garboard/options.go"), -1) {
			// HOME only leads to a file that has a flag of its own.
			if m[1] != "HOME" {
				want = append(want, m[1])
			}
		}
		var got []string
		for _, m := range c.rows.FindAllStringSubmatch(text, -1) {
			got = append(got, m[1])
		}
		slices.Sort(want)
		slices.Sort(got)
		if want = slices.Compact(want); len(want) < 10 || !slices.Equal(got, want) {
			t.Errorf("%ss: the tables have %q, the program %q", what, got, want)
		}
	}
}
