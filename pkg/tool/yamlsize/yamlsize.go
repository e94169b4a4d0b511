// Package yamlsize finds YAML documents that aliases make much larger than they
// are. The YAML library refuses documents with many aliases to many values, but
// not thousands of aliases to one long text: 300 KB of YAML can become gigabytes
// of JSON, which is what every reader of Kubernetes objects makes of it first.
package yamlsize

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v2"
)

// MaxGrowth is by how many bytes aliases may make the documents of one file grow.
// No object that a Kubernetes API takes is nearly as large.
const MaxGrowth = 16 << 20

// Growth counts over the documents of a file. The zero value is ready.
type Growth struct{ bytes int }

// Add fails once the documents grow by more than MaxGrowth. A document that is no
// YAML is left to whoever reads it next.
func (g *Growth) Add(doc []byte) error {
	if !bytes.ContainsRune(doc, '&') || !bytes.ContainsRune(doc, '*') {
		return nil
	}
	var v any
	if yaml.Unmarshal(doc, &v) != nil {
		return nil
	}
	// What has no aliases is hardly larger in JSON than in YAML.
	if n := size(v) - 2*len(doc); n > 0 {
		g.bytes += n
	}
	if g.bytes > MaxGrowth {
		return fmt.Errorf("aliases (*name) make this YAML more than %d MiB larger than it is", MaxGrowth>>20)
	}
	return nil
}

// Check is Add for a file of one document.
func Check(doc []byte) error { return new(Growth).Add(doc) }

// size is about the length of v in JSON. The library bounds the number of values
// that aliases lead to, so that looking at each is cheap.
func size(v any) int {
	n := 2
	switch v := v.(type) {
	case string:
		n += len(v)
	case map[any]any:
		for k, child := range v {
			n += 2 + size(k) + size(child)
		}
	case []any:
		for _, child := range v {
			n += 1 + size(child)
		}
	default:
		n += 2
	}
	return n
}
