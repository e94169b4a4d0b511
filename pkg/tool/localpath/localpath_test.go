package localpath_test

import (
	"fmt"
	"path"
	"strings"
	"testing"

	"github.com/garboard-dev/garboard/pkg/tool/localpath"
)

var joins = map[string]struct{ in, want, err string }{
	"Plain":         {in: "a/b.yml", want: "a/b.yml"},
	"Unclean":       {in: "./a//b/../c/", want: "a/c"},
	"Empty":         {in: "", want: "."},
	"Dot":           {in: ".", want: "."},
	"LeadingSlash":  {in: "/etc/x", want: "etc/x"},
	"Root":          {in: "/", want: "."},
	"Dashes":        {in: "--help", want: "--help"},
	"DotsInName":    {in: "..a/b..", want: "..a/b.."},
	"Parent":        {in: "..", err: "Invalid path: .."},
	"Outside":       {in: "../x", err: "Invalid path: ../x"},
	"OutsideInside": {in: "a/../../x", err: "Invalid path: a/../../x"},
	"SlashOutside":  {in: "/../x", err: "Invalid path: /../x"},
	"Newline":       {in: "a\nb", err: "Invalid path: a\uFFFDb"},
	"Nul":           {in: "a\x00b", err: "Invalid path: a\uFFFDb"},
	"Backslash":     {in: `a\b`, err: `Invalid path: a\b`},
}

func TestJoin(t *testing.T) {
	for name, tc := range joins {
		t.Run(name, func(t *testing.T) {
			got, err := localpath.Join(tc.in)
			if got != tc.want || (err == nil) != (tc.err == "") || (err != nil && err.Error() != tc.err) {
				t.Errorf("Join(%q) = %q, %v; want %q, %q", tc.in, got, err, tc.want, tc.err)
			}
		})
	}
}

func TestName(t *testing.T) {
	for s, ok := range map[string]bool{"values.yml": true, "..data": true, "-x": true, "": false, ".": false, "..": false, "a/b": false, "a\x00": false} {
		if err := localpath.Name(s); (err == nil) != ok {
			t.Errorf("Name(%q) = %v", s, err)
		}
	}
}

func FuzzArg(f *testing.F) {
	for _, tc := range joins {
		f.Add(tc.in)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := localpath.Arg(s)
		if err != nil {
			return
		}
		if got != "." && !strings.HasPrefix(got, "./") {
			t.Fatalf("%q became %q, which a tool may take for an option", s, got)
		}
		if at := path.Join("/base/x", got); at != "/base/x" && !strings.HasPrefix(at, "/base/x/") {
			t.Fatalf("%q became %q, which leads to %s", s, got, at)
		}
		if again, err := localpath.Arg(got); err != nil || again != got {
			t.Fatalf("%q became %q and then %q, %v", s, got, again, err)
		}
	})
}

func ExampleArg() {
	fmt.Println(localpath.Arg("--post-renderer=x"))
	fmt.Println(localpath.Arg("a/../../x"))
	// Output:
	// ./--post-renderer=x <nil>
	//  Invalid path: a/../../x
}
