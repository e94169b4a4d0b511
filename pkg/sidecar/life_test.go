//go:build linux

package sidecar_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/garboard-dev/garboard/pkg/sidecar"
	"github.com/garboard-dev/garboard/pkg/tool"
	"github.com/garboard-dev/garboard/test/poll"
)

// hanging starts a tool that ignores SIGTERM, and returns its process id once it
// runs, and the outcome of Run.
func hanging(t *testing.T, ctx context.Context, r *rig, w *sidecar.Workspace) (pid int, outcome chan error) {
	t.Helper()
	outcome = make(chan error, 1)
	go func() {
		_, err := w.Run(ctx, command("vendir", "hang src/pid"))
		outcome <- err
	}()
	poll.Until(t, "tool runs", func() bool {
		found, _ := filepath.Glob(filepath.Join(r.opts.WorkDir, "*", "src", "pid"))
		for _, f := range found {
			b, _ := os.ReadFile(f)
			pid, _ = strconv.Atoi(string(b))
		}
		return pid != 0
	})
	return pid, outcome
}

// gone says whether a process has ended; one that waits to be reaped has.
func gone(pid int) func() bool {
	return func() bool {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		return err != nil || strings.Contains(string(stat), ") Z ")
	}
}

// reaped says whether nothing is left of a process.
func reaped(pid int) func() bool {
	return func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }
}

// workspaces counts what is in the work folder besides the sidecar's own.
func (r *rig) workspaces(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir(r.opts.WorkDir)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range entries {
		if e.IsDir() && e.Name() != "cache" && e.Name() != "os" {
			n++
		}
	}
	return n
}

func shortGrace(o *sidecar.ServerOptions) { o.Grace = 10 * time.Millisecond }

func TestContextEndsTool(t *testing.T) {
	r := start(t, shortGrace)
	w := r.open(t, "")
	cause := errors.New("app was deleted")
	ctx, cancel := context.WithCancelCause(t.Context())
	pid, outcome := hanging(t, ctx, r, w)
	cancel(cause)
	if err := <-outcome; !errors.Is(err, cause) {
		t.Errorf("error %v, want the context's cause", err)
	}
	poll.Until(t, "tool ended", gone(pid))
	if _, code := do(t, w, command("ytt", "exit 0")); code != 0 {
		t.Error("the workspace does not work after a canceled run")
	}
}

func TestCloseEndsToolAndRemoves(t *testing.T) {
	r := start(t, shortGrace)
	w := r.open(t, "")
	pid, outcome := hanging(t, t.Context(), r, w)
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !gone(pid)() {
		t.Error("Close returned while the tool ran")
	}
	if n := r.workspaces(t); n != 0 {
		t.Errorf("%d workspaces left", n)
	}
	if err := <-outcome; err == nil {
		t.Error("Run has no error")
	}
	_, err := w.Run(t.Context(), command("ytt"))
	if err == nil || !strings.Contains(err.Error(), "Internal run comm: unknown workspace") {
		t.Errorf("error %v", err)
	}
}

func TestCloseAfterContextEnded(t *testing.T) {
	r := start(t)
	w := r.open(t, "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Close(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	poll.Until(t, "workspace removed", func() bool { return r.workspaces(t) == 0 })
}

func TestControllerGone(t *testing.T) {
	r := start(t, shortGrace)
	w := r.open(t, "")
	pid, outcome := hanging(t, t.Context(), r, w)
	if err := r.Shutdown(); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "tool ended", gone(pid))
	poll.Until(t, "workspace removed", func() bool { return r.workspaces(t) == 0 })
	if err := <-outcome; !errors.Is(err, sidecar.ErrLost) {
		t.Errorf("error %v", err)
	}
}

func TestServerShutdown(t *testing.T) {
	r := start(t, shortGrace)
	pid, outcome := hanging(t, t.Context(), r, r.open(t, "owner"))
	r.stop()
	if !gone(pid)() {
		t.Error("Serve returned while a tool ran")
	}
	if err := <-outcome; !errors.Is(err, sidecar.ErrLost) {
		t.Errorf("error %v", err)
	}
	entries, err := os.ReadDir(r.opts.WorkDir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left %v, %v", entries, err)
	}
	if _, err := os.Lstat(r.opts.Socket); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("socket: %v", err)
	}
}

// spawn runs a sidecar as a process of its own.
func spawn(t *testing.T, o sidecar.ServerOptions) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), serveEnv+"="+strings.Join([]string{o.Socket, o.WorkDir, o.ToolDir}, ":"))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

func TestServerKilled(t *testing.T) {
	dir := t.TempDir()
	r := &rig{opts: sidecar.ServerOptions{Socket: filepath.Join(dir, "s"), WorkDir: filepath.Join(dir, "work"), ToolDir: toolDir, MaxMemory: anyMemory}}
	r.Client = sidecar.NewClient(r.opts.Socket)
	first := spawn(t, r.opts)
	if err := r.ApplyProxy(t.Context(), sidecar.Proxy{HTTPProxy: "http://proxy"}); err != nil {
		t.Fatal(err)
	}
	if err := r.ApplyCACerts(t.Context(), "# our CA"); err != nil {
		t.Fatal(err)
	}
	was, err := r.Instance(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pid, outcome := hanging(t, t.Context(), r, r.open(t, "owner"))

	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait()
	err = <-outcome
	if want := "Internal run comm: the sidecar stopped or restarted while vendir ran"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	poll.Until(t, "tool died with its sidecar", gone(pid))

	spawn(t, r.opts)
	w := r.open(t, "owner")
	if n := r.workspaces(t); n != 1 {
		t.Errorf("%d workspaces, want the new one only", n)
	}
	now, err := r.Instance(t.Context())
	if err != nil || now == was {
		t.Errorf("instance %q is as before, or %v", now, err)
	}
	out, _ := do(t, w, command("vendir", "env"))
	if !strings.Contains(out, "http_proxy=http://proxy") || !strings.Contains(out, "SSL_CERT_FILE="+r.opts.WorkDir+"/os/") {
		t.Errorf("the new sidecar lacks proxy or certificates:\n%s", out)
	}
}

func TestOrphansOfATool(t *testing.T) {
	r := start(t)
	w := r.open(t, "")
	out, code := do(t, w, command("vendir", "orphan src/pid", "cat src/pid"))
	if code != 0 {
		t.Fatal(out)
	}
	pid, err := strconv.Atoi(out)
	if err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "orphan is killed and reaped", reaped(pid))
}

func TestLimits(t *testing.T) {
	r := start(t, func(o *sidecar.ServerOptions) {
		o.MaxBytes, o.MaxEntries, o.MaxStdout, o.Grace = 8<<20, 2000, 1<<10, 10*time.Millisecond
	})
	tests := map[string]struct {
		tool, script, want string
	}{
		"Bytes":     {"vendir", "grow", "vendir was ended: it wrote more than 8388608 bytes into its work folder"},
		"Entries":   {"vendir", "many", "vendir was ended: it made more than 2000 files and folders in its work folder"},
		"Stdout":    {"ytt", "spew 1025", "ytt printed more than 1024 bytes on standard output: too much output"},
		"OtherTool": {"sops", "grow", "sops was ended: it wrote more than 8388608 bytes into its work folder"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := r.open(t, "owner")
			c := command(tc.tool, tc.script)
			c.Dir = "src"
			if tc.tool == "sops" {
				c.Dir = ""
			}
			_, err := w.Run(t.Context(), c)
			if err == nil || err.Error() != tc.want || !errors.Is(err, sidecar.ErrLimit) {
				t.Errorf("error %v, want %s", err, tc.want)
			}
			if files, err := w.List(t.Context(), "src", []string{"big", "1"}); err != nil || len(files) != 0 && tc.tool == "vendir" {
				t.Errorf("partial output is left: %v, %v", files, err)
			}
		})
	}
}

func TestHostileTree(t *testing.T) {
	r := start(t)
	tests := map[string]struct{ script, want string }{
		"LinkWithin":     {"mkdir 0 755\nwrite 0/f x\nlink f 0/l\nlink ../f 0/dangling", ""},
		"LinkUp":         {"link ../../etc/passwd l", `entry "l" is a link to "../../etc/passwd", which leads out of the folder`},
		"LinkToSibling":  {"link ../home l", `entry "l" is a link to "../home", which leads out of the folder`},
		"LinkAbsolute":   {"link /etc/passwd l", `entry "l" is a link to "/etc/passwd", which leads out of the folder`},
		"LinkToFolder":   {"link /tmp d", `entry "d" is a link to "/tmp", which leads out of the folder`},
		"LinkThrough":    {"mkdir a 755\nlink .. a/up\nlink a/up/../x l", `entry "l" is a link to "a/up/../x", which leads out of the folder`},
		"LinkLoop":       {"link l l", `entry "l" is a link to "l", which never ends`},
		"Pipe":           {"mkdir a 755\nfifo a/p", `entry "a/p" is a named pipe, which is not allowed`},
		"HardLinkWithin": {"write f x\nhardlink f g", ""},
		"HardLinkOut":    {"write ../home/f x\nhardlink ../home/f g", `entry "g" is a hard link to a file outside of the folder`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := r.open(t, "")
			c := command("vendir", tc.script)
			c.Dir = "src"
			_, err := w.Run(t.Context(), c)
			got := ""
			if err != nil {
				got = strings.TrimPrefix(err.Error(), "fetched content is refused: ")
			}
			if got != tc.want {
				t.Errorf("error %q, want %q", got, tc.want)
			}
			if files, _ := w.List(t.Context(), "src", nil); tc.want != "" && len(files) != 0 {
				t.Errorf("refused content is left: %v", files)
			}
		})
	}
}

func TestFiles(t *testing.T) {
	r := start(t)
	w := r.open(t, "")
	put := []tool.File{{Path: "src/a.sops.yml", Content: []byte("a")}, {Path: "./src/b/c.sops.yaml"}, {Path: "src/d.yml"}}
	if err := w.Put(t.Context(), put); err != nil {
		t.Fatal(err)
	}
	list := func() []string {
		t.Helper()
		files, err := w.List(t.Context(), "src", []string{".sops.yml", ".sops.yaml"})
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
	if diff := cmp.Diff([]string{"src/a.sops.yml", "src/b/c.sops.yaml"}, list()); diff != "" {
		t.Error(diff)
	}
	if err := w.Remove(t.Context(), []string{"src/b", "src/none"}); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"src/a.sops.yml"}, list()); diff != "" {
		t.Error(diff)
	}
	err := w.Put(t.Context(), []tool.File{{Path: "../x"}})
	if want := `Internal run comm: invalid path "../x": leads out of its folder`; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestRefusals(t *testing.T) {
	r := start(t, func(o *sidecar.ServerOptions) { o.ToolDir = t.TempDir() })
	w := r.open(t, "")
	_, err := w.Run(t.Context(), tool.Command{Name: "sh", Args: []string{"-c", "id"}})
	if want := "Internal run comm: Command 'sh' is not allowed"; err == nil || err.Error() != want || !errors.Is(err, sidecar.ErrNotAllowed) {
		t.Errorf("error %v, want %s", err, want)
	}
	_, err = w.Run(t.Context(), command("ytt"))
	if want := "tool ytt is not installed beside the sidecar"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestStats(t *testing.T) {
	r := start(t)
	w := r.open(t, "")
	for range 3 {
		do(t, w, command("ytt", "exit 0"))
	}
	got, err := r.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sidecar.Stats{Starts: map[string]int64{"ytt": 3}, Workspaces: 1}, got); diff != "" {
		t.Error(diff)
	}
}
