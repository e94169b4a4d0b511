package e2e

import (
	"context"
	"crypto/md5"
	"encoding/base32"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	packaging "github.com/garboard-dev/garboard/pkg/apis/packaging/v1alpha1"
	"github.com/garboard-dev/garboard/test/testenv"
	"github.com/garboard-dev/garboard/test/testenv/controlplane"
)

func encodedName(name string) string {
	return strings.ToLower(base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString([]byte(name)))
}

func md5Hex(text string) string {
	sum := md5.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// manyPackages is a repository with 500 versions of packages; changed of them have
// another text.
func manyPackages(changed int) fstest.MapFS {
	tree := fstest.MapFS{}
	for i := range 500 {
		notes := "the same"
		if i < changed {
			notes = "another"
		}
		name := fmt.Sprintf("many%02d.example.com", i%50)
		tree[fmt.Sprintf("packages/%s/%d.yml", name, i)] = &fstest.MapFile{Data: []byte(pkgDoc(name, fmt.Sprintf("1.%d.0", i), ", releaseNotes: "+notes, "")), Mode: 0o644}
	}
	return tree
}

// TestRepositoryCost: 500 packages cost 500 requests, 7 changed ones 7, and a sync
// that finds nothing new no write and no download.
func TestRepositoryCost(t *testing.T) {
	t.Parallel()
	push := func(changed int) {
		t.Helper()
		if _, err := servers.Registry.PushBundle(t.Context(), "pkgr/many:latest", manyPackages(changed)); err != nil {
			t.Fatal(err)
		}
	}
	push(0)
	w := newRepositories(t)
	since := time.Now()
	w.repo("repo", fmt.Sprintf("syncPeriod: 30s\nfetch: {imgpkgBundle: {image: %q}}", servers.Registry.Host()+"/pkgr/many:latest"))
	w.succeeded("repo")
	if n := w.writes(since); n != 501 {
		t.Errorf("%d writes for 500 packages and the record", n)
	}
	if n := len(w.packages()); n != 500 {
		t.Errorf("%d packages are offered, want 500", n)
	}
	pulled, looked := w.pulls("pkgr/many")
	before, err := w.read(t.Context(), "repo")
	if err != nil {
		t.Fatal(err)
	}
	since = time.Now()
	testenv.Eventually(t, patience, func(context.Context) string {
		if _, now := w.pulls("pkgr/many"); now == looked {
			return "nobody looked for a new version"
		}
		return ""
	})
	if now, _ := w.pulls("pkgr/many"); now != pulled {
		t.Errorf("%d downloads of what has not changed", now-pulled)
	}
	status := env.AuditCount(t, controlplane.Filter{User: testenv.ControllerUser, Verb: "update", Resource: "packagerepositories", Namespace: w.ns, Since: since})
	if n := w.writes(since); n+status != 0 {
		t.Errorf("%d writes of packages and %d of the status while nothing changed", n, status)
	}
	since = time.Now()
	push(7)
	w.until("repo", func(r *packaging.PackageRepository) string {
		if r.Status.Fetch.UpdatedAt.Equal(&before.Status.Fetch.UpdatedAt) {
			return "the new version is not fetched"
		}
		return repoEnded(r, "ReconcileSucceeded")
	})
	if n := w.writes(since); n != 7 {
		t.Errorf("%d writes for 7 changed packages", n)
	}
	since = time.Now()
	w.delete("repo")
	w.gone("repo")
	w.wantOffers()
	if n := w.writes(since); n != 501 {
		t.Errorf("%d writes to delete 500 packages and the record", n)
	}
}

// pulls returns how many layers were downloaded of a repository in the registry, and
// how often somebody asked what a tag stands for.
func (w repositories) pulls(name string) (layers, tags int) {
	w.Helper()
	requests, err := servers.Registry.Requests()
	if err != nil {
		w.Fatal(err)
	}
	for _, r := range requests {
		switch {
		case strings.HasPrefix(r, "GET /v2/"+name+"/blobs/"):
			layers++
		case strings.HasPrefix(r, "HEAD /v2/"+name+"/manifests/latest"):
			tags++
		}
	}
	return layers, tags
}

// TestRepositoryDoesNotWaitForOthers: a source that hangs keeps nobody else waiting,
// and an edit ends the wait for it.
func TestRepositoryDoesNotWaitForOthers(t *testing.T) {
	t.Parallel()
	w := newRepositories(t)
	hang := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(func() { hang.CloseClientConnections(); hang.Close() })
	w.repo("slow", fmt.Sprintf("fetch: {http: {url: %q}}", hang.URL+"/never"))
	w.until("slow", func(r *packaging.PackageRepository) string {
		if r.Status.FriendlyDescription != "Reconciling" {
			return r.Status.FriendlyDescription
		}
		return ""
	})
	w.repo("quick", inlineRepository(pkgDoc("a.example.com", "1.0.0", "", "")))
	w.succeeded("quick")
	w.repo("slow", "fetch: {inline: {paths: {packages/a.yml: "+fmt.Sprintf("%q", pkgDoc("b.example.com", "1.0.0", "", ""))+"}}}")
	w.succeeded("slow")
	w.wantOffers("a.example.com.1.0.0", "quick", "b.example.com.1.0.0", "slow")
}
