// Package fetch brings the sources of an App into its workspace. It turns them into
// one configuration for vendir, which the sidecar runs; what vendir fetched is
// never opened here. Files that are in the App, its Secrets and ConfigMaps alone
// need no vendir.
package fetch

import (
	"context"
	"encoding/json"
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
	Remove(ctx context.Context, paths []string) error
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

// Fetch fetches into ws, with at most one run of vendir. All failures are in the result's stage; what it
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
	c := newCollector(f.objects, req.Namespace, hide)
	for i, src := range req.Sources {
		if err := c.add(ctx, i, src); err != nil {
			return status.Stage{}.Fail("Fetching: ", err)
		}
	}
	if files, ok := c.onlyFiles(req.Sources); ok {
		return put(ctx, ws, files, req.Sources)
	}
	stage := c.sync(ctx, ws, req)
	if stage.Failed() {
		stage.Stderr = hint(stage.Stderr, c.placeholders)
		return stage
	}
	stage.Stderr += warnings(req.Sources, c.given)
	return stage
}

// sync runs vendir, and unpack for what it downloaded.
func (c *collector) sync(ctx context.Context, ws Workspace, req Request) status.Stage {
	const prefix = "Fetching resources: "
	skipTLS := req.SkipTLS
	if skipTLS == nil {
		skipTLS = func(string) bool { return false }
	}
	input, err := encode(c.documents, config(req.Sources, func(i int) string { return c.given[i].name }, skipTLS))
	if err != nil {
		return status.Stage{}.Fail("Fetching: ", err)
	}
	home, err := gitHome(req.Sources, c.given)
	if err != nil {
		return status.Stage{}.Fail("Fetching: ", err)
	}
	if err := ws.Put(ctx, home.files); err != nil {
		return status.Stage{}.Fail(prefix, err)
	}
	run, err := ws.Run(ctx, command(input, home, cacheable(req.Sources)))
	if len(home.files) > 0 && err == nil {
		// Later tools have the same home and no business with it.
		err = ws.Remove(ctx, paths(home.files))
	}
	stage := status.FromRun(prefix, run, err)
	list := downloads(req.Sources)
	if stage.Failed() || len(list) == 0 {
		return stage
	}
	again, err := ws.Run(ctx, tool.Command{Name: "unpack", Stdin: list, Dir: dir})
	next := status.FromRun(prefix, again, err)
	next.Stdout = stage.Stdout
	return next
}

// command is the one run of vendir. Its input has the credentials: arguments and
// environment of a process can be seen.
func command(input []byte, h home, cache tool.Cache) tool.Command {
	c := tool.Command{
		Name: "vendir", Args: []string{"sync", "-f", "-", "--lock-file", "/dev/null"}, Stdin: input, Dir: dir, Cache: cache,
		Env: []string{
			// Go's readers refuse names in layers and charts that lead outside.
			"GODEBUG=tarinsecurepath=0,zipinsecurepath=0",
			// A submodule may name any address.
			"GIT_ALLOW_PROTOCOL=http:https:ssh",
		},
	}
	if len(h.cas) > 0 {
		c.Env = append(c.Env, "GARBOARD_GIT_CAS="+strings.Join(h.cas, " "))
	}
	return c
}

// download is the part of unpack's input for one source.
type download struct {
	Dir, Name string
	SubPath   string `json:",omitempty"`
}

// downloads is unpack's input: vendir leaves what it downloaded as it is, as its own
// way to unpack keeps no links and does not notice entries that are there twice. nil
// means that there is nothing to unpack.
func downloads(sources []v1alpha1.AppFetch) []byte {
	var list []download
	for i, src := range sources {
		if !isHTTP(src) {
			continue
		}
		name := "content"
		if u, err := url.Parse(src.HTTP.URL); err == nil && u.Path != "" && !strings.HasSuffix(u.Path, "/") {
			name = path.Base(u.Path)
		}
		list = append(list, download{Dir: folder(i, src), Name: name, SubPath: src.HTTP.SubPath})
	}
	if list == nil {
		return nil
	}
	text, err := json.Marshal(list)
	if err != nil {
		panic(err) // strings can be encoded
	}
	return text
}

func isHTTP(src v1alpha1.AppFetch) bool {
	return src.HTTP != nil && src.Inline == nil && src.Image == nil
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
