package offer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/garboard-dev/garboard/pkg/access"
	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/deploy"
	"github.com/garboard-dev/garboard/pkg/repository"
	"github.com/garboard-dev/garboard/pkg/status"
	"github.com/garboard-dev/garboard/pkg/template"
	"github.com/garboard-dev/garboard/pkg/tool"
)

// Templater runs template steps; a *template.Templater is one.
type Templater interface {
	Template(ctx context.Context, ws template.Workspace, req template.Request) template.Result
}

// Run is one reconcile of a PackageRepository: the stages that differ from an App's,
// for a pipeline. Set the exported fields, hand it to the pipeline as templater,
// deployer and access, and read Report and Content when the pipeline is done.
type Run struct {
	Store     *Store
	Templater Templater
	// Namespace and Name are the repository's.
	Namespace, Name string
	// Bundle says that the repository is an imgpkg bundle, whose images may have been
	// relocated.
	Bundle bool
	// Known is what the latest run left.
	Known Versions
	// Now is the clock.
	Now func() time.Time

	// Content is what the template stage found, Report what the deploy stage did.
	Content repository.Content
	Report  Report
}

// folder is where the packages are in a repository.
const folder = "packages"

var errNoFolder = errors.New("Invalid package repository content: must contain 'packages/' directory but did not (hint: a folder that is empty, or a link to one, does not count)")

// Template reads the packages of a repository. Documents that cannot be used do not
// fail it: they are named in the stage's output, and the deploy stage fails for them
// after it offered all others.
func (r *Run) Template(ctx context.Context, ws template.Workspace, req template.Request) template.Result {
	files, err := ws.List(ctx, req.Root+"/"+folder, nil)
	if ctx.Err() == nil && (err != nil || len(files) == 0 || files[0] == req.Root+"/"+folder) {
		return template.Result{Stage: status.Stage{}.Fail("", errNoFolder)}
	}
	req.Steps = []v1alpha1.AppTemplate{{Ytt: &v1alpha1.AppTemplateYtt{IgnoreUnknownComments: true, Paths: []string{folder}}}}
	res := r.Templater.Template(ctx, ws, req)
	if res.Failed() {
		return res
	}
	if r.Content, err = repository.Filter(res.Output); err == nil && r.Bundle {
		var stage status.Stage
		if stage, err = r.relocate(ctx, ws, req.Root); stage.Failed() {
			return template.Result{Stage: stage}
		}
	}
	if err == nil && r.Content.Len() == 0 && len(r.Content.Problems) > 0 {
		err = errors.New("None of the packages can be used:\n" + lines(r.Content.Problems))
	}
	if err != nil {
		return template.Result{Stage: res.Fail("", err)}
	}
	if n := len(r.Content.Problems); n > 0 {
		res.Stderr += fmt.Sprintf("Left out %d of %d objects:\n%s", n, n+r.Content.Len(), lines(r.Content.Problems))
	}
	res.Output = nil // the content is what the deploy stage takes
	return res
}

func lines(problems []repository.Problem) string {
	var b strings.Builder
	for _, p := range problems {
		fmt.Fprintf(&b, "- %s\n", p)
	}
	return b.String()
}

// relocate has kbld replace the images of a bundle that was copied to another
// registry. In one that was not it would find nothing to replace.
func (r *Run) relocate(ctx context.Context, ws template.Workspace, root string) (status.Stage, error) {
	lock := root + "/.imgpkg/images.yml"
	files, err := ws.List(ctx, root, []string{"/.imgpkg/images.yml"})
	if err != nil || !slices.Contains(files, lock) {
		return status.Stage{}, err
	}
	res, err := ws.Run(ctx, tool.Command{Name: "ytt", Args: []string{"--ignore-unknown-comments", "-f", "./" + lock}})
	if stage := status.FromRun("Reading the bundle's images: ", res, err); stage.Failed() {
		return stage, nil
	}
	if relocated, err := repository.Relocated(res.Stdout); err != nil || !relocated {
		return status.Stage{}, err
	}
	stream, err := repository.Encode(r.Content)
	if err != nil {
		return status.Stage{}, err
	}
	res, err = ws.Run(ctx, tool.Command{Name: "kbld", Args: []string{"-f", "-", "-f", "./" + lock, "--build=false"}, Stdin: stream})
	if stage := status.FromRun("Templating dir: ", res, err); stage.Failed() {
		return stage, nil
	}
	problems := r.Content.Problems
	if r.Content, err = repository.Filter(res.Stdout); err == nil {
		r.Content.Problems = append(problems, r.Content.Problems...)
	}
	return status.Stage{}, err
}

// errEmpty is what kapp says about nothing to deploy.
var errEmpty = errors.New("Trying to apply empty set of resources will result in deletion of resources on cluster (hint: the repository holds no Package and no PackageMetadata)")

// Deploy offers the content of the template stage.
func (r *Run) Deploy(ctx context.Context, _ deploy.Request) deploy.Result {
	var stage status.Stage
	if r.Content.Len() == 0 {
		stage = stage.Fail(deploy.Deploying, errEmpty)
		return deploy.Result{Stage: stage}
	}
	label, err := r.Store.ensureRecord(ctx, r.Namespace, r.Name, r.Now())
	if err != nil {
		return deploy.Result{Stage: stage.Fail(deploy.Deploying, err)}
	}
	existing, err := r.Store.Current(ctx, r.Namespace, r.Known)
	if err != nil {
		return deploy.Result{Stage: stage.Fail(deploy.Deploying, err)}
	}
	owner := repository.Owner{Namespace: r.Namespace, Name: r.Name, Label: label}
	r.Report = r.Store.Apply(ctx, owner, repository.Plan(owner, existing, owner.Own(r.Content), r.Content.Problems))
	return deploy.Result{Stage: r.outcome(ctx, deploy.Deploying)}
}

// Delete withdraws everything that the repository offered.
func (r *Run) Delete(ctx context.Context, _ deploy.Request) deploy.Result {
	var stage status.Stage
	record, err := r.Store.record(ctx, r.Namespace, r.Name)
	if err != nil {
		return deploy.Result{Stage: stage.Fail(deploy.Deleting, err)}
	}
	owner := repository.Owner{Namespace: r.Namespace, Name: r.Name}
	if record != nil {
		// One that cannot be read names no label; what names its owner is found.
		owner.Label, _ = repository.ReadRecord(record)
	}
	existing, err := list(ctx, r.Store.Live, r.Namespace)
	if err != nil {
		return deploy.Result{Stage: stage.Fail(deploy.Deleting, err)}
	}
	r.Report = r.Store.Apply(ctx, owner, repository.Plan(owner, existing, nil, nil))
	stage = r.outcome(ctx, deploy.Deleting)
	if !stage.Failed() && record != nil {
		stage = stage.Fail(deploy.Deleting, r.Store.deleteRecord(ctx, record, owner.Label))
	}
	return deploy.Result{Stage: stage}
}

// Inspect is for Apps only.
func (r *Run) Inspect(context.Context, deploy.Request) deploy.Result { return deploy.Result{} }

// Resolve has nothing to resolve: a repository is offered with the controller's
// own rights, in its namespace only.
func (r *Run) Resolve(context.Context, access.Request) (access.Target, error) {
	return access.Target{}, nil
}

// Facts has none: packages are the same in every cluster.
func (r *Run) Facts(access.Request) template.Facts { return nil }

// outcome tells what was done, and fails for what was not.
func (r *Run) outcome(ctx context.Context, prefix string) status.Stage {
	n := r.Report.Counts
	stage := status.Stage{Stdout: fmt.Sprintf(
		"Packages and package metadata: %d created, %d updated, %d deleted, %d unchanged, %d left to other repositories\n",
		n[repository.Create], n[repository.Update], n[repository.Delete], n[repository.Keep], n[repository.Leave])}
	if err := ctx.Err(); err != nil {
		return stage.Fail(prefix, context.Cause(ctx))
	}
	bad := len(r.Content.Problems) + len(r.Report.Conflicts) + len(r.Report.Failures)
	if bad == 0 {
		stage.Stdout += "\nSucceeded"
		return stage
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d objects failed, all others are as they are to be:\n", bad, bad+n[repository.Create]+n[repository.Update]+n[repository.Delete]+n[repository.Keep]+n[repository.Leave])
	for _, c := range r.Report.Conflicts {
		fmt.Fprintf(&b, "- %s\n", c)
	}
	b.WriteString(lines(r.Content.Problems))
	b.WriteString(lines(r.Report.Failures))
	stage.Stderr = b.String()
	return stage.Fail(prefix, &tool.ExitError{Code: 1})
}
