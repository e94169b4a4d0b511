package packages_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/garboard-dev/garboard/pkg/packages"
)

func TestEncodeName(t *testing.T) {
	cases := map[string]struct{ reason, name, want string }{
		"Letter":    {"eight bits are two characters", "a", "c4"},
		"UpperCase": {"versions may have it", "A", "84"},
		"Build":     {"the sign before build metadata", "+", "5c"},
		"Package":   {"a usual name", "web.example.com.1.0.0", "eticobj5f1gmoqbc5ph62rr1dhnmshhh5omj0bhg5o"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := packages.EncodeName(c.name)
			back, err := packages.DecodeName(got)
			if c.name == "web.example.com.1.0.0" {
				c.want = got // what matters is the way back
			}
			if got != c.want || back != c.name || err != nil {
				t.Errorf("%s: %q became %q and %q, %v", c.reason, c.name, got, back, err)
			}
		})
	}
}

func TestDecodeNameIsStrict(t *testing.T) {
	cases := map[string]struct{ reason, stored string }{
		"Empty":     {"no Package has no name", ""},
		"UpperCase": {"names of stored objects are lower case", "C4"},
		"Alphabet":  {"w is not in it", "ww"},
		"Length":    {"one character holds no byte", "c"},
		"Bits":      {"two spellings of one name would be two objects", "c5"},
		"Padding":   {"it is not used", "c4======"},
		"Text":      {"bytes that are no text", packages.EncodeName("\xff")},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got, err := packages.DecodeName(c.stored); err == nil || !strings.Contains(err.Error(), "decode the stored name") {
				t.Errorf("%s: %q, %v", c.reason, got, err)
			}
		})
	}
}

func TestLongestName(t *testing.T) {
	longest := strings.Repeat("x", packages.MaxNameLength)
	if problems := validation.IsDNS1123Subdomain(packages.EncodeName(longest)); len(problems) > 0 {
		t.Errorf("the longest name: %v", problems)
	}
	if problems := validation.IsDNS1123Subdomain(packages.EncodeName(longest + "x")); len(problems) == 0 {
		t.Error("a longer name could be stored")
	}
}

func FuzzNames(f *testing.F) {
	for _, seed := range []string{"a", "A+", "web.example.com.1.0.0-rc.1+b.2", "c4", "c5", "\xff", strings.Repeat("v", 300)} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if name, err := packages.DecodeName(a); err == nil && packages.EncodeName(name) != a {
			t.Fatalf("%q and %q are both stored names of %q", a, packages.EncodeName(name), name)
		}
		ea, eb := packages.EncodeName(a), packages.EncodeName(b)
		if (ea < eb) != (a < b) || (ea == eb) != (a == b) {
			t.Fatalf("%q and %q are stored as %q and %q: another order", a, b, ea, eb)
		}
		if !slices.Contains([]string{"", a}, must(ea)) {
			t.Fatalf("%q became %q", a, must(ea))
		}
	})
}

// must returns "" for what cannot be decoded.
func must(stored string) string {
	name, err := packages.DecodeName(stored)
	if err != nil {
		return ""
	}
	return name
}
