//go:build linux

package sidecar_test

import (
	"context"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/garboard-dev/garboard/pkg/sidecar"
)

// serveOnce runs Serve in a folder that prepare filled, and returns its error;
// if it serves, it is stopped after one call.
func serveOnce(t *testing.T, o sidecar.ServerOptions) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- sidecar.Serve(ctx, o) }()
	c := sidecar.NewClient(o.Socket)
	answered := make(chan error, 1)
	go func() {
		_, err := c.Instance(ctx)
		answered <- err
	}()
	select {
	case err := <-done:
		return err
	case err := <-answered:
		if err != nil {
			t.Errorf("Instance: %v", err)
		}
		cancel()
		return <-done
	}
}

func TestSocket(t *testing.T) {
	tests := map[string]struct {
		reason  string
		prepare func(t *testing.T, path string)
		want    string
		keeps   fs.FileMode
	}{
		"None": {reason: "first start", prepare: func(*testing.T, string) {}},
		"Dead": {reason: "a killed sidecar leaves its socket", prepare: func(t *testing.T, path string) {
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
			if err != nil {
				t.Fatal(err)
			}
			l.SetUnlinkOnClose(false)
			l.Close()
		}},
		"File": {reason: "a file is not ours", keeps: 0, want: "exists and is no socket; it was left as it is", prepare: func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}},
		"Link": {reason: "a link may lead to a socket of others", keeps: fs.ModeSymlink, want: "is a symbolic link; it was left as it is", prepare: func(t *testing.T, path string) {
			if err := os.Symlink("elsewhere", path); err != nil {
				t.Fatal(err)
			}
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			o := sidecar.ServerOptions{Socket: filepath.Join(dir, "s"), WorkDir: filepath.Join(dir, "w"), ToolDir: toolDir, MaxMemory: anyMemory}
			tc.prepare(t, o.Socket)
			got := ""
			if tc.want == "" {
				if err := serveOnce(t, o); err != nil {
					t.Fatal(err)
				}
				return
			}
			// The client would wait for what never comes: only Serve is called.
			if err := sidecar.Serve(t.Context(), o); err != nil {
				got = err.Error()
			}
			if !strings.HasSuffix(got, tc.want) {
				t.Errorf("error %q, want %q; %s", got, tc.want, tc.reason)
			}
			if info, err := os.Lstat(o.Socket); err != nil || info.Mode().Type() != tc.keeps {
				t.Errorf("the file is now %v, %v", info, err)
			}
		})
	}
}

func TestSocketInUse(t *testing.T) {
	r := start(t)
	r.open(t, "")
	o := r.opts
	err := sidecar.Serve(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "is in use by another process") {
		t.Errorf("same work folder: %v", err)
	}
	o.WorkDir = filepath.Join(t.TempDir(), "w")
	err = sidecar.Serve(t.Context(), o)
	if err == nil || !strings.HasSuffix(err.Error(), "is in use: another process listens on it") {
		t.Errorf("same socket: %v", err)
	}
	r.open(t, "") // the first still serves
	info, err := os.Stat(o.Socket)
	if err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("socket %v, %v", info, err)
	}
}

func TestWorkDirIsSwept(t *testing.T) {
	dir := t.TempDir()
	o := sidecar.ServerOptions{Socket: filepath.Join(dir, "s"), WorkDir: filepath.Join(dir, "w"), ToolDir: toolDir, MaxMemory: anyMemory}
	if err := serveOnce(t, o); err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(o.WorkDir, "left", "over")
	if err := os.MkdirAll(left, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := serveOnce(t, o); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left); err == nil {
		t.Error("what an earlier sidecar left is still there")
	}
}

func TestWorkDirOfOthers(t *testing.T) {
	dir := t.TempDir()
	o := sidecar.ServerOptions{Socket: filepath.Join(dir, "s"), WorkDir: filepath.Join(dir, "w"), ToolDir: toolDir, MaxMemory: anyMemory}
	file := filepath.Join(o.WorkDir, "precious")
	if err := os.Mkdir(o.WorkDir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := sidecar.Serve(t.Context(), o)
	if err == nil || !strings.HasSuffix(err.Error(), `has content that is not ours, such as "precious"`) {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}

func TestValidate(t *testing.T) {
	valid := sidecar.ServerOptions{Socket: "/run/s", WorkDir: "/run/work"}
	tests := map[string]struct {
		with func(*sidecar.ServerOptions)
		want string
	}{
		"Valid":          {func(*sidecar.ServerOptions) {}, ""},
		"NoSocket":       {func(o *sidecar.ServerOptions) { o.Socket = "" }, `Socket "": must be an absolute path`},
		"RelativeWork":   {func(o *sidecar.ServerOptions) { o.WorkDir = "w" }, `WorkDir "w": must be an absolute path`},
		"SocketInWork":   {func(o *sidecar.ServerOptions) { o.Socket = "/run/work/s" }, `Socket "/run/work/s": must not be in WorkDir "/run/work", which is swept and which tools see`},
		"RelativeTools":  {func(o *sidecar.ServerOptions) { o.ToolDir = "bin" }, `ToolDir "bin": must be an absolute path`},
		"NegativeLimits": {func(o *sidecar.ServerOptions) { o.MaxBytes = -1 }, `MaxBytes -1: must not be negative`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			o := valid
			tc.with(&o)
			got := ""
			if err := o.Validate(); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("error %q, want %q", got, tc.want)
			}
		})
	}
}
