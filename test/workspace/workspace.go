// Package workspace runs the real tools in the real sidecar for tests of single
// packages. A package that uses it has
//
//	func TestMain(m *testing.M) { workspace.Main(m) }
package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/garboard-dev/garboard/pkg/sidecar"
	"github.com/garboard-dev/garboard/pkg/tool"
)

// serveEnv makes a test binary the sidecar: it holds the folder to work in.
const serveEnv = "GARBOARD_TEST_SIDECAR"

// Limits of the sidecar, low so that a test passes them soon.
const (
	MaxBytes   = 64 << 20
	MaxEntries = 20_000
)

// base is the folder of the sidecar that Main started.
var base string

// Main runs the tests beside a sidecar, which is the same binary started again.
func Main(m *testing.M) {
	if dir := os.Getenv(serveEnv); dir != "" {
		serve(dir)
		return
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func serve(dir string) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	tools, err := repository()
	if err == nil {
		err = sidecar.Serve(ctx, sidecar.ServerOptions{
			Socket: socket(dir), WorkDir: work(dir), ToolDir: filepath.Join(tools, "bin", "tools"),
			Log: slog.New(slog.DiscardHandler), MaxBytes: MaxBytes, MaxEntries: MaxEntries,
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sidecar:", err)
		os.Exit(1)
	}
}

func run(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "garboard-test-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	base = dir
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serveEnv+"="+dir)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	code := m.Run()
	err = errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait())
	// Tests that use no workspace may end before the sidecar listens to the signal.
	if state, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && state.Signaled() && state.Signal() == syscall.SIGTERM {
		err = nil
	}
	return code, err
}

func socket(dir string) string { return filepath.Join(dir, "socket") }
func work(dir string) string   { return filepath.Join(dir, "work") }

// Dir is a workspace of the sidecar.
type Dir struct {
	*sidecar.Workspace
	t    testing.TB
	path string
}

// New opens a workspace that lives as long as t. It fails t when the tools are not
// built.
func New(t testing.TB) *Dir {
	t.Helper()
	return NewTrusting(t, "")
}

// NewTrusting is New with certificates that all tools trust besides the system's,
// until the next call.
func NewTrusting(t testing.TB, pem string) *Dir {
	t.Helper()
	Bin(t, "tools/vendir")
	client := sidecar.NewClient(socket(base))
	t.Cleanup(func() {
		if err := client.Shutdown(); err != nil {
			t.Error(err)
		}
	})
	if err := client.ApplyCACerts(t.Context(), pem); err != nil {
		t.Fatal(err)
	}
	w, err := client.Open(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	d := &Dir{Workspace: w, t: t}
	d.find()
	return d
}

// find learns where the workspace lies, which the sidecar tells nobody.
func (d *Dir) find() {
	d.t.Helper()
	mark := "tmp/" + strings.Map(func(r rune) rune {
		if r == '/' || r == ' ' {
			return '-'
		}
		return r
	}, d.t.Name())
	if err := d.Put(d.t.Context(), []tool.File{{Path: mark}}); err != nil {
		d.t.Fatal(err)
	}
	err := filepath.WalkDir(work(base), func(p string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(p, "/"+mark) {
			d.path = strings.TrimSuffix(p, "/"+mark)
			return fs.SkipAll
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // another test's workspace was closed
		}
		return err
	})
	if err == nil {
		err = d.Remove(d.t.Context(), []string{mark})
	}
	if err != nil || d.path == "" {
		d.t.Fatalf("the workspace is not to be found: %v", err)
	}
}

// Bin returns the path of a program in the repository's bin folder, such as
// dev/age-keygen, and fails t when it is not built.
func Bin(t testing.TB, name string) string {
	t.Helper()
	dir, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	p := filepath.Join(dir, "bin", filepath.FromSlash(name))
	if _, err := os.Stat(p); err != nil {
		t.Fatalf("bin/%s is not built: run make tools", name)
	}
	return p
}

// repository returns the folder of the main go.mod.
func repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("no go.mod above the working directory")
}

// Path returns the absolute path of p, which is relative to the workspace.
func (d *Dir) Path(p string) string { return filepath.Join(d.path, filepath.FromSlash(p)) }

// Tree returns the content of each file below dir by path relative to it; a link
// is "-> " and where it leads. A missing dir is empty.
func (d *Dir) Tree(dir string) map[string]string {
	d.t.Helper()
	tree := map[string]string{}
	base := d.Path(dir)
	err := filepath.WalkDir(base, func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(base, p)
		if err != nil {
			return err
		}
		if e.Type()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(p)
			tree[filepath.ToSlash(name)] = "-> " + target
			return err
		}
		content, err := os.ReadFile(p)
		tree[filepath.ToSlash(name)] = string(content)
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.t.Fatal(err)
	}
	return tree
}
