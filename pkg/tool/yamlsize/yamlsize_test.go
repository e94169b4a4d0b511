package yamlsize_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/garboard-dev/garboard/pkg/tool/yamlsize"
)

// many is a document in which n aliases stand for a text of size bytes.
func many(size, n int) string {
	return "a: &a " + strings.Repeat("x", size) + "\nb: [" + strings.Repeat("*a,", n) + "]\n"
}

func TestCheck(t *testing.T) {
	cases := map[string]struct {
		reason string
		doc    string
		fails  bool
	}{
		"Plain":    {"no aliases", "a: 1\n", false},
		"Large":    {"size alone is no fault", "a: &a " + strings.Repeat("x", 20<<20) + "\nb: '*'\n", false},
		"Few":      {"anchors as people use them", "a: &a {b: c}\nd: *a\ne: {<<: *a}\n", false},
		"Long":     {"one long text, many times", many(100_000, 1_000), true},
		"Short":    {"a short one may be repeated", many(100, 1_000), false},
		"Merged":   {"through merge keys", "a: &a {x: " + strings.Repeat("x", 1<<20) + "}\nb: [" + strings.Repeat("{<<: *a},", 100) + "]\n", true},
		"Nested":   {"aliases of aliases", "a: &a " + strings.Repeat("x", 100_000) + "\nb: &b [" + strings.Repeat("*a,", 20) + "]\nc: [" + strings.Repeat("*b,", 20) + "]\n", true},
		"NoYAML":   {"the next reader says it better", "a: &a [*", false},
		"Laughs":   {"what the library itself refuses", laughs(), false},
		"Control":  {"rights on everything, and a shell", "verbs: ['*']\nrun: a && b\n", false},
		"SelfMade": {"an anchor that holds itself", "a: &a [*a]\n", false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if err := yamlsize.Check([]byte(c.doc)); (err != nil) != c.fails {
				t.Errorf("%s: error %v", c.reason, err)
			}
		})
	}
}

func laughs() string {
	doc := "a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
	for i := range 9 {
		doc += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d,", i), 9))
	}
	return doc
}

// TestGrowthAddsUp: many documents that are each just small enough.
func TestGrowthAddsUp(t *testing.T) {
	var g yamlsize.Growth
	var err error
	n := 0
	for ; err == nil && n < 100; n++ {
		err = g.Add([]byte(many(10_000, 100)))
	}
	if n < 10 || n > 30 {
		t.Errorf("refused after %d documents of 1 MB each: %v", n, err)
	}
}

func ExampleCheck() {
	fmt.Println(yamlsize.Check([]byte("a: &a " + strings.Repeat("long", 10_000) + "\nb: [" + strings.Repeat("*a,", 1000) + "]")))
	// Output: aliases (*name) make this YAML more than 16 MiB larger than it is
}
