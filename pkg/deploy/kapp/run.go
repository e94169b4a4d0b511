package kapp

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	cmdapp "carvel.dev/kapp/pkg/kapp/cmd/app"
	uierrs "github.com/cppforlife/go-cli-ui/errors"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/deploy"
	"github.com/garboard-dev/garboard/pkg/status"
	"github.com/garboard-dev/garboard/pkg/tool"
)

// progressEvery is how often a run's output is looked at.
const progressEvery = 200 * time.Millisecond

const (
	// flushFor bounds the one write that a run may leave to its end.
	flushFor = 10 * time.Second
	// lingerFor is how long goroutines of a run that has ended may still read.
	lingerFor = 5 * time.Second
)

// States of a run.
const (
	stateRunning int32 = iota
	stateEnded
	stateAbandoned // nobody waits for it any more
)

// run is one run of a kapp command.
type run struct {
	app      string // cluster, namespace and name: no two runs of one at a time
	name     string
	job      job
	manifest []byte
	deps     *depsFactory
	ui       *runUI
	out      *output
	fence    *fence

	child []string // the command of a process to run kapp in; nil: in this one

	state    atomic.Int32
	exitCode int                        // set before done is closed
	recorded *v1alpha1.KappDeployStatus // the same
	done     chan struct{}              // closed when the goroutine has ended
	quiet    chan struct{}              // closed to end the reports
}

// execute runs the command to its end, whatever happens.
func (r *run) execute(onPanic func(string, any, []byte)) {
	// kapp's goroutines that follow logs end by themselves, soon, and complain on
	// this process's output when they are cut off.
	defer time.AfterFunc(lingerFor, r.fence.Close)
	defer func() {
		if p := recover(); p != nil {
			r.exitCode = 2
			r.print(fmt.Errorf("kapp panicked: %v", p))
			if onPanic != nil {
				onPanic(r.name, p, debug.Stack())
			}
		}
	}()
	if r.child != nil {
		r.exitCode, r.recorded = r.executeChild()
		return
	}
	r.exitCode = runCommand(r.job, r.ui, r.deps, r.manifest)
	if r.job.command == deployCommand {
		r.recorded = r.deps.records.status(r.exitCode == 0)
	}
}

// runCommand does what kapp's own main function does, and returns the exit code.
func runCommand(j job, u *runUI, deps *depsFactory, manifest []byte) int {
	cmd := newCommand(j.command, u, deps, manifest)
	cmd.SetArgs(j.args)
	err := cmd.Execute()
	deps.flush()
	defer u.Flush()
	if err == nil {
		u.PrintLinef("Succeeded")
		return 0
	}
	u.ErrorLinef("kapp: Error: %v", uierrs.NewMultiLineError(err))
	if exit := cmdapp.ExitStatus(nil); errors.As(err, &exit) {
		return exit.ExitStatus()
	}
	return 1
}

// print writes err past kapp's user interface, which may hold a lock or be
// the very thing that panicked.
func (r *run) print(err error) { _, _ = errWriter{r.out}.Write([]byte(errorLine(err))) }

// errorLine is how kapp's main function prints an error.
func errorLine(err error) string {
	return fmt.Sprintf("kapp: Error: %v\n", uierrs.NewMultiLineError(err))
}

// report calls progress while the run prints, and closes what it returns once it
// will not call any more.
func (r *run) report(progress func(deploy.Progress)) <-chan struct{} {
	ended := make(chan struct{})
	if progress == nil {
		close(ended)
		return ended
	}
	go func() {
		defer close(ended)
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		seen := 0
		for {
			select {
			case <-r.quiet:
				return
			case <-tick.C:
			}
			if p, version := r.out.progress(); version != seen {
				seen = version
				progress(p)
			}
		}
	}()
	return ended
}

// result is what became of a run that has ended.
func (r *run) result() deploy.Result {
	p, _ := r.out.progress()
	res := deploy.Result{Stage: status.FromRun(r.job.prefix, tool.Result{
		Stdout:   []byte(p.Stdout),
		Stderr:   []byte(p.Stderr),
		ExitCode: r.exitCode,
	}, nil)}
	res.Kapp = r.recorded
	return res
}

// canceled is the result of a run that nobody waits for any more. cause is why,
// if it says more than that.
func (r *run) canceled(cause error) deploy.Result {
	err := errCanceled
	if cause != nil && !errors.Is(cause, context.Canceled) {
		err = fmt.Errorf("%w: %w", errCanceled, cause)
	}
	p, _ := r.out.progress()
	s := status.Stage{Stdout: p.Stdout, Stderr: p.Stderr}
	return deploy.Result{Stage: s.Fail(r.job.prefix, err)}
}
