//go:build linux

package tool

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Reaper collects orphans: processes that a tool left behind and that became
// children of this process, as they do for process 1 of a container. It never
// takes the exit code of a child that a Process waits for, nor does it touch a child
// in this process's own session, which somebody else here started and waits for: a
// Process has a session of its own, and nothing in it can come back to ours.
//
// A nil *Reaper is valid and does nothing.
type Reaper struct {
	// mu is held for reading while a child is started and for writing while
	// orphans are collected, so that no child is seen before it is tracked.
	mu      sync.RWMutex
	tracked sync.Map // process id -> *exec.Cmd
	wake    chan struct{}
}

// NewReaper makes a reaper. It does nothing until Run.
func NewReaper() *Reaper { return &Reaper{wake: make(chan struct{}, 1)} }

// Adopt makes orphans below this process its children, as process 1 has it.
func (r *Reaper) Adopt() error {
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// Run collects orphans until ctx ends. Orphans that still run are killed when a
// tool ends: no tool has a use for one, and what left its tool's group would
// otherwise live on with nobody to end it.
func (r *Reaper) Run(ctx context.Context) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGCHLD)
	defer signal.Stop(signals)
	for {
		if r.collect() > 0 {
			r.killStray() // the children of what was reaped are ours now
		}
		select {
		case <-ctx.Done():
			return
		case <-signals:
		case <-r.wake:
			r.killStray()
		}
	}
}

func (r *Reaper) start(cmd *exec.Cmd) error {
	if r == nil {
		return cmd.Start()
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	r.tracked.Store(cmd.Process.Pid, cmd)
	return nil
}

// forget is called once cmd has been waited for.
func (r *Reaper) forget(cmd *exec.Cmd) {
	if r == nil {
		return
	}
	// The number may already be that of another child.
	r.tracked.CompareAndDelete(cmd.Process.Pid, cmd)
	select {
	case r.wake <- struct{}{}:
	default: // one is on its way
	}
}

// ours says whether pid is a child that somebody here waits for.
func (r *Reaper) ours(pid int) bool {
	if _, ok := r.tracked.Load(pid); ok {
		return true
	}
	theirs, err := unix.Getsid(pid)
	own, ownErr := unix.Getsid(0)
	return err != nil || ownErr != nil || theirs == own
}

// collect reaps orphans until the next dead child is none. A dead child of ours
// hides those behind it: its waiter reaps it at once and wakes us. It returns how
// many it reaped.
func (r *Reaper) collect() (reaped int) {
	for r.collectOne() {
		reaped++
	}
	return reaped
}

func (r *Reaper) collectOne() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	// WNOWAIT looks without reaping.
	pid, err := waitid(unix.P_ALL, 0, unix.WNOWAIT)
	if err != nil || pid == 0 || r.ours(pid) {
		return errors.Is(err, unix.EINTR)
	}
	_, err = waitid(unix.P_PID, pid, 0)
	return err == nil || errors.Is(err, unix.EINTR)
}

// killStray kills the orphans that still run. Their death wakes the reaper.
func (r *Reaper) killStray() {
	r.mu.Lock()
	defer r.mu.Unlock()
	lists, _ := filepath.Glob("/proc/self/task/*/children")
	for _, list := range lists {
		pids, _ := os.ReadFile(list) // a thread may have ended
		for field := range bytes.FieldsSeq(pids) {
			if pid, err := strconv.Atoi(string(field)); err == nil && !r.ours(pid) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
}
