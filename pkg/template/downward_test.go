package template

import (
	"slices"
	"strings"
	"testing"
)

// FuzzSplitName: keys that are escaped and joined come back as they were.
func FuzzSplitName(f *testing.F) {
	f.Add("a", "b.c", `d\e`)
	f.Add("é", " ", "..")
	escape := strings.NewReplacer(`\`, `\\`, ".", `\.`)
	f.Fuzz(func(t *testing.T, a, b, c string) {
		keys := []string{strings.ToValidUTF8(a, "?"), strings.ToValidUTF8(b, "?"), strings.ToValidUTF8(c, "?")}
		var escaped []string
		for _, k := range keys {
			escaped = append(escaped, escape.Replace(k))
		}
		got, err := splitName(strings.Join(escaped, "."))
		if slices.Contains(keys, "") {
			if err == nil {
				t.Fatalf("%q were accepted as %q", keys, got)
			}
			return
		}
		if err != nil || !slices.Equal(got, keys) {
			t.Fatalf("%q became %q, %v", keys, got, err)
		}
	})
}
