// Package template turns what was fetched into the objects to deploy. It runs the
// steps of an App in order, each one tool in the sidecar; files that the tools read
// and write stay in the workspace.
package template

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/status"
	"github.com/garboard-dev/garboard/pkg/tool"
	"github.com/garboard-dev/garboard/pkg/tool/budget"
	"github.com/garboard-dev/garboard/pkg/tool/localpath"
	"github.com/garboard-dev/garboard/pkg/tool/redact"
)

// Workspace is where the tools run; paths are relative to it.
type Workspace interface {
	Put(ctx context.Context, files []tool.File) error
	Run(ctx context.Context, c tool.Command) (tool.Result, error)
	List(ctx context.Context, dir string, suffixes []string) ([]string, error)
	// Find is List for files in whose first MiB pattern matches.
	Find(ctx context.Context, dir string, suffixes []string, pattern string) ([]string, error)
	Remove(ctx context.Context, paths []string) error
}

// Facts are what templates may ask about the cluster and the controller.
type Facts interface {
	// KubernetesVersion is the version of the cluster that is deployed to, without
	// a leading v.
	KubernetesVersion(ctx context.Context) (string, error)
	// KubernetesAPIs are the group versions that it serves, such as apps/v1.
	KubernetesAPIs(ctx context.Context) ([]string, error)
	ControllerVersion() string
}

// Request is what to template.
type Request struct {
	// Name, Namespace, UID, Labels and Annotations are the App's. Secrets and
	// ConfigMaps are read from Namespace.
	Name, Namespace, UID string
	Labels, Annotations  map[string]string
	Steps                []v1alpha1.AppTemplate
	// Root is the folder of the fetched files, relative to the workspace.
	Root  string
	Facts Facts
	// Hide learns the secrets of the steps, for what is said later in the same
	// reconcile; nil keeps them in here.
	Hide *redact.Redactor
	// Memory is what large outputs count against, so that templating waits for room;
	// nil is without a limit. It holds room for Result.Output until its owner
	// releases it.
	Memory *budget.Hold
}

// Result is the outcome of templating: the stage is that of the last step that ran.
// Its Stdout is empty.
type Result struct {
	status.Stage
	// Output is what the last step printed: YAML to deploy. Empty on failure.
	Output []byte
}

// Templater templates. It is safe for concurrent use.
type Templater struct{ objects Objects }

// New returns a Templater that reads Secrets and ConfigMaps from objects.
func New(objects Objects) *Templater { return &Templater{objects: objects} }

// Template runs the steps in ws until one fails. All failures are in the result's
// stage; what it says holds none of the secrets that the steps used.
func (t *Templater) Template(ctx context.Context, ws Workspace, req Request) Result {
	if len(req.Steps) == 0 {
		return Result{Stage: status.Stage{}.Fail("", errors.New("Expected at least one template option"))}
	}
	r := &run{ws: ws, req: req, objects: newObjects(t.objects, req.Namespace, req.Hide)}
	var res Result
	for i, step := range req.Steps {
		out := r.step(ctx, i, step)
		res = Result{Stage: out.stage}
		res.Stderr, res.Err = r.objects.hide.String(res.Stderr), r.objects.hide.String(res.Err)
		if res.Failed() {
			return res
		}
		if out.streams {
			res.Output = out.stdout
			r.stream, r.streaming = out.stdout, true
			req.Memory.Shrink(len(out.stdout))
		}
	}
	return res
}

// run is the state of one Template.
type run struct {
	ws      Workspace
	req     Request
	objects *objects
	facts   facts
	// stream is what the last step printed, if streaming: from then on steps read
	// it instead of the root, unless they name paths.
	stream    []byte
	streaming bool
}

// outcome is what came of a step.
type outcome struct {
	stage status.Stage
	// stdout is the output for the next step, if the step streams. One that does
	// not has changed files in the root.
	stdout  []byte
	streams bool
}

func failed(prefix string, err error) outcome {
	return outcome{stage: status.Stage{}.Fail(prefix, err)}
}

// step runs step i. The order of the cases decides when several members are set.
func (r *run) step(ctx context.Context, i int, step v1alpha1.AppTemplate) outcome {
	switch {
	case step.Ytt != nil:
		return r.ytt(ctx, i, *step.Ytt)
	case step.Kbld != nil:
		return r.kbld(ctx, *step.Kbld)
	case step.HelmTemplate != nil:
		return r.helm(ctx, i, *step.HelmTemplate)
	case step.Kustomize != nil:
		return r.kustomize(ctx, *step.Kustomize)
	case step.Jsonnet != nil:
		return r.jsonnet(ctx, i, *step.Jsonnet)
	case step.Sops != nil:
		return r.sops(ctx, i, *step.Sops)
	case step.Cue != nil:
		return r.cue(ctx, i, *step.Cue)
	}
	return failed("", errors.New("Unsupported way to template"))
}

// run runs the tool of a step that streams.
func (r *run) run(ctx context.Context, prefix string, c tool.Command) outcome {
	for _, a := range c.Args {
		if strings.ContainsRune(a, 0) {
			return failed(prefix, errors.New("Invalid text: it has a NUL character"))
		}
	}
	c.Admit = r.req.Memory.Resize
	res, err := r.ws.Run(ctx, c)
	stage := status.FromRun(prefix, res, err)
	stage.Stdout = ""
	return outcome{stage: stage, stdout: res.Stdout, streams: true}
}

var errNoStream = errors.New("Templating stream is not supported")

// input returns what a step reads: args for its paths, and the stream if "-" is
// one of them or of values. form makes the argument for a path in the workspace.
func (r *run) input(paths, values []string, form func(string) (string, error)) (args []string, stdin []byte, err error) {
	if len(paths) == 0 {
		paths = []string{"."}
		if r.streaming {
			paths = []string{"-"}
		}
	}
	for _, p := range paths {
		arg := "-"
		if p != "-" {
			if arg, err = r.below(p); err == nil {
				arg, err = form(arg)
			}
			if err != nil {
				return nil, nil, fmt.Errorf("Checking path: %w", err)
			}
		} else if !r.streaming {
			return nil, nil, errors.New("Expected stdin to be available when using it as path, but was not")
		}
		args = append(args, arg)
	}
	for _, arg := range append(args, values...) {
		if arg == "-" {
			stdin = r.stream
		}
	}
	return args, stdin, nil
}

// below returns user path p, which is relative to the root, as a path of the
// workspace that no tool takes for an option.
func (r *run) below(p string) (string, error) {
	clean, err := localpath.Join(p)
	if err != nil {
		return "", err
	}
	return "./" + path.Join(r.req.Root, clean), nil
}

// objects reads what steps refer to, each object once, and feeds the redactor.
type objects struct {
	from      Objects
	namespace string
	read      map[string]map[string][]byte
	hide      *redact.Redactor
}

func newObjects(from Objects, namespace string, hide *redact.Redactor) *objects {
	if hide == nil {
		hide = &redact.Redactor{}
	}
	return &objects{from: from, namespace: namespace, read: map[string]map[string][]byte{}, hide: hide}
}
