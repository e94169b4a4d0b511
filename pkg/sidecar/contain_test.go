//go:build linux

package sidecar_test

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/garboard-dev/garboard/pkg/sidecar"
	"github.com/garboard-dev/garboard/pkg/tool"
)

// kinds has a tool of each kind: with and without network, that writes what was
// fetched and that does not.
var kinds = []string{"vendir", "kbld", "sops", "ytt"}

// TestContained runs what a hostile tool would try. Each script must fail, and the
// reason must be the kernel's refusal and not, say, a missing file.
func TestContained(t *testing.T) {
	r := start(t)
	other := r.open(t, "")
	if err := other.Put(t.Context(), []tool.File{{Path: "src/secret", Content: []byte("hunter2")}}); err != nil {
		t.Fatal(err)
	}
	neighbour, _ := do(t, other, command("ytt", "pwd"))
	neighbour = strings.TrimSpace(neighbour)
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "f"), []byte("hunter2"), 0o666); err != nil {
		t.Fatal(err)
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()

	tests := map[string]struct {
		reason string
		tools  []string
		script string
	}{
		"ReadNeighbour":     {"another workspace is not shown", kinds, "cat " + neighbour + "/src/secret"},
		"WriteNeighbour":    {"another workspace is not shown", kinds, "write " + neighbour + "/src/x x"},
		"ListWorkspaces":    {"names of workspaces are secrets", kinds, "ls " + r.opts.WorkDir},
		"ReadOutside":       {"only the system's programs are shown", kinds, "cat " + outside + "/f"},
		"WriteOutside":      {"nothing outside is writable", kinds, "write " + outside + "/f x"},
		"HardLinkOutside":   {"a second name would take a file in", kinds, "hardlink " + outside + "/f f"},
		"ReadShadow":        {"/etc as a whole is not shown", kinds, "cat /etc/shadow"},
		"ReadEnvironment":   {"other processes' secrets are in /proc", kinds, "cat /proc/" + strconv.Itoa(os.Getpid()) + "/environ"},
		"ListSocketFolder":  {"the socket's folder is not shown", kinds, "ls " + filepath.Dir(r.opts.Socket)},
		"DialSidecar":       {"a tool must not give orders", kinds, "dial unix " + r.opts.Socket},
		"DialAbstract":      {"so with sockets without a file", kinds, "dial unix @x"},
		"SignalSidecar":     {"signals stay inside", kinds, "signal " + strconv.Itoa(os.Getpid())},
		"DialTCP":           {"rendering needs no network", []string{"ytt", "sops"}, "dial tcp " + tcp.Addr().String()},
		"SendUDP":           {"rendering needs no network", []string{"ytt", "sops"}, "dial udp " + tcp.Addr().String()},
		"ReadUsers":         {"rendering needs no users", []string{"ytt", "sops"}, "cat /etc/passwd"},
		"ChangeWhatWasRead": {"what was fetched is read only", []string{"ytt", "kbld"}, "write src/x x"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := r.open(t, "")
			for _, tool := range tc.tools {
				out, code := do(t, w, command(tool, tc.script))
				if code != 1 || !strings.Contains(out, "permission denied") && !strings.Contains(out, "operation not permitted") &&
					!strings.Contains(out, "invalid cross-device link") {
					t.Errorf("%s: exit code %d, output %q; %s", tool, code, out, tc.reason)
				}
			}
		})
	}
}

// TestOpen is the other side: what tools need works.
func TestOpen(t *testing.T) {
	r := start(t)
	w := r.open(t, "owner")
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	tests := map[string]struct {
		tools  []string
		script []string
	}{
		"Network":    {[]string{"vendir", "kbld"}, []string{"dial tcp " + tcp.Addr().String()}},
		"Home":       {kinds, []string{"write home/x x", "cat home/x", "write tmp/x x"}},
		"Workspace":  {[]string{"vendir", "sops"}, []string{"write src/x x", "cat src/x", "link x src/l"}},
		"SystemRead": {kinds, []string{"ls /usr", "write /dev/null x"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			for _, tool := range tc.tools {
				if out, code := do(t, w, command(tool, tc.script...)); code != 0 {
					t.Errorf("%s: exit code %d, output %q", tool, code, out)
				}
				if err := w.Remove(t.Context(), []string{"src/x", "src/l"}); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
	t.Setenv("IMGPKG_ACTIVE_KEYCHAINS", "gke")
	r := start(t)
	w := r.open(t, "owner")
	for _, name := range sidecar.Tools() {
		c := command(name, "env", "pwd")
		if name == "sops" {
			c.Env = []string{"SOPS_AGE_KEY_FILE=keys/age.txt"}
		}
		out, _ := do(t, w, c)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		root := lines[len(lines)-1]
		for _, line := range lines[:len(lines)-1] {
			if strings.Contains(line, "hunter2") {
				t.Errorf("%s has %s", name, line)
			}
		}
		want := map[string][]string{
			"vendir": {"GIT_CONFIG_KEY_0=gc.auto", "GIT_CONFIG_KEY_2=filter.lfs.process", "IMGPKG_ACTIVE_KEYCHAINS=gke", "GIT_TERMINAL_PROMPT=0", "GIT_ALLOW_PROTOCOL=http:https:ssh", "GIT_CONFIG_NOSYSTEM=1"},
			"kbld":   {"IMGPKG_ACTIVE_KEYCHAINS=gke"},
			"sops":   {"SOPS_AGE_KEY_FILE=" + root + "/keys/age.txt"},
		}[name]
		for _, w := range append(want, "HOME="+root+"/home", "TMPDIR="+root+"/tmp", "XDG_CACHE_HOME="+root+"/home/.cache", "PATH="+toolDir+":") {
			if !strings.Contains("\n"+out, "\n"+w) {
				t.Errorf("%s lacks %s in\n%s", name, w, out)
			}
		}
	}
}
