//go:build linux

package sidecar_test

import (
	"bytes"
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/garboard-dev/garboard/pkg/sidecar"
	"github.com/garboard-dev/garboard/pkg/tool"
)

// logs collects what a sidecar logs.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// rig is a running sidecar with a client.
type rig struct {
	*sidecar.Client
	opts sidecar.ServerOptions
	logs *logs
	stop func()
}

// start runs a sidecar in this process, which ends with the test.
func start(t *testing.T, change ...func(*sidecar.ServerOptions)) *rig {
	t.Helper()
	dir := t.TempDir()
	r := &rig{logs: &logs{}}
	r.opts = sidecar.ServerOptions{
		MaxMemory: anyMemory,
		Socket:    filepath.Join(dir, "s"), WorkDir: filepath.Join(dir, "work"), ToolDir: toolDir,
		Log: slog.New(slog.NewTextHandler(r.logs, nil)), RequireContainment: true,
	}
	for _, c := range change {
		c(&r.opts)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- sidecar.Serve(ctx, r.opts) }()
	r.Client = sidecar.NewClient(r.opts.Socket)
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Cleanup(r.stop)
	return r
}

func (r *rig) open(t *testing.T, owner string) *sidecar.Workspace {
	t.Helper()
	w, err := r.Open(t.Context(), owner)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// command is a call of a tool that passes the gate and does the script's lines.
func command(name string, script ...string) tool.Command {
	args := map[string][]string{
		"vendir":    {"sync", "-f", "-", "--lock-file", "/dev/null"},
		"ytt":       {"-f", "-"},
		"kbld":      {"-f", "-", "--build=false"},
		"helm":      {"template", "name", "src"},
		"sops":      {"--decrypt", "src/a.yml"},
		"cue":       {"export"},
		"kustomize": {"build", "src"},
		"jsonnet":   {"-"},
	}
	return tool.Command{Name: name, Args: args[name], Stdin: []byte(strings.Join(script, "\n"))}
}

// do runs a command and returns all it printed; the test fails if it did not run.
func do(t *testing.T, w *sidecar.Workspace, c tool.Command) (out string, code int) {
	t.Helper()
	res, err := w.Run(t.Context(), c)
	if err != nil {
		t.Fatalf("%s: %v", c.Name, err)
	}
	return string(res.Stdout) + string(res.Stderr), res.ExitCode
}

func TestRunEachTool(t *testing.T) {
	w := start(t).open(t, "")
	for _, name := range sidecar.Tools() {
		t.Run(name, func(t *testing.T) {
			out, code := do(t, w, command(name, "pwd", "write "+"/dev/null x", "exit 3"))
			if code != 3 || !strings.HasPrefix(out, "/") {
				t.Errorf("exit code %d, output %q", code, out)
			}
		})
	}
}

func quiet(o sidecar.ServerOptions) sidecar.ServerOptions {
	o.Log = slog.New(slog.DiscardHandler)
	return o
}
