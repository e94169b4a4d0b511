package pipeline

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard-dev/garboard/pkg/deploy"
	"github.com/garboard-dev/garboard/pkg/fetch"
	"github.com/garboard-dev/garboard/pkg/status"
	"github.com/garboard-dev/garboard/pkg/template"
	"github.com/garboard-dev/garboard/pkg/tool/redact"
)

// ErrToolTimeout ends a fetch or template stage that takes too long.
var ErrToolTimeout = errors.New("took longer than the time limit for tools")

// closeTimeout bounds the removal of a work folder, which must happen although
// the run was cancelled.
const closeTimeout = 10 * time.Second

// Run fetches, templates, deploys and inspects. report gets each state of the
// outcome as it grows; it must not block for long. The context's end cancels the
// stage that runs.
func (p *Pipeline) Run(ctx context.Context, job Job, report func(status.Outcome)) (out status.Outcome) {
	out = status.Outcome{Generation: job.Generation}
	job.hide, job.memory = &redact.Redactor{}, p.Memory.Hold()
	defer job.memory.Release()
	defer p.contain(ctx, job, &out)

	if err := job.Spec.SyncPeriod.Err(); err != nil {
		out.Err, out.Done = fmt.Sprintf("Invalid syncPeriod: %v", err), true
		return out
	}
	root, manifest := "", []byte(nil)
	p.inWorkspace(ctx, job, &out, func(ws Workspace) {
		if root = p.fetch(ctx, ws, job, &out); root == "" {
			return
		}
		report(out)
		manifest = p.template(ctx, ws, job, root, &out)
	})
	if out.Failure() == nil {
		report(out)
		p.deploy(ctx, job, manifest, &out, report)
	}
	out.Done = true
	return out
}

// Delete removes what was deployed, unless the job says to leave it.
func (p *Pipeline) Delete(ctx context.Context, job Job, report func(status.Outcome)) (out status.Outcome) {
	out = status.Outcome{Generation: job.Generation, Deleting: true}
	job.hide = &redact.Redactor{}
	defer p.contain(ctx, job, &out)
	defer func() { out.Done = true }()
	if job.SkipDelete {
		return out
	}
	started := p.Now()
	out.Deploy = hidden(job, p.runDelete(ctx, job, p.progress(job, &out, started, report)))
	p.end(out.Deploy, started)
	out.Running = false
	return out
}

func (p *Pipeline) runDelete(ctx context.Context, job Job, progress func(deploy.Progress)) *status.Stage {
	req, err := p.deployRequest(ctx, job)
	if err != nil && !job.Deployed(ctx) {
		// Nothing was ever deployed, so a service account that is missing, or a
		// spec that never was right, must not keep the App for ever.
		return &status.Stage{}
	}
	if apierrors.IsNotFound(err) && job.Doomed != nil && job.Doomed(ctx) {
		// Nothing can be created in that namespace any more: whoever waits for the
		// identity keeps the namespace for ever.
		logr.FromContextOrDiscard(ctx).Info("Left what the App deployed outside of its namespace, which is being deleted", "reason", err.Error())
		return &status.Stage{Stdout: fmt.Sprintf("Left what is outside of namespace %s, which is being deleted: %v", job.Namespace, err)}
	}
	if err != nil {
		err = fmt.Errorf("%w (hint: restore what is missing, or set spec.noopDelete to leave the deployed objects behind)", err)
		stage := status.Stage{}.Fail("", err)
		return &stage
	}
	req.Progress, req.Waiting = progress, job.Waiting
	stage := p.Deploy.Delete(ctx, req).Stage
	return &stage
}

// contain turns a panic of a stage into that object's failure: one bad input
// must not end the controller.
func (p *Pipeline) contain(ctx context.Context, job Job, out *status.Outcome) {
	r := recover()
	if r == nil {
		return
	}
	text := job.hide.String(fmt.Sprint(r))
	logr.FromContextOrDiscard(ctx).Error(errors.New("panic: "+text), "Contained a panic", "stack", string(debug.Stack()))
	out.Err, out.Running, out.Done = fmt.Sprintf("Internal error: %s (this is a fault of the controller: its log has the details)", text), false, true
}

// inWorkspace runs do with a work folder that is gone afterwards in every case.
func (p *Pipeline) inWorkspace(ctx context.Context, job Job, out *status.Outcome, do func(Workspace)) {
	started := p.Now()
	// A sidecar that hangs must not hold a worker for ever.
	opening, cancel := p.limit(ctx)
	ws, err := p.Workspaces.Open(opening, job.UID)
	cancel()
	if err != nil {
		stage := status.Stage{}.Fail("Fetching: Opening work folder: ", err)
		out.Fetch = &stage
		p.end(out.Fetch, started)
		return
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		if err := ws.Close(ctx); err != nil {
			logr.FromContextOrDiscard(ctx).Error(err, "Work folder not removed; the sidecar removes it when it restarts")
		}
	}()
	do(ws)
}

// fetch returns the template root, or "" after a failure.
func (p *Pipeline) fetch(ctx context.Context, ws Workspace, job Job, out *status.Outcome) string {
	ctx, cancel := p.limit(ctx)
	defer cancel()
	started := p.Now()
	res := p.Fetch.Fetch(ctx, ws, fetch.Request{Namespace: job.Namespace, Sources: job.Spec.Fetch, SkipTLS: job.SkipTLS, Hide: job.hide})
	out.Fetch = &res.Stage
	p.end(out.Fetch, started)
	if res.Failed() {
		return ""
	}
	return res.Root
}

func (p *Pipeline) template(ctx context.Context, ws Workspace, job Job, root string, out *status.Outcome) []byte {
	ctx, cancel := p.limit(ctx)
	defer cancel()
	started := p.Now()
	res := p.Template.Template(ctx, ws, template.Request{
		Name: job.Name, Namespace: job.Namespace, UID: job.UID, Labels: job.Labels, Annotations: job.Annotations,
		Steps: job.Spec.Template, Root: root, Facts: p.Access.Facts(job.access()), Hide: job.hide, Memory: job.memory,
	})
	out.Template = &res.Stage
	p.end(out.Template, started)
	return res.Output
}

func (p *Pipeline) deploy(ctx context.Context, job Job, manifest []byte, out *status.Outcome, report func(status.Outcome)) {
	started := p.Now()
	req, err := p.deployRequest(ctx, job)
	if err == nil && job.BeforeDeploy != nil {
		if err = job.BeforeDeploy(ctx); err != nil {
			err = fmt.Errorf("Blocking for deploy: Updating app: %w", err)
		}
	}
	if err != nil {
		stage := status.Stage{}.Fail("", err)
		out.Deploy = hidden(job, &stage)
		p.end(out.Deploy, started)
		return
	}
	inspect := req
	req.Manifest, req.Progress, req.Waiting = manifest, p.progress(job, out, started, report), job.Waiting
	res := p.Deploy.Deploy(ctx, req)
	out.Deploy, out.Kapp, out.Running = hidden(job, &res.Stage), res.Kapp, false
	p.end(out.Deploy, started)
	if req.Kapp.Inspect == nil || ctx.Err() != nil {
		return
	}
	started = p.Now()
	seen := p.Deploy.Inspect(ctx, inspect)
	out.Inspect = hidden(job, &seen.Stage)
	p.end(out.Inspect, started)
}

// deployRequest checks what can be checked before anything is changed.
func (p *Pipeline) deployRequest(ctx context.Context, job Job) (deploy.Request, error) {
	if len(job.Spec.Deploy) != 1 {
		return deploy.Request{}, errors.New("Expected exactly one deploy option")
	}
	kapp := job.Spec.Deploy[0].Kapp
	if kapp == nil {
		return deploy.Request{}, errors.New("Unsupported way to deploy")
	}
	target, err := p.Access.Resolve(ctx, job.access())
	if err != nil {
		return deploy.Request{}, fmt.Errorf("Preparing kapp: %w", err)
	}
	return deploy.Request{
		Name: job.Name, Suffix: job.Suffix, Target: deploy.Target(target), Kapp: *kapp, GlobalRawOptions: job.KappRawOptions,
	}, nil
}

// progress returns a callback that reports a running deploy.
func (p *Pipeline) progress(job Job, out *status.Outcome, started time.Time, report func(status.Outcome)) func(deploy.Progress) {
	base := *out
	return func(now deploy.Progress) {
		live := base
		live.Running = true
		live.Deploy = hidden(job, &status.Stage{Stdout: now.Stdout, Stderr: now.Stderr, StartedAt: started, EndedAt: p.Now()})
		live.Applying = now.Applying
		report(live)
	}
}

// hidden takes the secrets of the job out of what a stage says.
func hidden(job Job, s *status.Stage) *status.Stage {
	s.Stdout, s.Stderr, s.Err = job.hide.String(s.Stdout), job.hide.String(s.Stderr), job.hide.String(s.Err)
	return s
}

func (p *Pipeline) end(s *status.Stage, started time.Time) {
	s.StartedAt, s.EndedAt = started, p.Now()
}

func (p *Pipeline) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if p.ToolTimeout <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, p.ToolTimeout, fmt.Errorf("%w (%s)", ErrToolTimeout, p.ToolTimeout))
}
