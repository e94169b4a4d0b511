package sidecar

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/garboard-dev/garboard/pkg/tool"
)

// Defaults of ServerOptions.
const (
	DefaultMaxBytes   = 1 << 30
	DefaultMaxEntries = 200_000
	DefaultCacheBytes = 256 << 20
	DefaultGrace      = 2 * time.Second
)

// ServerOptions says where the sidecar works and what a tool may use. The zero
// value of a limit takes its default.
type ServerOptions struct {
	// Socket is the absolute path of the unix socket to listen on, mode 0660. A
	// dead socket that is there is replaced; anything else is left and refused.
	Socket string
	// WorkDir is a folder for the sidecar alone: workspaces, caches and its CA
	// bundle. It is made where it is missing and locked. What an earlier sidecar
	// left in it is removed at the start. The socket must be elsewhere.
	WorkDir string
	// ToolDir has the tools; empty looks them up in PATH.
	ToolDir string
	// Log gets what happens; nil is slog.Default.
	Log *slog.Logger
	// MaxBytes and MaxEntries bound one workspace together with its cache. A tool
	// that writes more is ended.
	MaxBytes, MaxEntries int64
	// CacheBytes bounds the caches of all owners; those longest unused go first.
	CacheBytes int64
	// MaxStdout bounds what a tool prints on standard output, in bytes.
	MaxStdout int
	// MaxMemory bounds what one process of a tool allocates, in bytes. Default:
	// half of the container's memory, at least 256 MiB and at most 2 GiB, so that
	// one greedy template does not end the sidecar and all that runs in it.
	MaxMemory int64
	// Grace is the time a tool has between SIGTERM and SIGKILL.
	Grace time.Duration
	// RequireContainment refuses to serve where the kernel has no Landlock with
	// network rules (version 4, Linux 6.7) or no system call filter. Without it
	// the sidecar warns and goes on with what there is.
	RequireContainment bool
}

// Validate returns an error that names each option that cannot be.
func (o ServerOptions) Validate() error {
	var errs []error
	for _, p := range []struct{ name, path string }{{"Socket", o.Socket}, {"WorkDir", o.WorkDir}} {
		if !filepath.IsAbs(p.path) {
			errs = append(errs, fmt.Errorf("%s %q: must be an absolute path", p.name, p.path))
		}
	}
	if rel, err := filepath.Rel(o.WorkDir, o.Socket); err == nil && filepath.IsLocal(rel) {
		errs = append(errs, fmt.Errorf("Socket %q: must not be in WorkDir %q, which is swept and which tools see", o.Socket, o.WorkDir))
	}
	if o.ToolDir != "" && !filepath.IsAbs(o.ToolDir) {
		errs = append(errs, fmt.Errorf("ToolDir %q: must be an absolute path", o.ToolDir))
	}
	for _, l := range []struct {
		name  string
		value int64
	}{
		{"MaxBytes", o.MaxBytes}, {"MaxEntries", o.MaxEntries}, {"CacheBytes", o.CacheBytes},
		{"MaxStdout", int64(o.MaxStdout)}, {"MaxMemory", o.MaxMemory}, {"Grace", int64(o.Grace)},
	} {
		if l.value < 0 {
			errs = append(errs, fmt.Errorf("%s %d: must not be negative", l.name, l.value))
		}
	}
	return errors.Join(errs...)
}

func (o ServerOptions) withDefaults() ServerOptions {
	o.MaxBytes = cmp.Or(o.MaxBytes, DefaultMaxBytes)
	o.MaxEntries = cmp.Or(o.MaxEntries, DefaultMaxEntries)
	o.CacheBytes = cmp.Or(o.CacheBytes, DefaultCacheBytes)
	o.Grace = cmp.Or(o.Grace, DefaultGrace)
	o.MaxMemory = cmp.Or(o.MaxMemory, tool.MemoryShare())
	o.Log = cmp.Or(o.Log, slog.Default())
	return o
}

// path is PATH for tools: vendir looks for helm and git in it.
func (o ServerOptions) path() string {
	dirs := []string{"/usr/local/bin", "/usr/bin", "/bin"}
	if o.ToolDir != "" {
		return strings.Join(append([]string{o.ToolDir}, dirs...), string(os.PathListSeparator))
	}
	return cmp.Or(os.Getenv("PATH"), strings.Join(dirs, string(os.PathListSeparator)))
}
