// Package values checks the values of a PackageInstall against the schema of its
// Package. It sees values only. Its texts name keys, never what is in them.
package values

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	verrors "k8s.io/kube-openapi/pkg/validation/errors"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	"sigs.k8s.io/yaml"

	"github.com/garboard-dev/garboard/pkg/tool/yamlsize"
)

// File is one file of values.
type File struct {
	// Source says where it comes from, for people.
	Source string
	// Content is a YAML stream.
	Content []byte
}

// Form says how values reach the tool.
type Form struct {
	// Overlay says that files are ytt overlays on data values. What ytt code
	// computes in them is not known here: then nothing is checked.
	Overlay bool
	// NullRemoves says that null takes a key away, as it does for helm.
	NullRemoves bool
}

const (
	// maxProblems bounds what Check returns.
	maxProblems = 10
	// maxText bounds each text, in bytes.
	maxText = 300
	// maxWork bounds the time of a check: nodes of the schema times nodes of the
	// values. It is some tenths of a second.
	maxWork = 4_000_000
	// maxUnique bounds the values in which duplicates of a list are looked for,
	// which takes time that grows with the square.
	maxUnique = 2000
)

// Check returns how the files, merged in their order, do not fit the schema, an
// OpenAPI v3 schema in JSON: one text for each problem, sorted, 10 at most. No
// schema accepts everything.
func Check(schema []byte, files []File, form Form) []string {
	if text := string(bytes.TrimSpace(schema)); text == "" || text == "null" || text == "{}" {
		return nil
	}
	merged, problems, checkable := read(files, form)
	if !checkable {
		return nil
	}
	found, err := check(schema, merged)
	if err != nil {
		problems = append(problems, "values were not checked: "+err.Error())
	}
	return bounded(append(problems, found...))
}

// read merges the files. A file that cannot be read is a problem, and so is one
// that is no map; checkable is false when they hold code.
func read(files []File, form Form) (merged map[string]any, problems []string, checkable bool) {
	merged = map[string]any{}
	for _, f := range files {
		if form.Overlay && hasCode(f.Content) {
			return nil, nil, false
		}
		docs := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(f.Content)))
		for {
			doc, err := docs.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			var v any
			if err == nil {
				err = yamlsize.Check(doc)
			}
			if err == nil {
				err = yaml.Unmarshal(doc, &v)
			}
			if err != nil {
				problems = append(problems, f.Source+": not valid YAML"+line(err))
				break
			}
			switch v := v.(type) {
			case nil:
			case map[string]any:
				merge(merged, v)
			default:
				problems = append(problems, fmt.Sprintf("%s: want keys and values at the top, have %s", f.Source, typeOf(v)))
			}
		}
	}
	if form.NullRemoves {
		withoutNulls(merged)
	}
	return merged, problems, true
}

var (
	yttHeader = regexp.MustCompile(`#@\s*data/values(-schema)?\b`)
	inLine    = regexp.MustCompile(`line \d+`)
)

// hasCode says whether an overlay is more than plain values below its header.
func hasCode(content []byte) bool {
	rest := yttHeader.ReplaceAll(content, nil)
	return bytes.Contains(rest, []byte("#@")) || bytes.Contains(rest, []byte("(@"))
}

// line returns where the error is; the rest of its text may quote a value.
func line(err error) string {
	if at := inLine.FindString(err.Error()); at != "" {
		return " (" + at + ")"
	}
	return ""
}

// merge lays over onto base, as ytt and helm do: maps are merged, all else is replaced.
func merge(base, over map[string]any) {
	for k, v := range over {
		old, wasMap := base[k].(map[string]any)
		if m, isMap := v.(map[string]any); wasMap && isMap {
			merge(old, m)
			continue
		}
		base[k] = v
	}
}

func withoutNulls(m map[string]any) {
	for k, v := range m {
		switch v := v.(type) {
		case nil:
			delete(m, k)
		case map[string]any:
			withoutNulls(v)
		}
	}
}

// check validates v. An error says why it cannot be done.
func check(schema []byte, v map[string]any) (problems []string, err error) {
	// The library panics on schemas that it does not support.
	defer func() {
		if p := recover(); p != nil {
			problems, err = nil, fmt.Errorf("the Package's values schema cannot be used: %.200v", p)
		}
	}()
	var tree map[string]any
	if err := json.Unmarshal(schema, &tree); err != nil {
		return nil, errors.New("the Package's values schema is no object")
	}
	n, size := 0, nodes(v)
	if tree, err = supported(tree, size, 0, &n); err != nil {
		return nil, err
	}
	if n*size > maxWork {
		return nil, errors.New("values and schema are too large together")
	}
	clean, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	parsed := &spec.Schema{}
	if err := json.Unmarshal(clean, parsed); err != nil {
		return nil, fmt.Errorf("the Package's values schema cannot be read: %.200s", err)
	}
	var ranges []string
	for _, e := range validate.NewSchemaValidator(parsed, nil, "", strfmt.Default).Validate(v).Errors {
		if at := outOfRange.FindStringSubmatch(e.Error()); at != nil {
			ranges = append(ranges, at[1])
			continue
		}
		problems = append(problems, explain(e))
	}
	for _, key := range ranges {
		// A number of the wrong type is told about already.
		if !slices.ContainsFunc(problems, func(p string) bool { return strings.HasPrefix(p, key+": ") }) {
			problems = append(problems, key+": too large or too small for its type")
		}
	}
	return problems, nil
}

var outOfRange = regexp.MustCompile(`(?i)^checked value must be of type .* in (\S+)`)

// explain is an error of the library without the value that it is about.
func explain(err error) string {
	e := (*verrors.Validation)(nil)
	if !errors.As(err, &e) {
		return strings.TrimPrefix(strings.TrimSpace(err.Error()), ".")
	}
	key := strings.TrimPrefix(e.Name, ".")
	if key == "" {
		key = "the values"
	}
	if e.Code() == verrors.InvalidTypeCode {
		want := wantedType.FindStringSubmatch(e.Error())
		have, _ := e.Value.(string)
		switch {
		case len(want) > 1 && slices.Contains(types, have):
			return fmt.Sprintf("%s: want %s, have %s", key, want[1], have)
		case len(want) > 1:
			return fmt.Sprintf("%s: want %s", key, want[1])
		}
		return key + ": the wrong type"
	}
	if name, ok := strings.CutSuffix(e.Error(), " in body is a forbidden property"); ok {
		return strings.TrimPrefix(name, ".") + ": not a key of the schema"
	}
	return strings.TrimPrefix(strings.Replace(e.Error(), " in body ", " ", 1), ".")
}

var (
	wantedType = regexp.MustCompile(` must be of type ([A-Za-z0-9,_-]+)`)
	types      = []string{"null", "boolean", "integer", "number", "string", "array", "object"}
)

func typeOf(v any) string {
	switch v.(type) {
	case bool:
		return "boolean"
	case string:
		return "string"
	case []any:
		return "array"
	}
	return "number"
}

// bounded sorts the problems and keeps the first, each once.
func bounded(problems []string) []string {
	for i, p := range problems {
		if len(p) > maxText {
			p = strings.ToValidUTF8(p[:maxText], "") + "..."
		}
		problems[i] = strings.ToValidUTF8(p, "\uFFFD")
	}
	slices.Sort(problems)
	problems = slices.Compact(problems)
	if more := len(problems) - maxProblems; more > 0 {
		problems = append(problems[:maxProblems-1:maxProblems-1], fmt.Sprintf("and %d more", more+1))
	}
	return problems
}
