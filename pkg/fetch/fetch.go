// Package fetch brings the sources of an App into its workspace. It turns them into
// one configuration for vendir, which the sidecar runs; what vendir fetched is
// never opened here.
package fetch

import (
	"context"
	"fmt"
	"net/url"
	"path"
	"strings"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/status"
	"github.com/garboard-dev/garboard/pkg/tool"
	"github.com/garboard-dev/garboard/pkg/tool/redact"
)

// Workspace is where the tools run; paths are relative to it. It has an empty
// folder src when fetching starts.
type Workspace interface {
	Put(ctx context.Context, files []tool.File) error
	Run(ctx context.Context, c tool.Command) (tool.Result, error)
	List(ctx context.Context, dir string, suffixes []string) ([]string, error)
}

// dir is where vendir runs and each source lands.
const dir = "src"

// Request is what to fetch.
type Request struct {
	// Namespace is that of the Secrets and ConfigMaps.
	Namespace string
	Sources   []v1alpha1.AppFetch
	// SkipTLS says whether certificates of an authority, host or host:port, are
	// not to be verified; nil verifies all.
	SkipTLS func(authority string) bool
	// Hide learns the secrets of the fetch, for what is said later in the same
	// reconcile; nil keeps them in here.
	Hide *redact.Redactor
}

// Result is the outcome of a fetch.
type Result struct {
	status.Stage
	// Root is the root for templating, relative to the workspace: the only source
	// if it has no path of its own, else the folder of all sources.
	Root string
}

// Fetcher fetches. It is safe for concurrent use.
type Fetcher struct{ objects Objects }

// New returns a Fetcher that reads Secrets and ConfigMaps from objects.
func New(objects Objects) *Fetcher { return &Fetcher{objects: objects} }

// Fetch runs vendir once in ws. All failures are in the result's stage; what it
// says holds no secret of the fetch. Nothing is retried: that is the reconciler's
// to do, which does not hold a worker while it waits.
func (f *Fetcher) Fetch(ctx context.Context, ws Workspace, req Request) Result {
	hide := req.Hide
	if hide == nil {
		hide = &redact.Redactor{}
	}
	res := Result{Stage: f.fetch(ctx, ws, req, hide), Root: root(req.Sources)}
	res.Stdout, res.Stderr, res.Err = hide.String(res.Stdout), hide.String(res.Stderr), hide.String(res.Err)
	return res
}

func root(sources []v1alpha1.AppFetch) string {
	if len(sources) == 1 && sources[0].Path == "" {
		return dir + "/0"
	}
	return dir
}

func (f *Fetcher) fetch(ctx context.Context, ws Workspace, req Request, hide *redact.Redactor) status.Stage {
	for _, src := range req.Sources {
		hideAddresses(hide, src)
	}
	if err := validate(req.Sources); err != nil {
		return status.Stage{}.Fail("", err)
	}
	input, err := f.input(ctx, req, hide)
	if err != nil {
		return status.Stage{}.Fail("Fetching: ", err)
	}
	run, err := ws.Run(ctx, command(input))
	stage := status.FromRun("Fetching resources: ", run, err)
	if stage.Failed() {
		stage.Stderr = hint(stage.Stderr)
		return stage
	}
	return stage.Fail("Fetching resources: ", unpacked(ctx, ws, req.Sources))
}

// command is the one run of vendir. Credentials are in its input only, never in
// arguments, environment or files.
func command(input []byte) tool.Command {
	return tool.Command{
		Name: "vendir", Args: []string{"sync", "-f", "-", "--lock-file", "/dev/null"}, Stdin: input, Dir: dir,
		Env: []string{
			// vendir joins the names in an archive to its folder unchecked; with this
			// Go's readers refuse names that lead outside.
			"GODEBUG=tarinsecurepath=0,zipinsecurepath=0",
			// A submodule may name any address.
			"GIT_ALLOW_PROTOCOL=http:https:ssh",
		},
	}
}

func (f *Fetcher) input(ctx context.Context, req Request, hide *redact.Redactor) ([]byte, error) {
	c := newCollector(f.objects, req.Namespace, hide)
	names := make([]string, len(req.Sources))
	for i, src := range req.Sources {
		name, err := c.source(ctx, src)
		if err != nil {
			return nil, err
		}
		names[i] = name
	}
	skipTLS := req.SkipTLS
	if skipTLS == nil {
		skipTLS = func(string) bool { return false }
	}
	return encode(c.documents, config(req.Sources, func(i int) string { return names[i] }, skipTLS))
}

// unpacked fails for an archive that vendir left as it was. vendir does that when
// it meets a link, a device or a name that leads outside, after it unpacked what
// came before: templating would go on with a part of the files.
func unpacked(ctx context.Context, ws Workspace, sources []v1alpha1.AppFetch) error {
	for i, src := range sources {
		if src.HTTP == nil || src.Inline != nil || src.Image != nil {
			continue
		}
		u, err := url.Parse(src.HTTP.URL)
		if err != nil || !archive(path.Base(u.Path)) {
			continue
		}
		name := path.Base(u.Path)
		at := path.Join(dir, folder(i, src))
		found, err := ws.List(ctx, at, []string{name})
		if err != nil {
			return fmt.Errorf("Checking source %d: %w", i, err)
		}
		for _, file := range found {
			if file == path.Join(at, name) {
				return fmt.Errorf("Archive '%s' of source %d could not be unpacked (hint: it is damaged, or holds links, devices or paths that lead outside)", name, i)
			}
		}
	}
	return nil
}

func archive(name string) bool {
	for _, suffix := range []string{".tgz", ".tar.gz", ".tar", ".zip"} {
		if strings.HasSuffix(strings.ToLower(name), suffix) {
			return true
		}
	}
	return false
}

// hideAddresses hides the passwords in addresses, also those that vendir takes apart.
func hideAddresses(hide *redact.Redactor, src v1alpha1.AppFetch) {
	if src.HTTP != nil {
		hide.AddURL(src.HTTP.URL)
	}
	if src.Git != nil {
		hide.AddURL(src.Git.URL)
	}
	if src.HelmChart != nil {
		hide.AddURL(src.HelmChart.Name)
		if src.HelmChart.Repository != nil {
			hide.AddURL(src.HelmChart.Repository.URL)
		}
	}
}

// untrusted are the words of Go, git and curl for a certificate of an unknown
// authority.
var untrusted = []string{
	"x509: certificate signed by unknown authority",
	"server certificate verification failed",
	"unable to get local issuer certificate",
	"self-signed certificate", "self signed certificate",
}

const (
	caHint  = "(hint: The CA Certificate from URL is unknown/invalid. Add valid CA certificate to the kapp-controller configuration to reconcile successfully)"
	caWhere = "(hint: the configuration is the Secret kapp-controller-config in the controller's namespace, key caCerts)"
)

// hint says how to make a certificate trusted, below stderr.
func hint(stderr string) string {
	for _, words := range untrusted {
		if strings.Contains(stderr, words) {
			return strings.TrimSuffix(stderr, "\n") + "\n" + caHint + "\n" + caWhere + "\n"
		}
	}
	return stderr
}
