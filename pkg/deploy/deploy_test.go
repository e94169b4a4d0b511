package deploy_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/deploy"
	"github.com/garboard-dev/garboard/test/golden"
)

const manifest = "kind: ConfigMap"

func TestArguments(t *testing.T) {
	base := func() deploy.Request {
		return deploy.Request{
			Name: "simple-app", Suffix: ".app", Manifest: []byte(manifest),
			Target: deploy.Target{Namespace: "ns", AppNamespace: "ns"},
		}
	}
	tests := map[string]struct {
		reason string
		with   func(*deploy.Request)
		args   func(deploy.Request) ([]string, error)
	}{
		"deploy": {reason: "defaults come first", with: func(*deploy.Request) {}},
		"deploy-global": {reason: "the App's options win", with: func(r *deploy.Request) {
			r.GlobalRawOptions = []string{"--labels=a=b", "--apply-timeout=1m"}
			r.Kapp.RawOptions = []string{"--labels=c=d", "--apply-timeout=2m"}
		}},
		"deploy-namespaces": {reason: "namespaces are moved", with: func(r *deploy.Request) {
			r.Kapp.IntoNs, r.Kapp.MapNs = "into", []string{"a=b", "c=d"}
			r.Target.AppNamespace = ""
		}},
		"deploy-logs-wanted": {reason: "a Pod asks for its logs", with: func(r *deploy.Request) {
			r.Manifest = []byte("kind: Pod\nmetadata: {annotations: {kapp.k14s.io/deploy-logs: ''}}")
		}},
		"deploy-logs-said": {reason: "the user has the say on logs", with: func(r *deploy.Request) {
			r.Kapp.RawOptions = []string{"--logs=true"}
		}},
		"deploy-empty": {reason: "without objects logs keep the kinds in scope", with: func(r *deploy.Request) { r.Manifest = nil }},
		"deploy-repository": {reason: "App defaults are for Apps", with: func(r *deploy.Request) {
			r.Suffix, r.GlobalRawOptions = ".pkgr", []string{"--labels=a=b"}
		}},
		"delete": {reason: "deploy's options are not delete's", args: deploy.ArgsToDelete, with: func(r *deploy.Request) {
			r.GlobalRawOptions, r.Kapp.RawOptions = []string{"--labels=a=b"}, []string{"--labels=a=b"}
			r.Kapp.Delete = &v1alpha1.AppDeployKappDelete{RawOptions: []string{"--apply-ignored=true"}}
		}},
		"inspect": {reason: "a table without metrics", args: deploy.ArgsToInspect, with: func(r *deploy.Request) {
			r.Kapp.Inspect = &v1alpha1.AppDeployKappInspect{RawOptions: []string{"--tree=true"}}
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			req := base()
			tc.with(&req)
			args := tc.args
			if args == nil {
				args = func(r deploy.Request) ([]string, error) { return deploy.ArgsToDeploy(r, "-") }
			}
			got, err := args(req)
			if err != nil {
				t.Fatal(err)
			}
			golden.Equal(t, "testdata/"+name+".want", []byte(strings.Join(got, "\n")+"\n"))
		})
	}
}

func TestRawOptions(t *testing.T) {
	tests := map[string]struct {
		reason, option, err string
		args                func(deploy.Request) ([]string, error)
	}{
		"Allowed":      {reason: "a value may hold anything", option: "--filter-kind-name==x --yes"},
		"Unknown":      {reason: "not on the list", option: "--foo=1", err: "Unexpected flag '--foo' specified (either forbidden or unknown)"},
		"Kubeconfig":   {reason: "would leave the identity", option: "--kubeconfig-yaml=x", err: "Unexpected flag '--kubeconfig-yaml' specified (either forbidden or unknown)"},
		"Scoping":      {reason: "would list every kind", option: "--dangerous-disable-gk-scoping=true", err: "Unexpected flag '--dangerous-disable-gk-scoping' specified (either forbidden or unknown)"},
		"File":         {reason: "would read this machine", option: "--file=/etc/passwd", err: "Unexpected flag '--file' specified (either forbidden or unknown)"},
		"Short":        {reason: "long flags only", option: "-f=x", err: "Expected flag '-f=x' to be in '--name=val' format"},
		"NoValue":      {reason: "a value is a must", option: "--wait", err: "Expected flag '--wait' to be in '--name=val' format"},
		"EmptyValue":   {reason: "a value is a must", option: "--wait=", err: "Expected flag '--wait=' to be in '--name=val' format"},
		"TwoLines":     {reason: "one line", option: "--wait=a\nb", err: "Expected flag '--wait=a\nb' to be in '--name=val' format"},
		"Positional":   {reason: "no argument", option: "x", err: "Expected flag 'x' to be in '--name=val' format"},
		"UpperCase":    {reason: "flags are lower case", option: "--Wait=x", err: "Expected flag '--Wait=x' to be in '--name=val' format"},
		"DeleteLogs":   {reason: "a flag of deploy only", option: "--logs=true", args: deploy.ArgsToDelete, err: "Unexpected flag '--logs' specified (either forbidden or unknown)"},
		"InspectWait":  {reason: "a flag of changes only", option: "--wait=true", args: deploy.ArgsToInspect, err: "Unexpected flag '--wait' specified (either forbidden or unknown)"},
		"InspectRaw":   {reason: "a flag of inspect", option: "--raw=true", args: deploy.ArgsToInspect},
		"DeleteFilter": {reason: "a flag of all", option: "--filter-ns=x", args: deploy.ArgsToDelete},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			args := tc.args
			if args == nil {
				args = func(r deploy.Request) ([]string, error) { return deploy.ArgsToDeploy(r, "-") }
			}
			var req deploy.Request
			req.Kapp.RawOptions = []string{tc.option}
			req.Kapp.Delete = &v1alpha1.AppDeployKappDelete{RawOptions: req.Kapp.RawOptions}
			req.Kapp.Inspect = &v1alpha1.AppDeployKappInspect{RawOptions: req.Kapp.RawOptions}
			_, err := args(req)
			if got := fmt.Sprint(err); got != tc.err && !(err == nil && tc.err == "") {
				t.Errorf("%s: error %q, want %q", tc.reason, got, tc.err)
			}
		})
	}
}

// forbidden are kapp's flags that would leave the App's identity, cluster or record, or
// read this machine.
var forbidden = regexp.MustCompile(`^--(kubeconfig.*|file|app.*|namespace|prev-app|yes|.*metadata-file.*|.*file-output|diff-ui.*|dangerous-disable-.*|context|.*fs.*)$`)

// FuzzRawOptions: an option is refused with one of two texts, or it is one line that
// reaches kapp as it is, as one argument that is no other flag.
func FuzzRawOptions(f *testing.F) {
	for _, o := range []string{"--wait=true", "--labels=a=b", "--kubeconfig=/x", "--wait", "-f=x", "--filter={}", "--wait=a\nb", "--app=x", "", "--=x", "--diff-changes=true --yes"} {
		f.Add(o, o)
	}
	f.Fuzz(func(t *testing.T, global, own string) {
		req := deploy.Request{Name: "n", Suffix: ".app", GlobalRawOptions: []string{global}}
		req.Kapp.RawOptions = []string{own}
		req.Kapp.Delete = &v1alpha1.AppDeployKappDelete{RawOptions: []string{own}}
		req.Kapp.Inspect = &v1alpha1.AppDeployKappInspect{RawOptions: []string{own}}
		toDeploy, err := deploy.ArgsToDeploy(req, "-")
		checkArgs(t, toDeploy, err, global, own)
		toDelete, err := deploy.ArgsToDelete(req)
		checkArgs(t, toDelete, err, own)
		toInspect, err := deploy.ArgsToInspect(req)
		checkArgs(t, toInspect, err, own)
	})
}

func checkArgs(t *testing.T, args []string, err error, options ...string) {
	t.Helper()
	if err != nil {
		if text := err.Error(); len(args) > 0 || !strings.HasPrefix(text, "Expected flag '") && !strings.HasPrefix(text, "Unexpected flag '--") {
			t.Fatalf("error %q, arguments %q", err, args)
		}
		return
	}
	at := 0
	for _, o := range options {
		name, value, found := strings.Cut(o, "=")
		i := slices.Index(args[at:], o)
		if !found || value == "" || strings.Contains(o, "\n") || forbidden.MatchString(name) || i < 0 {
			t.Fatalf("%q became %q", o, args)
		}
		at += i + 1
	}
}

func TestAppName(t *testing.T) {
	if got := deploy.AppName("simple", ".app"); got != "simple.app" {
		t.Errorf("short name became %q", got)
	}
	long := strings.Repeat("a.", 126)
	for _, n := range []int{60, 63, 200, 241} {
		if got := deploy.AppName(long[:n], ".app"); got != long[:n]+".app" {
			t.Errorf("a name of %d became %q", n, got)
		}
	}
	one, other := deploy.AppName(long+"x", ".app"), deploy.AppName(long+"y", ".app")
	if one == other || len(one) > 240 || !strings.HasSuffix(one, ".app") {
		t.Errorf("%q and %q", one, other)
	}
}

// trimmed and blanks are the cleaning in the words of the original.
var blanks = regexp.MustCompile(`\s+\n`)

func trimmed(s string) string { return blanks.ReplaceAllString(strings.TrimSpace(s), "\n") }

func FuzzClean(f *testing.F) {
	for _, s := range []string{"", "a", "\n\n a \n\n b\t\n", "a\n  \n  b\n\nc  ", "  \r\n x\r\ny\f\n", "ä \n ö"} {
		f.Add(s, 3)
	}
	f.Fuzz(func(t *testing.T, s string, cut int) {
		for _, r := range s {
			if r > 127 || r == '\v' { // the original treats Unicode blanks in two ways
				return
			}
		}
		var c deploy.Cleaner
		at := min(max(cut, 0), len(s))
		c.Write(s[:at])
		c.Write(s[at:])
		if d := cmp.Diff(trimmed(s), c.String()); d != "" {
			t.Errorf("%q: %s", s, d)
		}
	})
}

// TestCleanerIsBounded: the logs of a Pod that prints for ever, in lines and in one.
func TestCleanerIsBounded(t *testing.T) {
	for name, piece := range map[string]string{"Lines": strings.Repeat("log ✓ line\n", 100), "OneLine": strings.Repeat("✓", 500)} {
		t.Run(name, func(t *testing.T) {
			var c deploy.Cleaner
			written := 0
			for range 10_000 {
				c.Write(piece)
				written += len(piece)
			}
			c.Write("end\n")
			got := c.String()
			if len(got) > 5<<20 || len(got) < 1<<20 {
				t.Errorf("kept %d bytes of %d", len(got), written)
			}
			var dropped int
			first, _, _ := strings.Cut(got, "\n")
			if _, err := fmt.Sscanf(first, "[output truncated: %d bytes]", &dropped); err != nil || dropped < written-5<<20 || dropped > written {
				t.Errorf("first line %q for %d bytes", first, written)
			}
			if !strings.HasSuffix(got, "end") {
				t.Errorf("the end is lost: %q", got[len(got)-20:])
			}
		})
	}
}

func ExampleCleaner() {
	var c deploy.Cleaner
	c.Write("\n Target cluster  \n\n   Succ")
	c.Write("eeded\n")
	fmt.Println(c.String())
	// Output:
	// Target cluster
	//    Succeeded
}
