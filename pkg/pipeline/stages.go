// Package pipeline runs an App's stages in their order: fetch, template, deploy,
// inspect; or its delete. The order is a contract with users: a stage that fails
// ends the run. What happened comes back as a status.Outcome, so that whoever
// called decides nothing from errors.
package pipeline

import (
	"context"
	"time"

	"github.com/garboard-dev/garboard/pkg/access"
	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/deploy"
	"github.com/garboard-dev/garboard/pkg/fetch"
	"github.com/garboard-dev/garboard/pkg/template"
	"github.com/garboard-dev/garboard/pkg/tool/budget"
	"github.com/garboard-dev/garboard/pkg/tool/redact"
)

// Workspace is a work folder in the sidecar, which alone reads and runs what is in it.
type Workspace interface {
	fetch.Workspace
	template.Workspace
	Close(ctx context.Context) error
}

// Workspaces opens work folders. owner names the object for caches of its own.
type Workspaces interface {
	Open(ctx context.Context, owner string) (Workspace, error)
}

// Fetcher fetches sources into a work folder.
type Fetcher interface {
	Fetch(ctx context.Context, ws fetch.Workspace, req fetch.Request) fetch.Result
}

// Templater turns what was fetched into manifests.
type Templater interface {
	Template(ctx context.Context, ws template.Workspace, req template.Request) template.Result
}

// Deployer changes a cluster.
type Deployer interface {
	Deploy(ctx context.Context, req deploy.Request) deploy.Result
	Delete(ctx context.Context, req deploy.Request) deploy.Result
	Inspect(ctx context.Context, req deploy.Request) deploy.Result
}

// Access turns the identity that an App names into clients for its cluster.
type Access interface {
	Resolve(ctx context.Context, req access.Request) (access.Target, error)
	Facts(req access.Request) template.Facts
}

// Pipeline holds the stages. It is safe for concurrent use with different jobs.
type Pipeline struct {
	Workspaces Workspaces
	Fetch      Fetcher
	Template   Templater
	Deploy     Deployer
	Access     Access
	// Now is the clock for the times in status.
	Now func() time.Time
	// ToolTimeout bounds fetching and, separately, templating; 0 means no bound.
	ToolTimeout time.Duration
	// Memory bounds the large manifests that are worked on at once; nil does not.
	Memory *budget.Budget
}

// Job is what a pipeline runs for: one generation of one object.
type Job struct {
	UID, Name, Namespace string
	Generation           int64
	Labels, Annotations  map[string]string
	Spec                 v1alpha1.AppSpec
	// Suffix ends the name of kapp's app: .app or .pkgr.
	Suffix string
	// KappRawOptions are the administrator's, for deploys.
	KappRawOptions []string
	// SkipTLS says whether to trust a registry or git host without its certificate.
	SkipTLS func(authority string) bool
	// BeforeDeploy runs before anything is changed in a cluster: it stores the
	// finalizer. nil does nothing.
	BeforeDeploy func(ctx context.Context) error
	// Deployed says whether an earlier reconcile may have deployed objects. It is
	// asked only by a delete that cannot reach the cluster.
	Deployed func(ctx context.Context) bool
	// Waiting is told when the deploy only waits for the cluster, and when it goes on
	// to change it; see deploy.Request. nil is told nothing.
	Waiting func(bool)
	// Doomed says that the object's own namespace is being deleted, so that an identity
	// that is gone from it cannot come back. nil: it is not. Asked like Deployed.
	Doomed func(ctx context.Context) bool
	// SkipDelete says that nothing is to be deleted although objects exist.
	SkipDelete bool

	// hide knows the secrets that the stages so far used: what an earlier one read
	// a later one may print, such as an API server that refuses a value.
	hide *redact.Redactor
	// memory is held for the manifest, from its templating to the end of its deploy.
	memory *budget.Hold
}

func (j Job) access() access.Request {
	return access.Request{
		Namespace: j.Namespace, ServiceAccountName: j.Spec.ServiceAccountName,
		Cluster: j.Spec.Cluster, DefaultNamespace: j.Spec.DefaultNamespace,
	}
}
