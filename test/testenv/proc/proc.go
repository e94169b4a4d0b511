// Package proc runs the processes of a test environment so that none outlives
// the process that started it, however that one ends.
package proc

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Spec says what to start.
type Spec struct {
	// Name is used in messages.
	Name string
	Path string
	Args []string
	// Env is the whole environment; nothing is inherited.
	Env []string
	// LogFile is appended to and receives stdout and stderr.
	LogFile string
	// User changes the identity of the process; nil keeps that of the caller.
	User *User
}

// User is the identity of a process.
type User struct {
	UID, GID uint32
	// Groups are the supplementary groups.
	Groups []uint32
}

// Process is a started process. Its methods may be called at any time and from
// several goroutines.
type Process struct {
	spec Spec
	cmd  *exec.Cmd
	done chan struct{}
	err  error // valid once done is closed
}

// onSpawner runs f on one thread that never ends. The kernel sends the parent
// death signal when the starting THREAD ends, and Go ends threads as it likes.
var onSpawner = sync.OnceValue(func() func(f func() error) error {
	type job struct {
		f   func() error
		ret chan error
	}
	jobs := make(chan job)
	go func() {
		runtime.LockOSThread()
		for j := range jobs {
			j.ret <- j.f()
		}
	}()
	return func(f func() error) error {
		ret := make(chan error)
		jobs <- job{f, ret}
		return <-ret
	}
})

// Start starts the process in a process group of its own, so that an interrupt
// typed at the terminal reaches the caller alone, which then stops it in order.
func Start(spec Spec) (*Process, error) {
	if err := os.MkdirAll(filepath.Dir(spec.LogFile), 0o755); err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	log, err := os.OpenFile(spec.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	defer log.Close()

	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Env = append([]string{}, spec.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if u := spec.User; u != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: u.UID, Gid: u.GID, Groups: u.Groups}
	}
	if err := onSpawner()(cmd.Start); err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	p := &Process{spec: spec, cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// PID returns the process id, also after the end of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Args returns the arguments that the process was started with.
func (p *Process) Args() []string { return p.spec.Args }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Signal sends a signal to the process alone, not to its children.
func (p *Process) Signal(sig os.Signal) error {
	err := p.cmd.Process.Signal(sig)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// Kill ends the process and its children at once and waits for its end.
func (p *Process) Kill() {
	select {
	case <-p.done:
		return // the id may belong to another group by now
	default:
	}
	_ = syscall.Kill(-p.PID(), syscall.SIGKILL)
	<-p.done
}

// Stop asks the process to end, kills it when it has not done so after grace,
// and returns how it ended. A process that ended before is no error.
func (p *Process) Stop(grace time.Duration) error {
	select {
	case <-p.done:
		return nil
	default:
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop %s: %w", p.spec.Name, err)
	}
	select {
	case <-p.done:
		return p.err
	case <-time.After(grace):
		p.Kill()
		return fmt.Errorf("stop %s: killed, still running %s after SIGTERM", p.spec.Name, grace)
	}
}

// WaitFor calls ready until it returns nil, the process ends or ctx ends. The
// error then carries what ready said last and the end of the log.
func (p *Process) WaitFor(ctx context.Context, ready func(context.Context) error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.done:
			return fmt.Errorf("%s ended before it was ready: %v\n%s", p.spec.Name, p.err, p.LogTail(30))
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w\n%s", p.spec.Name, err, p.LogTail(30))
		}
	}
}

// LogTail returns the last n lines that the process printed.
func (p *Process) LogTail(n int) string {
	text, err := os.ReadFile(p.spec.LogFile)
	if err != nil {
		return err.Error()
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-n-1):], nil))
}

// LogFile returns the path of the file that receives the output.
func (p *Process) LogFile() string { return p.spec.LogFile }

// PeakRSS returns the most memory the process has held so far, in bytes. It is
// an error after the end of the process.
func (p *Process) PeakRSS() (int64, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		return 0, fmt.Errorf("peak memory of %s: %w", p.spec.Name, err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if rest, ok := strings.CutPrefix(s.Text(), "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("peak memory of %s: no VmHWM in its status", p.spec.Name)
}
