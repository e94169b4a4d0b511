// Package workspace runs the real tools for tests of single packages: in a
// temporary folder and behind the sidecar's gate, but without the sidecar.
package workspace

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/garboard-dev/garboard/pkg/sidecar"
	"github.com/garboard-dev/garboard/pkg/tool"
)

// Dir is a workspace. Its methods are those of the sidecar's.
type Dir struct {
	t     testing.TB
	path  string
	tools string

	mu   sync.Mutex
	runs []tool.Command
}

// New returns an empty workspace that lives as long as t. It fails t when the
// tools are not built.
func New(t testing.TB) *Dir {
	t.Helper()
	d := &Dir{t: t, path: t.TempDir(), tools: filepath.Join(root(t), "bin", "tools")}
	for _, sub := range []string{"src", "values", "inline", "keys", "home", "tmp"} {
		if err := os.Mkdir(filepath.Join(d.path, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// Bin returns the path of a program in the repository's bin folder, such as
// dev/age-keygen, and fails t when it is not built.
func Bin(t testing.TB, name string) string {
	t.Helper()
	p := filepath.Join(root(t), "bin", filepath.FromSlash(name))
	if _, err := os.Stat(p); err != nil {
		t.Fatalf("bin/%s is not built: run make tools", name)
	}
	return p
}

func root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	t.Fatal("no go.mod above the working directory")
	return ""
}

// Path returns the absolute path of p, which is relative to the workspace.
func (d *Dir) Path(p string) string { return filepath.Join(d.path, filepath.FromSlash(p)) }

// Runs returns the commands so far.
func (d *Dir) Runs() []tool.Command {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.runs)
}

// Put writes files.
func (d *Dir) Put(_ context.Context, files []tool.File) error {
	for _, f := range files {
		p := d.Path(f.Path)
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(p, f.Content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// Run runs a tool that the gate allows.
func (d *Dir) Run(ctx context.Context, c tool.Command) (tool.Result, error) {
	if err := sidecar.Check(c); err != nil {
		return tool.Result{ExitCode: -1}, err
	}
	d.mu.Lock()
	d.runs = append(d.runs, c)
	d.mu.Unlock()
	cmd := exec.CommandContext(ctx, Bin(d.t, "tools/"+c.Name), c.Args...)
	cmd.Dir = d.Path(c.Dir)
	cmd.Stdin = bytes.NewReader(c.Stdin)
	cmd.Env = append([]string{
		"PATH=" + d.tools + ":/usr/bin:/bin", "HOME=" + d.Path("home"), "TMPDIR=" + d.Path("tmp"),
		"GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "LANG=C.UTF-8",
	}, c.Env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	res := tool.Result{Stdout: stdout.Bytes(), Stderr: stderr.Bytes(), ExitCode: cmd.ProcessState.ExitCode()}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = nil
	}
	return res, err
}

// List returns the regular files at and below dir that end with one of suffixes.
func (d *Dir) List(_ context.Context, dir string, suffixes []string) ([]string, error) {
	var files []string
	err := fs.WalkDir(os.DirFS(d.path), filepath.ToSlash(filepath.Clean(dir)), func(p string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		if len(suffixes) == 0 || slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(p, s) }) {
			files = append(files, p)
		}
		return nil
	})
	return files, err
}

// Remove removes paths with what is below them.
func (d *Dir) Remove(_ context.Context, paths []string) error {
	for _, p := range paths {
		if err := os.RemoveAll(d.Path(p)); err != nil {
			return err
		}
	}
	return nil
}

// Tree returns the content of each file below dir by path relative to it.
func (d *Dir) Tree(dir string) map[string]string {
	d.t.Helper()
	tree := map[string]string{}
	base := d.Path(dir)
	err := filepath.WalkDir(base, func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, _ := filepath.Rel(base, p)
		if e.Type()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(p)
			tree[filepath.ToSlash(name)] = "-> " + target
			return err
		}
		content, err := os.ReadFile(p)
		tree[filepath.ToSlash(name)] = string(content)
		return err
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return tree
}
