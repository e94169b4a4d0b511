//go:build linux

package sidecar

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/garboard-dev/garboard/pkg/tool"
	"github.com/garboard-dev/garboard/pkg/workdir"
)

// limitError says which limit a tool passed.
type limitError struct{ text string }

func (e *limitError) Error() string { return e.text }
func (e *limitError) Unwrap() error { return ErrLimit }

// run is one run of a tool.
type run struct {
	*workspace
	command tool.Command
	policy  policy
	path    string   // of the program
	cache   string   // folder for the tool itself, or empty
	osEnv   []string // certificates and proxies, for tools with network access
	osGit   [][2]string
	osFiles []string
}

// run runs a command to its end.
func (w *workspace) run(ctx context.Context, c tool.Command) (tool.Result, error) {
	failed := tool.Result{ExitCode: -1}
	p, err := allow(c)
	if err != nil {
		w.server.log.WarnContext(ctx, "Command refused", "tool", c.Name)
		return failed, err
	}
	r := &run{workspace: w, command: c, policy: p}
	if r.path, err = w.server.lookup(c.Name); err != nil {
		return failed, err
	}
	if ok, err := w.dir.IsDir(c.Dir); err != nil || !ok {
		return failed, errors.Join(fmt.Errorf("working directory %q of %s is no folder of the workspace", c.Dir, c.Name), err)
	}
	if p.network {
		r.osEnv, r.osGit, r.osFiles = w.server.os.env()
	}
	if !p.foreign || c.Cache == tool.CacheNothing || w.owner == "" {
		return r.toEnd(ctx)
	}
	cached, err := w.server.caches.lease(w.owner, c.Stdin)
	if err != nil {
		return failed, fmt.Errorf("open cache: %w", err)
	}
	defer cached.release()
	if c.Cache == tool.CacheParts {
		r.cache = cached.parts()
		return r.toEnd(ctx)
	}
	if res, ok := cached.restore(w.dir, c.Dir); ok {
		w.server.log.InfoContext(ctx, "Tool not run: its result is in the cache", "tool", c.Name)
		return res, nil
	}
	res, err := r.toEnd(ctx)
	if err == nil && res.ExitCode == 0 {
		if err := cached.keep(w.dir, c.Dir, res); err != nil {
			w.server.log.WarnContext(ctx, "Cannot cache a result", "tool", c.Name, "error", err)
		}
	}
	return res, err
}

// toEnd runs the tool and looks at what it leaves.
func (r *run) toEnd(ctx context.Context) (tool.Result, error) {
	res, err := r.exec(ctx)
	if err == nil {
		if err = r.starved(res); err != nil {
			res = tool.Result{ExitCode: -1}
		}
	}
	res.Stderr = r.relative(res.Stderr)
	if err == nil && r.policy.foreign && res.ExitCode == 0 {
		err = r.checkTree()
	}
	if errors.Is(err, ErrLimit) {
		r.discard()
	}
	return res, err
}

// lookup finds the program of a tool.
func (s *server) lookup(name string) (string, error) {
	file := filepath.Join(s.opts.ToolDir, name)
	if s.opts.ToolDir == "" {
		var err error
		if file, err = exec.LookPath(name); err != nil {
			return "", fmt.Errorf("tool %s is not installed beside the sidecar", name)
		}
	}
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("tool %s is not installed beside the sidecar", name)
	}
	// A link may lead out of what the sandbox shows.
	return filepath.EvalSymlinks(file)
}

// exec starts the tool, contained and watched.
func (r *run) exec(ctx context.Context) (tool.Result, error) {
	s := r.server
	box, kernel := r.sandbox(), s.kernel
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		r.watch(ctx, cancel, box.write)
	}()
	s.running.Add(1)
	started := time.Now()
	res, err := tool.Process{
		Path: r.path, Name: r.command.Name, Args: r.command.Args, Stdin: r.command.Stdin,
		Env: r.env(), Dir: filepath.Join(r.dir.Path(), filepath.FromSlash(r.command.Dir)),
		MaxStdout: s.opts.MaxStdout, Grace: s.opts.Grace,
		Confine: func() error { return box.enter(kernel) },
		Started: func(pid int) error {
			s.starts[r.command.Name].Add(1)
			return r.limit(pid)
		},
		Reaper: s.reaper,
	}.Run(ctx)
	s.running.Add(-1)
	cancel(nil)
	<-watched
	s.logExit(ctx, r.command.Name, res.ExitCode, time.Since(started), err)
	// A quick one may have passed a limit between two looks.
	if over := r.over(box.write); err == nil && over != nil {
		err = over
	}
	return res, err
}

// logExit never logs arguments, which may hold user names and URLs.
func (s *server) logExit(ctx context.Context, name string, code int, took time.Duration, err error) {
	if err != nil {
		s.log.WarnContext(ctx, "Tool was ended", "tool", name, "exitCode", code, "duration", took, "reason", err)
		return
	}
	s.log.InfoContext(ctx, "Tool exited", "tool", name, "exitCode", code, "duration", took)
}

// limit sets what the kernel counts for a process and its children. The process
// has been started by now, but the program's own first steps take longer.
func (r *run) limit(pid int) error {
	// A file may become a bit larger than all may be together, so that the text
	// of the limit is met first.
	const slack = 64 << 20
	for _, l := range []struct {
		resource int
		max      uint64
	}{{unix.RLIMIT_FSIZE, uint64(r.server.opts.MaxBytes) + slack}, {unix.RLIMIT_DATA, uint64(r.server.opts.MaxMemory)}, {unix.RLIMIT_NOFILE, 8192}, {unix.RLIMIT_CORE, 0}} {
		var old unix.Rlimit
		if err := unix.Prlimit(pid, l.resource, nil, &old); err != nil {
			return ignoreGone(err)
		}
		limit := unix.Rlimit{Cur: min(l.max, old.Max), Max: min(l.max, old.Max)}
		if err := unix.Prlimit(pid, l.resource, &limit, nil); err != nil {
			return ignoreGone(err)
		}
	}
	return nil
}

func ignoreGone(err error) error {
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return fmt.Errorf("set resource limits: %w", err)
}

// watch ends the tool once its folders pass a limit.
func (r *run) watch(ctx context.Context, cancel context.CancelCauseFunc, folders []string) {
	const often = 200 * time.Millisecond
	timer := time.NewTimer(often)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		began := time.Now()
		if err := r.over(folders); err != nil {
			cancel(err)
			return
		}
		// Looking takes at most a tenth of the time.
		timer.Reset(max(often, 10*time.Since(began)))
	}
}

func (r *run) over(folders []string) error {
	limit := workdir.Usage{Bytes: r.server.opts.MaxBytes, Entries: r.server.opts.MaxEntries}
	used := workdir.Measure(limit, folders...)
	switch {
	case used.Bytes > limit.Bytes:
		return &limitError{fmt.Sprintf("%s was ended: it wrote more than %d bytes into its work folder", r.command.Name, limit.Bytes)}
	case used.Entries > limit.Entries:
		return &limitError{fmt.Sprintf("%s was ended: it made more than %d files and folders in its work folder", r.command.Name, limit.Entries)}
	case used.Closed:
		return &limitError{fmt.Sprintf("%s was ended: it made a folder that cannot be looked into", r.command.Name)}
	}
	return nil
}

// checkTree refuses fetched content that could lead a later tool out of the
// workspace, and removes it.
func (r *run) checkTree() error {
	err := r.dir.Check(r.command.Dir)
	if err != nil {
		r.discard()
		return fmt.Errorf("fetched content is refused: %w", err)
	}
	return nil
}

// discard removes what the tool wrote.
func (r *run) discard() {
	if r.command.Dir != "" {
		err := errors.Join(r.dir.Remove(r.command.Dir), r.dir.MkdirAll(r.command.Dir))
		if err != nil {
			r.server.log.Error("Cannot remove what a tool wrote", "tool", r.command.Name, "error", err)
		}
	}
	if r.cache != "" {
		r.server.caches.forget(r.owner)
	}
}

// sandbox is what the tool may reach.
func (r *run) sandbox() sandbox {
	root := r.dir.Path()
	box := sandbox{exec: []string{r.path}, read: r.osFiles, network: r.policy.network}
	if r.server.opts.ToolDir != "" {
		box.exec = append(box.exec, r.server.opts.ToolDir)
	}
	if r.policy.writes {
		box.write = []string{root}
	} else {
		box.read = append(box.read, root)
		box.write = []string{filepath.Join(root, homeDir), filepath.Join(root, tmpDir)}
	}
	if r.cache != "" {
		box.write = append(box.write, r.cache)
	}
	return box
}

// env is all that the tool finds in its environment.
func (r *run) env() []string {
	root := r.dir.Path()
	home := filepath.Join(root, homeDir)
	env := []string{
		"PATH=" + r.server.opts.path(), "HOME=" + home, "TMPDIR=" + filepath.Join(root, tmpDir), "LANG=C.UTF-8",
		"XDG_CACHE_HOME=" + filepath.Join(home, ".cache"), "XDG_CONFIG_HOME=" + filepath.Join(home, ".config"),
		"XDG_DATA_HOME=" + filepath.Join(home, ".local/share"),
		// Near its limit a tool written in Go collects its garbage more often.
		fmt.Sprintf("GOMEMLIMIT=%d", r.server.opts.MaxMemory/10*8),
	}
	if r.policy.network {
		env = append(env, networkEnv...)
		if v, ok := os.LookupEnv(keychains); ok {
			env = append(env, keychains+"="+v)
		}
		env = append(append(env, r.osEnv...), gitEnv(slices.Concat(gitConfig, r.osGit, r.gitCAs()))...)
	}
	if r.cache != "" {
		// vendir's own bound is for each entry; the cache as a whole has one.
		env = append(env, "VENDIR_CACHE_DIR="+r.cache, fmt.Sprintf("VENDIR_MAX_CACHE_SIZE=%d", r.server.opts.CacheBytes))
	}
	for _, kv := range r.command.Env {
		key, value, _ := strings.Cut(kv, "=")
		if key == gitCAs {
			continue
		}
		if r.policy.env[key] == localPath {
			value = filepath.Join(root, filepath.FromSlash(value))
		}
		env = append(env, key+"="+value)
	}
	return env
}

// gitCAs is git's configuration for certificates of single hosts.
func (r *run) gitCAs() (config [][2]string) {
	for _, kv := range r.command.Env {
		pairs, found := strings.CutPrefix(kv, gitCAs+"=")
		if !found {
			continue
		}
		for pair := range strings.FieldsSeq(pairs) {
			i := strings.LastIndexByte(pair, '=')
			config = append(config, [2]string{"http." + pair[:i] + ".sslCAInfo", filepath.Join(r.dir.Path(), filepath.FromSlash(pair[i+1:]))})
		}
	}
	return config
}

// keychains names the clouds whose registry credentials of this machine are used.
const keychains = "IMGPKG_ACTIVE_KEYCHAINS"

// networkEnv keeps git and ssh from asking questions, from files of the machine
// and its user, from protocols that run programs or read local folders, and from
// leaving processes behind.
var networkEnv = []string{
	"GIT_TERMINAL_PROMPT=0", "GIT_ALLOW_PROTOCOL=" + remoteGitValue, "GIT_CONFIG_NOSYSTEM=1",
	"GIT_SSH_COMMAND=ssh -F /dev/null -o BatchMode=yes",
}

// gitConfig is git's configuration besides that of a repository: see networkEnv, and
// large files come by git-lfs, as where somebody has installed it.
var gitConfig = [][2]string{
	{"gc.auto", "0"}, {"maintenance.auto", "false"},
	{"filter.lfs.process", "git-lfs filter-process"}, {"filter.lfs.smudge", "git-lfs smudge -- %f"},
	{"filter.lfs.clean", "git-lfs clean -- %f"}, {"filter.lfs.required", "true"},
}

// gitEnv is the environment that gives git a configuration.
func gitEnv(config [][2]string) []string {
	env := []string{fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(config))}
	for i, kv := range config {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, kv[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, kv[1]))
	}
	return env
}
