package inline_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/refs"
	"github.com/garboard-dev/garboard/pkg/refs/inline"
)

var objects = map[refs.Key]map[string][]byte{
	{Kind: refs.Secret, Name: "a"}:      {"values.yml": []byte("a"), "x": []byte("x")},
	{Kind: refs.Secret, Name: "b"}:      {"values.yml": []byte("b")},
	{Kind: refs.ConfigMap, Name: "a"}:   {"values.yml": []byte("a")},
	{Kind: refs.ConfigMap, Name: "odd"}: {"../up": []byte("a")},
}

func lookup(key refs.Key) (map[string][]byte, error) {
	if data, ok := objects[key]; ok {
		return data, nil
	}
	return nil, errors.New("no such object")
}

func secret(name, dir string) v1alpha1.AppFetchInlineSource {
	return v1alpha1.AppFetchInlineSource{SecretRef: &v1alpha1.AppFetchInlineSourceRef{Name: name, DirectoryPath: dir}}
}

func configMap(name, dir string) v1alpha1.AppFetchInlineSource {
	return v1alpha1.AppFetchInlineSource{ConfigMapRef: &v1alpha1.AppFetchInlineSourceRef{Name: name, DirectoryPath: dir}}
}

func TestFiles(t *testing.T) {
	type from = []v1alpha1.AppFetchInlineSource
	for name, tc := range map[string]struct {
		reason string
		paths  map[string]string
		from   from
		want   string // path=content, in order
		err    string
	}{
		"Empty":         {reason: "nothing gives nothing"},
		"Sorted":        {reason: "paths in any order come sorted", paths: map[string]string{"b": "2", "/a/c": "1"}, want: "a/c=1 b=2"},
		"TwoFolders":    {reason: "one key in two folders gives two files", from: from{secret("a", "one"), secret("b", "two")}, want: "one/values.yml=a one/x=x two/values.yml=b"},
		"Collision":     {reason: "one key twice would lose one of them", from: from{secret("a", ""), secret("b", "")}, err: "'values.yml' comes from secret 'a' and from secret 'b'"},
		"SameFolder":    {reason: "spelling a folder differently does not hide it", from: from{secret("a", "one"), secret("b", "./one/")}, err: "'one/values.yml' comes from"},
		"Equal":         {reason: "equal content loses nothing", from: from{secret("a", ""), configMap("a", "")}, want: "values.yml=a x=x"},
		"Override":      {reason: "pathsFrom overrides paths", paths: map[string]string{"values.yml": "default"}, from: from{secret("b", "")}, want: "values.yml=b"},
		"PathsTwice":    {reason: "paths that mean one file collide", paths: map[string]string{"a": "1", "./a": "2"}, err: "'a' comes from paths and from paths"},
		"FileAndFolder": {reason: "a file cannot be a folder", paths: map[string]string{"a": "1", "a/b": "2"}, err: "Expected 'a' to be a folder for 'a/b'"},
		"FolderOutside": {reason: "folders stay inside", from: from{secret("a", "../x")}, err: "Invalid path: ../x/values.yml"},
		"PathOutside":   {reason: "files stay inside", paths: map[string]string{"a/../../b": ""}, err: "Invalid path: a/../../b"},
		"NoFile":        {reason: "a file has a name", paths: map[string]string{"": ""}, err: "names no file"},
		"OddKey":        {reason: "keys are names of files", from: from{configMap("odd", "")}, err: "config map 'odd': Invalid file name"},
		"Neither":       {reason: "a source is needed", from: from{{}}, err: "Expected either secretRef or configMapRef as a source"},
		"Missing":       {reason: "errors of the lookup pass", from: from{secret("none", "")}, err: "no such object"},
	} {
		t.Run(name, func(t *testing.T) {
			files, err := inline.Files(v1alpha1.AppFetchInline{Paths: tc.paths, PathsFrom: tc.from}, lookup)
			var got []string
			for _, f := range files {
				got = append(got, f.Path+"="+string(f.Content))
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("%s: %s", tc.reason, diff)
			}
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%s: error %v, want %q", tc.reason, err, tc.err)
			}
		})
	}
}

func ExampleFiles() {
	_, err := inline.Files(v1alpha1.AppFetchInline{PathsFrom: []v1alpha1.AppFetchInlineSource{secret("a", ""), secret("b", "")}}, lookup)
	fmt.Println(err)
	// Output: Expected each file to come from one source, but 'values.yml' comes from secret 'a' and from secret 'b' (hint: give them different directoryPath)
}
