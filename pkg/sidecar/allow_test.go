package sidecar_test

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"

	"github.com/garboard-dev/garboard/pkg/sidecar"
	"github.com/garboard-dev/garboard/pkg/tool"
)

// checks has one line a command: its name, variables, arguments.
var checks = map[string]struct {
	reason string
	line   string
	want   string // without "Command 'x' is not allowed: "
}{
	"Vendir":           {"what fetch runs", "vendir sync -f - --lock-file /dev/null", ""},
	"VendirSafe":       {"what fetch runs", "GODEBUG=tarinsecurepath=0,zipinsecurepath=0 GIT_ALLOW_PROTOCOL=http:https:ssh vendir sync -f - --lock-file /dev/null", ""},
	"VendirProtocols":  {"ext runs programs", "GIT_ALLOW_PROTOCOL=ext vendir sync -f - --lock-file /dev/null", `the variable "GIT_ALLOW_PROTOCOL" must be "http:https:ssh"`},
	"VendirCA":         {"an authority of one host", "GARBOARD_GIT_CAS=https://h/=home/ca.crt vendir sync -f - --lock-file /dev/null", ""},
	"VendirCAUp":       {"leads out", "GARBOARD_GIT_CAS=https://h/=../ca.crt vendir sync -f - --lock-file /dev/null", `the variable "GARBOARD_GIT_CAS" must be a path inside the workspace`},
	"VendirCAAnyHost":  {"for all hosts", "GARBOARD_GIT_CAS=home/ca.crt vendir sync -f - --lock-file /dev/null", `the variable "GARBOARD_GIT_CAS" must be a path inside the workspace`},
	"Unpack":           {"what fetch runs", "unpack", ""},
	"UnpackArgument":   {"it takes none", "unpack src", "it takes no arguments besides options"},
	"VendirTools":      {"tools may include more commands", "vendir tools sort-semver", "only vendir sync is"},
	"VendirNoArgs":     {"", "vendir", "only vendir sync is"},
	"VendirChdir":      {"leads out", "vendir sync --chdir /", `the option "--chdir" is not`},
	"VendirConfig":     {"reads any file", "vendir sync -f /etc/x --lock-file /dev/null", `the option "-f" must be a path inside the workspace`},
	"VendirLock":       {"writes a file", "vendir sync -f - --lock-file x", `the option "--lock-file" must be "--lock-file=/dev/null"`},
	"VendirNoLock":     {"writes a file", "vendir sync -f -", `the option "--lock-file=/dev/null" is missing`},
	"Ytt":              {"what template runs", "ytt --ignore-unknown-comments -f - -f src/0 --file-mark **/*:exclude=true --data-values-file values/0/a.yml", ""},
	"YttRenamed":       {"NAME=PATH", "ytt -f a.yml=src/0/b.yml", ""},
	"YttUp":            {"leads out", "ytt -f src/../../x", `the option "-f" must be a path inside the workspace`},
	"YttRenamedUp":     {"leads out", "ytt -f a.yml=../x", `the option "-f" must be a path inside the workspace`},
	"YttURL":           {"network", "ytt -f https://h/x", `the option "-f" must be a path inside the workspace`},
	"YttOutput":        {"writes files", "ytt -f - --output-files x", `the option "--output-files" is not`},
	"YttAttached":      {"another spelling", "ytt -f/etc/passwd", `the option "-f/etc/passwd" is not`},
	"Kbld":             {"what template runs", "kbld -f - -f src/0/.imgpkg/images.yml --build=false", ""},
	"KbldBuild":        {"builds run programs", "kbld -f - --build=true", `the option "--build" must be "--build=false"`},
	"KbldBoth":         {"which wins is kbld's affair", "kbld -f - --build=false --build=true", `the option "--build" must be "--build=false"`},
	"KbldDefault":      {"builds by default", "kbld -f -", `the option "--build=false" is missing`},
	"Helm":             {"what template runs", "KUBERNETES_SERVICE_HOST=not-real KUBERNETES_SERVICE_PORT=not-real helm template n src/0 --namespace ns --include-crds --kube-version 1.30.0 --api-versions v1,apps/v1 --values -", ""},
	"HelmDashes":       {"ends options", "helm template --namespace=ns -- n src/0", ""},
	"HelmInstall":      {"needs a cluster", "helm install n src/0", "only helm template is"},
	"HelmRenderer":     {"runs a program", "helm template --post-renderer=sh n src/0", `the option "--post-renderer" is not`},
	"HelmRendererName": {"name from a spec", "helm template --post-renderer=sh src/0", `the option "--post-renderer" is not`},
	"HelmSwallow":      {"a value that looks like an option", "helm template n src/0 --namespace --post-renderer=sh", `the option "--namespace" needs a value, which must not begin with a dash`},
	"HelmDashName":     {"a name from a spec", "helm template -- -n src/0", "it takes a name and a folder"},
	"HelmValueList":    {"helm splits at commas", "helm template n src/0 --values src/a,/etc/x", `the option "--values" must be a path inside the workspace`},
	"HelmQuotedValue":  {"but not what is quoted", `helm template n src/0 --values "src/a,/etc/x"`, ""},
	"KbldList":         {"so does kbld", "kbld -f src/a,/etc/x --build=false", `the option "-f" must be a path inside the workspace`},
	"HelmChartOut":     {"leads out", "helm template n /x", "a path argument must be inside the workspace"},
	"HelmOCI":          {"network", "helm template n oci://h/x", "a path argument must be inside the workspace"},
	"HelmEnvironment":  {"plugins run programs", "HELM_PLUGINS=/x helm template n src/0", `the variable "HELM_PLUGINS" cannot be set`},
	"Sops":             {"what template runs", "SOPS_AGE_KEY_FILE=keys/key.txt sops --config=keys/.sops.yml --decrypt src/0/a.sops.yml", ""},
	"SopsExec":         {"runs a program", "sops --decrypt exec-file", "it takes one file"},
	"SopsExecMore":     {"runs a program", "sops exec-file --decrypt a.yml sh", "it takes one file"},
	"SopsEncrypt":      {"only decrypts", "sops a.yml", `the option "--decrypt" is missing`},
	"SopsKey":          {"leads out", "SOPS_AGE_KEY_FILE=/etc/key sops --decrypt a.yml", `the variable "SOPS_AGE_KEY_FILE" must be a path inside the workspace`},
	"Cue":              {"what template runs", "cue export --out yaml . --path x: values/0/a.yml --expression out", ""},
	"CueCmd":           {"runs programs", "cue cmd x", "only cue export is"},
	"CueOption":        {"an option as a path", "cue export --outfile=x", `the option "--outfile" is not`},
	"Kustomize":        {"what template runs", "kustomize build src/0", ""},
	"KustomizeExec":    {"runs programs", "kustomize build --enable-exec src/0", `the option "--enable-exec" is not`},
	"KustomizeRemote":  {"network", "kustomize build https://h/x", "a path argument must be inside the workspace"},
	"Jsonnet":          {"what template runs", "jsonnet -J src/lib --ext-str a=b --tla-code-file v=values/0/a.json -y src/0/main.jsonnet", ""},
	"JsonnetFile":      {"leads out", "jsonnet --ext-str-file a=/etc/passwd a.jsonnet", `the option "--ext-str-file" must be a path inside the workspace`},
	"JsonnetOutput":    {"writes files", "jsonnet -m out a.jsonnet", `the option "-m" is not`},
}

// parse makes a command of a line of checks.
func parse(line string) tool.Command {
	var c tool.Command
	for _, f := range strings.Split(line, " ") {
		switch {
		case c.Name != "":
			c.Args = append(c.Args, f)
		case strings.Contains(f, "="):
			c.Env = append(c.Env, f)
		default:
			c.Name = f
		}
	}
	return c
}

func TestCheck(t *testing.T) {
	for name, tc := range checks {
		t.Run(name, func(t *testing.T) {
			c := parse(tc.line)
			err := sidecar.Check(c)
			got := ""
			if err != nil {
				got = strings.TrimPrefix(err.Error(), fmt.Sprintf("Command '%s' is not allowed: ", c.Name))
			}
			if got != tc.want || err != nil && !errors.Is(err, sidecar.ErrNotAllowed) {
				t.Errorf("%s\ngot  %q\nwant %q; %s", tc.line, got, tc.want, tc.reason)
			}
		})
	}
}

func TestCheckDir(t *testing.T) {
	for dir, ok := range map[string]bool{"": true, "src": true, "src/0": true, "/": false, "..": false, "a/../../b": false, "a\x00b": false} {
		c := parse("cue export")
		c.Dir = dir
		if err := sidecar.Check(c); (err == nil) != ok {
			t.Errorf("%q: %v", dir, err)
		}
	}
}

func TestOtherToolsAreNotAllowed(t *testing.T) {
	for _, name := range []string{"sh", "kapp", "", "../ytt", "/bin/ytt", "Ytt", "ytt ", "git"} {
		want := fmt.Sprintf("Command '%s' is not allowed", name)
		if err := sidecar.Check(tool.Command{Name: name}); err == nil || err.Error() != want {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// FuzzAllow: whatever passes the gate names a listed tool, stays in the workspace
// in each argument that is a path, and has none of the options that run programs.
func FuzzAllow(f *testing.F) {
	for _, tc := range checks {
		c := parse(tc.line)
		f.Add(c.Name, strings.Join(c.Args, "\n"), strings.Join(c.Env, "\n"), "src")
	}
	f.Fuzz(func(t *testing.T, name, args, env, dir string) {
		c := tool.Command{Name: name, Args: strings.Split(args, "\n"), Env: strings.Split(env, "\n"), Dir: dir}
		if env == "" {
			c.Env = nil
		}
		if sidecar.Check(c) != nil {
			return
		}
		if path.IsAbs(dir) || strings.HasPrefix(path.Clean(dir), "..") {
			t.Errorf("working directory %q passed", dir)
		}
		text := map[string]bool{"--file-mark": true, "--expression": true, "-e": true, "--path": true, "-l": true}
		for i, a := range c.Args {
			flag, value, found := strings.Cut(a, "=")
			if !found && i > 0 {
				flag, value = c.Args[i-1], a
			}
			for _, bad := range []string{"--post-renderer", "--enable-", "--output-", "--chdir", "--debug", "--plugin"} {
				if strings.HasPrefix(a, bad) && !strings.HasPrefix(c.Args[max(i-1, 0)], "-") {
					t.Errorf("%q passed", c.Args)
				}
			}
			if (flag == "-f" || flag == "--file" || flag == "--values" || flag == "--config" || flag == "-J") && !text[flag] && path.IsAbs(value) {
				t.Errorf("%q passed", c.Args)
			}
		}
	})
}
