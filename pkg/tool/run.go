//go:build linux

package tool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Defaults of Process.
const (
	DefaultMaxStdout = 64 << 20
	DefaultMaxStderr = 1 << 20
	DefaultGrace     = 2 * time.Second
)

// ErrTooMuchOutput is the cause when a tool printed more than it may.
var ErrTooMuchOutput = errors.New("too much output")

// Process is one program to run on this machine. The zero value of a field with a
// default takes the default.
type Process struct {
	// Path is the absolute path of the program; Name is what errors call it.
	Path, Name string
	Args       []string
	Stdin      []byte
	// Env is the whole environment: nothing of this process is added.
	Env []string
	// Dir is the absolute working directory.
	Dir string
	// MaxStdout ends the program once it printed more bytes on standard output.
	// Of standard error the last MaxStderr bytes are kept.
	MaxStdout, MaxStderr int
	// Grace is the time between SIGTERM and SIGKILL when the context ends.
	Grace time.Duration
	// Confine, if set, is called on the OS thread that starts the program. What it
	// takes away from that thread the program never gets: the thread serves
	// nothing else and ends with the run.
	Confine func() error
	// Started, if set, is called with the process id right after the start, in the
	// thread of Confine. An error ends the program.
	Started func(pid int) error
	// Reaper, if set, is told of the child, so that it leaves it alone.
	Reaper *Reaper
}

// Run runs the program to its end. The program has a session and process group of
// its own; when ctx ends the group gets SIGTERM, then SIGKILL, and Run returns what
// was printed with context.Cause(ctx). Whatever of the group is left when the
// program itself ends is killed. The program does not outlive this process.
//
// A non-zero exit code is no error. Errors never hold arguments, environment or
// input.
func (p Process) Run(ctx context.Context) (Result, error) {
	if ctx.Err() != nil {
		return Result{ExitCode: -1}, context.Cause(ctx)
	}
	type outcome struct {
		res Result
		err error
	}
	done := make(chan outcome, 1)
	onOwnThread(func() {
		res, err := p.run(ctx)
		done <- outcome{res, err}
	})
	o := <-done
	return o.res, o.err
}

// onOwnThread starts fn on an OS thread that is thrown away when fn returns. It is
// never the process's first thread, which would not end but lie around with all
// that fn took away from it.
func onOwnThread(fn func()) {
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if unix.Gettid() != unix.Getpid() {
			fn()
			return
		}
		// This goroutine holds the first thread, so the next one gets another.
		defer runtime.UnlockOSThread()
		done := make(chan struct{})
		go func() {
			defer close(done)
			runtime.LockOSThread()
			fn()
		}()
		<-done
	}()
}

func (p Process) run(ctx context.Context) (Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	maxStdout := defaultTo(p.MaxStdout, DefaultMaxStdout)
	tooMuch := fmt.Errorf("%s printed more than %d bytes on standard output: %w", p.Name, maxStdout, ErrTooMuchOutput)
	stdout := &capped{max: maxStdout, over: func() { cancel(tooMuch) }}
	stderr := &tail{max: defaultTo(p.MaxStderr, DefaultMaxStderr)}

	cmd := exec.Command(p.Path, p.Args...)
	cmd.Args[0] = p.Name
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = p.Env, p.Dir, stdout, stderr
	if cmd.Env == nil {
		cmd.Env = []string{} // nil would be the environment of this process
	}
	if len(p.Stdin) > 0 {
		cmd.Stdin = bytes.NewReader(p.Stdin)
	}
	// A session of its own is also a group of its own that no outsider can join,
	// and it has no terminal. Pdeathsig is bound to the starting thread, which
	// stays until the program has ended.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	// Bounds the wait for pipes that a process outside of the group holds open.
	cmd.WaitDelay = time.Second

	if p.Confine != nil {
		if err := p.Confine(); err != nil {
			return Result{ExitCode: -1}, fmt.Errorf("confine %s: %w", p.Name, err)
		}
	}
	if err := p.Reaper.start(cmd); err != nil {
		return Result{ExitCode: -1}, fmt.Errorf("start %s: %w", p.Name, plain(err))
	}
	if p.Started != nil {
		if err := p.Started(cmd.Process.Pid); err != nil {
			cancel(fmt.Errorf("start %s: %w", p.Name, err))
		}
	}
	ended := p.await(ctx, cmd)
	res := Result{Stdout: stdout.buf.Bytes(), Stderr: stderr.bytes(), ExitCode: cmd.ProcessState.ExitCode()}
	switch {
	case stdout.full:
		return res, tooMuch
	case ended:
		return res, context.Cause(ctx)
	}
	return res, nil
}

// await waits for the end of cmd and of its group. It says whether the end of ctx
// ended it. The group is signalled only as long as its leader has not been reaped:
// later the number may belong to others.
func (p Process) await(ctx context.Context, cmd *exec.Cmd) (ended bool) {
	group := -cmd.Process.Pid
	exited, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-exited:
			return
		case <-ctx.Done():
		}
		ended = true
		_ = syscall.Kill(group, syscall.SIGTERM)
		timer := time.NewTimer(defaultTo(p.Grace, DefaultGrace))
		defer timer.Stop()
		select {
		case <-exited:
		case <-timer.C:
			_ = syscall.Kill(group, syscall.SIGKILL)
		}
	}()
	blockUntilExit(cmd.Process.Pid)
	close(exited)
	<-watched
	_ = syscall.Kill(group, syscall.SIGKILL)
	// The error repeats the exit code, or tells of a pipe that was held open.
	_ = cmd.Wait()
	p.Reaper.forget(cmd)
	return ended
}

// blockUntilExit waits for the end of the child and leaves it to be reaped.
func blockUntilExit(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// plain drops operation and path: Name says which program it is.
func plain(err error) error {
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

func defaultTo[T int | time.Duration](v, def T) T {
	if v == 0 {
		return def
	}
	return v
}
