// Package kapp runs carvel's kapp inside this process. It is the only package
// that knows kapp's code.
//
// Each run has its own commands and clients, because kapp keeps state in them
// and knows no cancellation: a fence around the run's requests ends its effect at
// once. What is dear is shared by all runs: connections, and the kinds that a
// cluster serves.
package kapp

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"carvel.dev/kapp/pkg/kapp/version"

	"github.com/garboard-dev/garboard/pkg/deploy"
	"github.com/garboard-dev/garboard/pkg/status"
	"github.com/garboard-dev/garboard/pkg/tool"
)

// kappVersion is what kapp calls itself: manifests can require a version.
const kappVersion = "0.64.2"

const (
	// keptFor is how long the state of a target is kept without use.
	keptFor = time.Hour
	// drainFor bounds the wait for writes of a canceled run, before its result.
	drainFor = 2 * time.Second
	// earlierFor bounds the wait for an earlier run of the same App to end.
	earlierFor = 10 * time.Second
	// maxEarlier is how many canceled runs of one App may still be on their way
	// out. They change nothing, yet each holds memory.
	maxEarlier = 3
)

var (
	errCanceledBefore = errors.New("Already canceled")
	errCanceled       = errors.New("Process was canceled")
	errEarlier        = errors.New("An earlier run of kapp for this App has not ended yet")
)

// Options tune a Runner.
type Options struct {
	// Child is the command of a process that does nothing but call ChildMain. It
	// runs kapp for manifests whose wait rules count time: in this process they
	// would share their clocks with all other Apps. Nil: they do.
	Child []string
	// OnPanic is told of a panic of kapp's, with the App's name in kapp and the
	// stack. Nil: nobody is.
	OnPanic func(app string, value any, stack []byte)
}

// Runner runs kapp. It is safe for concurrent use.
type Runner struct {
	opts    Options
	zombies atomic.Int64

	mu       sync.Mutex // guards all below
	clusters map[string]*clusterTypes
	targets  map[string]*targetState
	running  map[string][]*run // by App, ended and canceled ones too until they are gone
}

// targetState is what runs of one target leave for the next.
type targetState struct {
	memo   *recordMemo
	denied *denied
	used   time.Time
}

// New returns a Runner.
func New(opts Options) *Runner {
	setVersion()
	return &Runner{
		opts:     opts,
		clusters: map[string]*clusterTypes{},
		targets:  map[string]*targetState{},
		running:  map[string][]*run{},
	}
}

// setVersion is done once, before the first run reads it.
var setVersion = sync.OnceFunc(func() { version.Version = kappVersion })

// qualifiedNames is the one variable of kapp's that is left to the operator: it
// makes kapp use longer names for its records.
const qualifiedNames = "KAPP_FQ_CONFIGMAP_NAMES"

// ForeignVariables returns the names of the variables in environ that kapp reads
// or may read. They hold for the whole process, so none should be set.
func ForeignVariables(environ []string) []string {
	var names []string
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		if strings.HasPrefix(name, "KAPP_") && name != qualifiedNames {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Zombies is the number of canceled runs whose goroutines have not ended. They
// can change nothing any more.
func (r *Runner) Zombies() int { return int(r.zombies.Load()) }

// Deploy makes the cluster what the manifest says. When ctx ends, it returns at
// once and nothing is changed any more.
func (r *Runner) Deploy(ctx context.Context, req deploy.Request) deploy.Result {
	args, err := deploy.ArgsToDeploy(req, manifestName)
	if err != nil {
		return deploy.Result{Stage: status.Stage{}.Fail("", err)}
	}
	j := job{command: deployCommand, args: args, prefix: deploy.Deploying}
	if err := checkSize(req.Manifest); err != nil {
		return failedRun(j.prefix, err)
	}
	if j.demands, err = inspectConfig(req.Manifest); err != nil {
		return failedRun(j.prefix, err)
	}
	res := r.start(ctx, req, j)
	if strings.Contains(res.Stderr, "(approved diff no longer matches)") && ctx.Err() == nil {
		// Someone changed an object between the comparison and the write. kapp
		// asks its user to approve anew; here the manifest is the approval.
		if req.Waiting != nil {
			req.Waiting(false)
		}
		res = r.start(ctx, req, j)
	}
	if strings.Contains(res.Stderr, "Expected to find kind '") && ctx.Err() == nil {
		// kapp believes the first answer on this question: the kind may be newer than
		// what earlier runs learned.
		j.fresh = true
		res = r.start(ctx, req, j)
	}
	return explain(ctx, req, res)
}

// Delete removes what was deployed, and kapp's records of it.
func (r *Runner) Delete(ctx context.Context, req deploy.Request) deploy.Result {
	args, err := deploy.ArgsToDelete(req)
	if err != nil {
		return deploy.Result{Stage: status.Stage{}.Fail("", err)}
	}
	j := job{command: deleteCommand, args: args, prefix: deploy.Deleting}
	res := r.start(ctx, req, j)
	if strings.Contains(res.Stderr, "Expected all resources to be gone, but found") && ctx.Err() == nil {
		// Something of a kind that the record does not name.
		j.whole = true
		res = r.start(ctx, req, j)
	}
	return explain(ctx, req, res)
}

// Inspect lists what is deployed.
func (r *Runner) Inspect(ctx context.Context, req deploy.Request) deploy.Result {
	args, err := deploy.ArgsToInspect(req)
	if err != nil {
		return deploy.Result{Stage: status.Stage{}.Fail("", err)}
	}
	return r.start(ctx, req, job{command: inspectCommand, args: args, prefix: deploy.Inspecting})
}

// failedRun is the result of a run that kapp would have ended with err.
func failedRun(prefix string, err error) deploy.Result {
	return deploy.Result{Stage: status.FromRun(prefix, tool.Result{Stderr: []byte(errorLine(err)), ExitCode: 1}, nil)}
}

// job is what to run.
type job struct {
	command string
	args    []string
	prefix  string // of the error text
	demands demands
	// whole lets a delete look at every kind of the cluster from the start.
	whole bool
	// fresh takes no kinds of the cluster from earlier runs.
	fresh bool
}

// start runs j to its end or until ctx ends.
func (r *Runner) start(ctx context.Context, req deploy.Request, j job) deploy.Result {
	if ctx.Err() != nil {
		return deploy.Result{Stage: status.Stage{}.Fail(j.prefix, errCanceledBefore)}
	}
	run := r.newRun(req, j)
	if err := r.admit(ctx, run); err != nil {
		return deploy.Result{Stage: status.Stage{}.Fail(j.prefix, err)}
	}
	go func() {
		defer r.leave(run)
		run.execute(r.opts.OnPanic)
	}()
	reported := run.report(req.Progress)
	res := r.wait(ctx, run)
	run.ui.phases.end()
	close(run.quiet)
	<-reported
	return res
}

// wait returns the result of run, or that it was canceled.
func (r *Runner) wait(ctx context.Context, run *run) deploy.Result {
	select {
	case <-run.done:
		return run.result()
	case <-ctx.Done():
	}
	if !run.state.CompareAndSwap(stateRunning, stateAbandoned) {
		<-run.done
		return run.result()
	}
	r.zombies.Add(1)
	run.fence.Close()
	select {
	case <-run.fence.Idle():
		run.finish()
	case <-time.After(drainFor):
	}
	return run.canceled(context.Cause(ctx))
}

// admit waits until earlier runs of the same App can change nothing any more.
func (r *Runner) admit(ctx context.Context, run *run) error {
	deadline := time.NewTimer(earlierFor)
	defer deadline.Stop()
	for {
		r.mu.Lock()
		wait := blocking(r.running[run.app])
		if wait == nil {
			r.running[run.app] = append(r.running[run.app], run)
			r.mu.Unlock()
			return nil
		}
		r.mu.Unlock()
		select {
		case <-wait:
		case <-deadline.C:
			return errEarlier
		case <-ctx.Done():
			return errCanceledBefore
		}
	}
}

// blocking returns what to wait for before another run of the same App may
// start, or nil.
func blocking(earlier []*run) <-chan struct{} {
	for _, e := range earlier {
		select {
		case <-e.fence.Idle():
		default:
			return e.fence.Idle()
		}
	}
	if len(earlier) >= maxEarlier {
		return earlier[0].done
	}
	return nil
}

// leave forgets a run that has ended.
func (r *Runner) leave(ended *run) {
	if !ended.state.CompareAndSwap(stateRunning, stateEnded) {
		r.zombies.Add(-1)
	}
	defer close(ended.done) // last, so that whoever waits for it finds it gone
	r.mu.Lock()
	defer r.mu.Unlock()
	left := slices.DeleteFunc(r.running[ended.app], func(e *run) bool { return e == ended })
	if len(left) == 0 {
		delete(r.running, ended.app)
	} else {
		r.running[ended.app] = left
	}
}

// newRun puts together what a run needs.
func (r *Runner) newRun(req deploy.Request, j job) *run {
	target := req.Target
	cluster := clusterKey(target.Config, target.Key)
	types, state := r.shared(cluster, target.Key)
	app := deploy.AppName(req.Name, req.Suffix)
	out := &output{}
	ui := newRunUI(outWriter{out}, errWriter{out}, &phases{applying: out.setApplying, waiting: req.Waiting})
	fence := newFence(target.HTTP.Transport)
	records := newRecords(target.RecordNamespace(), app, state.memo, j.command == deployCommand)
	kinds := &runTypes{cluster: types, first: j.first(req, records)}
	if j.fresh {
		kinds.last = time.Now()
	}
	deps := &depsFactory{
		config:    target.Config,
		http:      &http.Client{Transport: fence},
		namespace: target.Namespace,
		ui:        ui,
		records:   records,
		types:     kinds,
		objects:   &objects{off: j.demands.rules},
		denied:    state.denied,
	}
	var child []string
	if j.demands.alone {
		child = r.opts.Child
	}
	return &run{
		child:    child,
		app:      cluster + "/" + target.RecordNamespace() + "/" + app,
		name:     app,
		job:      j,
		manifest: req.Manifest,
		deps:     deps,
		ui:       ui,
		out:      out,
		fence:    fence,
		done:     make(chan struct{}),
		quiet:    make(chan struct{}),
	}
}

// shared returns the state of a cluster and of a target, and lets go of what was
// not used for long.
func (r *Runner) shared(cluster, target string) (*clusterTypes, *targetState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	t, ok := r.targets[target]
	if !ok {
		for k, old := range r.targets {
			if now.Sub(old.used) > keptFor {
				delete(r.targets, k)
			}
		}
		t = &targetState{memo: newRecordMemo(), denied: &denied{}}
		r.targets[target] = t
	}
	t.used = now
	c, ok := r.clusters[cluster]
	if !ok {
		for k, old := range r.clusters {
			if now.Sub(old.used) > keptFor {
				delete(r.clusters, k)
			}
		}
		c = &clusterTypes{}
		r.clusters[cluster] = c
	}
	c.used = now
	return c, t
}
