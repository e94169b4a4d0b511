package repository

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	data "github.com/garboard-dev/garboard/pkg/apis/datapackaging/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/packages"
	"github.com/garboard-dev/garboard/pkg/tool/yamlsize"
)

// Content is what a repository holds, in its order.
type Content struct {
	Packages []*data.Package
	Metadata []*data.PackageMetadata
	// Problems are the documents that are not offered.
	Problems []Problem
}

// Len returns the number of objects.
func (c Content) Len() int { return len(c.Packages) + len(c.Metadata) }

// Problem is a document or an object that is not offered, and why.
type Problem struct {
	// Document counts from 1 in what ytt printed; 0 if the problem is none of a document.
	Document int
	// Key is as far known.
	Key
	Reason string
}

// String returns the problem as one line.
func (p Problem) String() string {
	where := p.Key.String()
	if p.Kind == "" {
		where = ""
	}
	if p.Document > 0 {
		where = strings.TrimSuffix(fmt.Sprintf("document %d (%s)", p.Document, where), " ()")
	}
	return where + ": " + strings.Join(strings.Fields(p.Reason), " ")
}

// header is what every object has.
type header struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
}

// Filter reads a stream of YAML documents. It leaves out everything that is no
// Package or PackageMetadata, as kapp-controller does, and every field that this
// version does not know, so that a repository made for a newer one can be used. A
// Package that cannot be read or is not valid becomes a problem; the others are
// there. It fails for a stream that is no YAML at all.
func Filter(stream []byte) (Content, error) {
	f := filter{seen: map[Key]*entry{}}
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(stream)))
	for n := 1; ; n++ {
		doc, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return f.content(), nil
		}
		if err == nil {
			err = f.growth.Add(doc)
		}
		if err != nil {
			return Content{}, fmt.Errorf("Parsing stream of resources: document %d: %w", n, err)
		}
		f.add(n, doc)
	}
}

// filter collects the documents of a stream.
type filter struct {
	growth   yamlsize.Growth
	order    []*entry
	seen     map[Key]*entry
	problems []Problem
}

// entry is an object by name: two documents may have the same.
type entry struct {
	document int
	key      Key
	object   metav1.Object
	clash    int // the document that contradicts, or 0
}

func (f *filter) add(n int, doc []byte) {
	text, err := yaml.YAMLToJSON(doc)
	if err != nil {
		f.problems = append(f.problems, Problem{Document: n, Reason: err.Error()})
		return
	}
	var h header
	// What is no object, or has no such fields, is nothing of ours.
	if json.Unmarshal(text, &h) != nil && h.Kind == "" || h.APIVersion != data.SchemeGroupVersion.String() {
		return
	}
	key := Key{h.Kind, h.Metadata.Name}
	var object metav1.Object
	switch h.Kind {
	case Package:
		object, err = readPackage(text)
	case Metadata:
		object, err = readMetadata(text)
	default:
		return
	}
	if err != nil {
		f.problems = append(f.problems, Problem{Document: n, Key: key, Reason: err.Error()})
		return
	}
	if have := f.seen[key]; have == nil {
		e := &entry{document: n, key: key, object: object}
		f.seen[key] = e
		f.order = append(f.order, e)
	} else if !equality.Semantic.DeepEqual(have.object, object) && have.clash == 0 {
		have.clash = n
	}
}

// content sorts out the names that two documents claim with different content:
// which of them is meant, nobody knows.
func (f *filter) content() Content {
	c := Content{Problems: f.problems}
	for _, e := range f.order {
		if e.clash > 0 {
			c.Problems = append(c.Problems, Problem{e.clash, e.key, fmt.Sprintf("document %d has the same name and other content", e.document)})
			continue
		}
		switch object := e.object.(type) {
		case *data.Package:
			c.Packages = append(c.Packages, object)
		case *data.PackageMetadata:
			c.Metadata = append(c.Metadata, object)
		}
	}
	slices.SortStableFunc(c.Problems, func(a, b Problem) int { return a.Document - b.Document })
	return c
}

func readPackage(text []byte) (*data.Package, error) {
	p := &data.Package{}
	if err := decode(text, p); err != nil {
		return nil, err
	}
	if err := packages.ValidatePackage(p).ToAggregate(); err != nil {
		return nil, err
	}
	if p.Spec.Template.Spec == nil {
		return nil, errors.New("spec.template.spec: Required value")
	}
	// Which a zone can bring about that is far enough from Greenwich.
	if year := p.Spec.ReleasedAt.UTC().Year(); year < 0 || year > 9999 {
		return nil, fmt.Errorf("spec.releasedAt: year %d cannot be written", year)
	}
	return p, nil
}

func readMetadata(text []byte) (*data.PackageMetadata, error) {
	m := &data.PackageMetadata{}
	if err := decode(text, m); err != nil {
		return nil, err
	}
	return m, packages.ValidateMetadata(m).ToAggregate()
}

// decode reads an object and words the error for whoever wrote the document.
func decode(text []byte, into any) error {
	// As the API server reads it: names of fields are the same in upper and lower case
	// for Go alone.
	err := kjson.UnmarshalCaseSensitivePreserveInts(text, into)
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return err
	}
	hint := ""
	if wrong.Type.Kind().String() == "string" {
		hint = " (hint: put it in quotes)"
	}
	return fmt.Errorf("%s: expected %s, but is a %s%s", wrong.Field, wrong.Type, wrong.Value, hint)
}

// Encode returns the content as a stream of documents for kbld; Filter reads it back.
func Encode(c Content) ([]byte, error) {
	var b bytes.Buffer
	put := func(kind string, object any) error {
		text, err := yaml.Marshal(object)
		if err != nil {
			return fmt.Errorf("encode %s: %w", kind, err)
		}
		fmt.Fprintf(&b, "---\n%s", text)
		return nil
	}
	for _, p := range c.Packages {
		p.TypeMeta = metav1.TypeMeta{APIVersion: data.SchemeGroupVersion.String(), Kind: Package}
		if err := put(Package, p); err != nil {
			return nil, err
		}
	}
	for _, m := range c.Metadata {
		m.TypeMeta = metav1.TypeMeta{APIVersion: data.SchemeGroupVersion.String(), Kind: Metadata}
		if err := put(Metadata, m); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}
