package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/test/testenv/files"
	"github.com/garboard-dev/garboard/test/testenv/registry"
)

// again has the App reconciled once more, for a new generation, and returns it.
func (w world) again(name string) *v1alpha1.App {
	w.Helper()
	w.edit(name, func(a *v1alpha1.App) {
		a.Spec.NoopDelete = !a.Spec.NoopDelete
	})
	return w.succeeded(name)
}

// TestFetchWithoutNetwork: what is named by its digest is fetched once; then its
// registry may go away.
func TestFetchWithoutNetwork(t *testing.T) {
	t.Parallel()
	gone, err := registry.Start(t.Context(), registry.Options{BinDir: env.BinDir("dev"), ToolDir: env.BinDir("tools"), Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer gone.Close()
	image := must[string](t)(gone.PushImage(t.Context(), "cached/image:1", source("image")))
	bundle := must[string](t)(gone.PushBundle(t.Context(), "cached/bundle:1", source("bundle")))
	const rest = "template: [{ytt: {paths: [config]}}]\ndeploy: [{kapp: {}}]\n"
	specs := map[string]string{
		"image":  fmt.Sprintf("fetch: [{image: {url: %q}}]\n", image) + rest,
		"bundle": fmt.Sprintf("fetch: [{imgpkgBundle: {image: %q}}]\n", bundle) + rest,
	}
	worlds := map[string]world{}
	for name, spec := range specs {
		worlds[name] = newWorld(t)
		worlds[name].app(name, spec)
		worlds[name].succeeded(name)
	}
	gone.Close()
	for name := range specs {
		w := worlds[name]
		if lock := w.again(name).Status.Fetch.Stdout; !strings.Contains(lock, "@sha256:") {
			t.Errorf("%s: lock document %s", name, lock)
		}
		w.wantConfigMap("fetched", map[string]string{"from": name})
	}
	// Another App may not have it: it would have to ask the registry first.
	w := newWorld(t)
	w.app("other", specs["image"])
	if problem := contains(w.failed("other").Status.UsefulErrorMessage, "connection refused"); problem != "" {
		t.Error(problem)
	}
}

// TestFetchOnce: a file with its checksum and a commit are asked for once, a branch
// each time.
func TestFetchOnce(t *testing.T) {
	t.Parallel()
	archive, err := files.TarGz(source("http"))
	if err != nil {
		t.Fatal(err)
	}
	url := servers.Files.Put("cached/once.tgz", archive)
	commit := must[string](t)(servers.Git.Commit(t.Context(), "cached-commit", source("git"), "first"))
	must[string](t)(servers.Git.Commit(t.Context(), "cached-branch", source("git"), "first"))
	for name, c := range map[string]struct {
		spec  string
		count func() int
		more  bool
	}{
		"Checksum": {fmt.Sprintf("fetch: [{http: {url: %q, sha256: %s, subPath: config}}]\n", url, files.SHA256(archive)) + deployAll, func() int { return servers.Files.Count("/cached/once.tgz") }, false},
		"Commit":   {gitApp(servers.Git.RepoURL("cached-commit"), "ref: "+commit), func() int { return servers.Git.Count("/cached-commit.git/") }, false},
		"Branch":   {gitApp(servers.Git.RepoURL("cached-branch"), "ref: origin/main"), func() int { return servers.Git.Count("/cached-branch.git/") }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.app("once", c.spec)
			w.succeeded("once")
			first := c.count()
			w.again("once")
			w.configMap("fetched")
			if more := c.count() - first; first == 0 || (more > 0) != c.more {
				t.Errorf("%d requests, and %d more", first, more)
			}
		})
	}
}
