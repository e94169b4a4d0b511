package e2e

import (
	"context"
	"encoding/base32"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	internalpackaging "github.com/garboard-dev/garboard/pkg/apis/internalpackaging/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	packaging "github.com/garboard-dev/garboard/pkg/apis/packaging/v1alpha1"
	"github.com/garboard-dev/garboard/test/testenv"
	"github.com/garboard-dev/garboard/test/testenv/controlplane"
	"github.com/garboard-dev/garboard/test/testenv/files"
)

// repositories is a world with PackageRepositories in it.
type repositories struct{ world }

func newRepositories(t testing.TB) repositories {
	t.Helper()
	return repositories{world{t, env.Namespace(t)}}
}

// pkgDoc is a Package in a repository; extra is put into its spec, meta into its
// metadata, each beginning with a comma.
func pkgDoc(name, version, extra, meta string) string {
	return fmt.Sprintf("---\napiVersion: data.packaging.carvel.dev/v1alpha1\nkind: Package\nmetadata: {name: %[1]s.%[2]s%[4]s}\nspec: {refName: %[1]s, version: %[2]s, template: {spec: {}}%[3]s}\n", name, version, extra, meta)
}

func metaDoc(name string) string {
	return fmt.Sprintf("---\napiVersion: data.packaging.carvel.dev/v1alpha1\nkind: PackageMetadata\nmetadata: {name: %s}\nspec: {displayName: Shown}\n", name)
}

// inlineRepository is the fetch of a repository whose documents are in itself.
func inlineRepository(docs ...string) string {
	return fmt.Sprintf("fetch: {inline: {paths: {packages/all.yml: %q}}}", strings.Join(docs, ""))
}

// repo applies a PackageRepository; spec is its YAML.
func (w repositories) repo(name, spec string) {
	w.Helper()
	w.apply(fmt.Sprintf("apiVersion: packaging.carvel.dev/v1alpha1\nkind: PackageRepository\nmetadata: {name: %q}\nspec:\n%s", name, indent(spec)))
}

func (w repositories) read(ctx context.Context, name string) (*packaging.PackageRepository, error) {
	r := &packaging.PackageRepository{}
	return r, kube.Get(ctx, client.ObjectKey{Namespace: w.ns, Name: name}, r)
}

// until waits for a repository that check accepts by returning "".
func (w repositories) until(name string, check func(*packaging.PackageRepository) string) *packaging.PackageRepository {
	w.Helper()
	var r *packaging.PackageRepository
	testenv.Eventually(w, patience, func(ctx context.Context) (problem string) {
		var err error
		if r, err = w.read(ctx, name); err != nil {
			return err.Error()
		}
		return check(r)
	})
	return r
}

func repoEnded(r *packaging.PackageRepository, want v1alpha1.ConditionType) string {
	return endedAs(r.Generation, r.Status.GenericStatus, want)
}

func (w repositories) succeeded(name string) *packaging.PackageRepository {
	w.Helper()
	return w.until(name, func(r *packaging.PackageRepository) string { return repoEnded(r, v1alpha1.ReconcileSucceeded) })
}

func (w repositories) failed(name string) *packaging.PackageRepository {
	w.Helper()
	return w.until(name, func(r *packaging.PackageRepository) string { return repoEnded(r, v1alpha1.ReconcileFailed) })
}

// edit changes a repository as a user does, on the newest version.
func (w repositories) edit(name string, change func(*packaging.PackageRepository)) {
	w.Helper()
	testenv.Eventually(w, patience, func(ctx context.Context) string {
		r, err := w.read(ctx, name)
		if err == nil {
			change(r)
			err = kube.Update(ctx, r)
		}
		if apierrors.IsConflict(err) {
			return err.Error()
		}
		if err != nil {
			w.Fatal(err)
		}
		return ""
	})
}

func (w repositories) delete(name string) {
	w.Helper()
	r := &packaging.PackageRepository{}
	r.Namespace, r.Name = w.ns, name
	if err := kube.Delete(w.Context(), r); err != nil {
		w.Fatal(err)
	}
}

func (w repositories) gone(name string) {
	w.Helper()
	testenv.Eventually(w, patience, func(ctx context.Context) string {
		r, err := w.read(ctx, name)
		if apierrors.IsNotFound(err) {
			return ""
		}
		return fmt.Sprintf("%s is still there: %v %+v %s", name, err, r.Status.Conditions, r.Status.UsefulErrorMessage)
	})
}

func (w repositories) packages() []internalpackaging.InternalPackage {
	w.Helper()
	var list internalpackaging.InternalPackageList
	if err := kube.List(w.Context(), &list, client.InNamespace(w.ns)); err != nil {
		w.Fatal(err)
	}
	return list.Items
}

// offers returns what the namespace offers, by name: packages as users see them and
// metadata, each with the repository that it is from.
func (w repositories) offers() map[string]string {
	w.Helper()
	out := map[string]string{}
	for _, p := range w.packages() {
		name, err := base32.HexEncoding.WithPadding(base32.NoPadding).DecodeString(strings.ToUpper(p.Name))
		if err != nil {
			w.Fatal(err)
		}
		out[string(name)] = strings.TrimPrefix(p.Annotations["packaging.carvel.dev/package-repository-ref"], w.ns+"/")
	}
	var list internalpackaging.InternalPackageMetadataList
	if err := kube.List(w.Context(), &list, client.InNamespace(w.ns)); err != nil {
		w.Fatal(err)
	}
	for _, m := range list.Items {
		out[m.Name] = strings.TrimPrefix(m.Annotations["packaging.carvel.dev/package-repository-ref"], w.ns+"/")
	}
	return out
}

// wantOffers compares with pairs of a name and its repository.
func (w repositories) wantOffers(pairs ...string) {
	w.Helper()
	want := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		want[pairs[i]] = pairs[i+1]
	}
	if diff := cmp.Diff(want, w.offers()); diff != "" {
		w.Errorf("what is offered:\n%s", diff)
	}
}

// writes counts the controller's writes to packages in the namespace.
func (w repositories) writes(since time.Time) (n int) {
	w.Helper()
	for _, resource := range []string{"internalpackages", "internalpackagemetadatas", "configmaps"} {
		for _, verb := range []string{"create", "update", "patch", "delete", "deletecollection"} {
			n += env.AuditCount(w, controlplane.Filter{User: testenv.ControllerUser, Verb: verb, Resource: resource, Namespace: w.ns, Since: since})
		}
	}
	return n
}

// repositoryTree is a repository with a version of a package from each source, and
// what is not to be offered.
func repositoryTree(from string) fstest.MapFS {
	tree := fstest.MapFS{}
	for name, text := range map[string]string{
		"packages/fetched.example.com/1.0.0.yml":    pkgDoc("fetched.example.com", "1.0.0", ", releaseNotes: from "+from, ""),
		"packages/fetched.example.com/metadata.yml": metaDoc("fetched.example.com"),
		"packages/other.yml":                        "# an unknown comment\n" + strings.Replace(cm("not-offered"), "---\n", "", 1),
		"other/2.0.0.yml":                           pkgDoc("fetched.example.com", "2.0.0", "", ""),
	} {
		tree[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	return tree
}

// TestRepositoryFetch: each source that a repository may have, from a real server,
// open and with credentials.
func TestRepositoryFetch(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	check := func(_ string, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(servers.Registry.PushImage(ctx, "pkgr/image:1.0.0", repositoryTree("image")))
	check(servers.Registry.PushBundle(ctx, "pkgr/bundle:1.0.0", repositoryTree("bundle")))
	check(servers.Registry.PushBundle(ctx, "pkgr/bundle:1.1.0-rc.1", repositoryTree("candidate")))
	check(servers.PrivateRegistry.PushBundle(ctx, "pkgr/bundle:1.0.0", repositoryTree("private")))
	check(servers.PrivateRegistry.PushImage(ctx, "pkgr/image:1.0.0", repositoryTree("private")))
	commit, err := servers.Git.Commit(ctx, "pkgr", repositoryTree("git"), "first")
	check(commit, err)
	check("", servers.Git.Tag(ctx, "pkgr", "v1.2.0", commit, "v1.2.0"))
	archive, err := files.TarGz(repositoryTree("http"))
	check("", err)
	servers.Files.Put("pkgr.tar.gz", archive)

	open, private := servers.Registry.Host(), servers.PrivateRegistry.Host()
	cases := map[string]struct{ fetch, from string }{
		"Inline":          {"inline: {pathsFrom: [{secretRef: {name: files, directoryPath: packages}}]}", "inline"},
		"Image":           {fmt.Sprintf("image: {url: %q}", open+"/pkgr/image:1.0.0"), "image"},
		"ImageAuth":       {fmt.Sprintf("image: {url: %q, secretRef: {name: registry}}", private+"/pkgr/image:1.0.0"), "private"},
		"Bundle":          {fmt.Sprintf("imgpkgBundle: {image: %q}", open+"/pkgr/bundle:1.0.0"), "bundle"},
		"BundleAuth":      {fmt.Sprintf("imgpkgBundle: {image: %q, secretRef: {name: dockerconfig}}", private+"/pkgr/bundle:1.0.0"), "private"},
		"BundleSelection": {fmt.Sprintf("imgpkgBundle: {image: %q, tagSelection: {semver: {constraints: '>=1.0.0', prereleases: {}}}}", open+"/pkgr/bundle"), "candidate"},
		"HTTP":            {fmt.Sprintf("http: {url: %q, sha256: %s}", servers.Files.URL()+"/pkgr.tar.gz", files.SHA256(archive)), "http"},
		"Git":             {fmt.Sprintf("git: {url: %q, ref: origin/main}", servers.Git.RepoURL("pkgr")), "git"},
		"GitSelection":    {fmt.Sprintf("git: {url: %q, refSelection: {semver: {}}}", servers.Git.RepoURL("pkgr")), "git"},
		"GitAuth":         {fmt.Sprintf("git: {url: %q, ref: origin/main, secretRef: {name: ssh}}", servers.Git.SSHURL("pkgr")), "git"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRepositories(t)
			w.apply(credentials())
			w.apply(fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {name: files}, stringData: {a.yml: %q}}", pkgDoc("fetched.example.com", "1.0.0", ", releaseNotes: from inline", "")+metaDoc("fetched.example.com")))
			w.repo("repo", "fetch: {"+c.fetch+"}")
			r := w.succeeded("repo")
			w.wantOffers("fetched.example.com.1.0.0", "repo", "fetched.example.com", "repo")
			if got := w.packages()[0].Spec.ReleaseNotes; got != "from "+c.from {
				t.Errorf("release notes %q, want those from %s", got, c.from)
			}
			checkSuccess(t, r)
		})
	}
}

// checkSuccess: the shapes that clients read, after the first reconcile.
func checkSuccess(t *testing.T, r *packaging.PackageRepository) {
	t.Helper()
	s := r.Status
	if s.FriendlyDescription != "Reconcile succeeded" || s.UsefulErrorMessage != "" || s.ConsecutiveReconcileSuccesses != 1 || s.ConsecutiveReconcileFailures != 0 {
		t.Errorf("success reads %q %q %d %d", s.FriendlyDescription, s.UsefulErrorMessage, s.ConsecutiveReconcileSuccesses, s.ConsecutiveReconcileFailures)
	}
	if s.Fetch == nil || s.Template == nil || s.Deploy == nil {
		t.Fatalf("a stage is missing: %+v", s)
	}
	if s.Fetch.ExitCode != 0 || s.Template.ExitCode != 0 || s.Deploy.ExitCode != 0 || !s.Deploy.Finished || s.Deploy.KappDeployStatus != nil ||
		!strings.Contains(s.Fetch.Stdout, "kind: LockConfig") || !strings.HasSuffix(s.Deploy.Stdout, "Succeeded") || s.Fetch.StartedAt.IsZero() || s.Deploy.UpdatedAt.IsZero() {
		t.Errorf("stages: %+v\n%+v\n%+v", s.Fetch, s.Template, s.Deploy)
	}
	if !slices.Contains(r.Finalizers, "finalizers.packagerepository.packaging.carvel.dev/delete") {
		t.Errorf("finalizers %v", r.Finalizers)
	}
}

// TestRepositoryTLS: a registry whose authority an administrator has to name. It is not
// parallel: it changes the configuration of the shared controller.
func TestRepositoryTLS(t *testing.T) {
	if _, err := servers.TLSRegistry.PushBundle(t.Context(), "pkgr/bundle:1.0.0", repositoryTree("tls")); err != nil {
		t.Fatal(err)
	}
	w := newRepositories(t)
	w.repo("repo", fmt.Sprintf("syncPeriod: 30s\nfetch: {imgpkgBundle: {image: %q}}", servers.TLSRegistry.Host()+"/pkgr/bundle:1.0.0"))
	if problem := contains(w.failed("repo").Status.UsefulErrorMessage, "caCerts"); problem != "" {
		t.Error(problem)
	}
	defer unconfigure(t)
	configure(t, map[string]string{"caCerts": string(servers.CA.CertPEM)}, accepted)
	w.succeeded("repo")
	w.wantOffers("fetched.example.com.1.0.0", "repo", "fetched.example.com", "repo")
}

// TestRepositoryContent: what is taken of a repository, and what is said of the rest.
func TestRepositoryContent(t *testing.T) {
	t.Parallel()
	good := pkgDoc("good.example.com", "1.0.0", "", "")
	cases := map[string]struct {
		reason string
		spec   string
		offers []string
		stage  string // that fails, "" for none
		says   []string
	}{
		"Templates": {"a repository may hold ytt templates", inlineRepository(`#@ for/end v in ["1.0.0", "2.0.0"]:
---
apiVersion: data.packaging.carvel.dev/v1alpha1
kind: Package
metadata:
  name: #@ "good.example.com." + v
spec:
  refName: good.example.com
  version: #@ v
  template: {spec: {}}
`), []string{"good.example.com.1.0.0", "good.example.com.2.0.0"}, "", nil},
		"Namespace": {"packages are offered where the repository is", inlineRepository(pkgDoc("good.example.com", "1.0.0", "", ", namespace: kube-system")), []string{"good.example.com.1.0.0"}, "", nil},
		"Unknown":   {"fields of a newer version", inlineRepository(pkgDoc("good.example.com", "1.0.0", ", fromTheFuture: {a: 1}", "")), []string{"good.example.com.1.0.0"}, "", nil},
		"NoFolder":  {"no packages folder", "fetch: {inline: {paths: {a.yml: \"a: 1\\n\"}}}", nil, "template", []string{"Invalid package repository content: must contain 'packages/' directory but did not"}},
		"AFile":     {"packages is a file", "fetch: {inline: {paths: {packages: \"a: 1\\n\"}}}", nil, "template", []string{"Invalid package repository content: must contain 'packages/' directory but did not"}},
		"Empty":     {"nothing to offer is a failure", inlineRepository(cm("other")), nil, "deploy", []string{"Trying to apply empty set of resources"}},
		"NoYAML":    {"a file that is no YAML", inlineRepository("a: [\n"), nil, "template", []string{"ytt: Error:"}},
		"AllBad":    {"nothing that could be offered", inlineRepository(pkgDoc("short", "1.0.0", "", "")), nil, "template", []string{"None of the packages can be used", "document 1 (Package/short.1.0.0): spec.refName"}},
		"OneBad": {"the good ones are offered, the bad ones named", inlineRepository(good, strings.ReplaceAll(pkgDoc("bad.example.com", "1.0.0", "", ""), "version: 1.0.0", "version: 1.0"), metaDoc("good.example.com"), pkgDoc("worse.example.com", "1.0", "", "")),
			[]string{"good.example.com.1.0.0", "good.example.com"}, "deploy",
			[]string{"document 2 (Package/bad.example.com.1.0.0): spec.version: expected string", "document 4 (Package/worse.example.com.1.0)", "2 of 4 objects failed"}},
		"BadSpec":   {"the API server refuses one", inlineRepository(good, pkgDoc("odd.example.com", "1.0.0", "", ", labels: {a: '~'}")), []string{"good.example.com.1.0.0"}, "deploy", []string{"Package/odd.example.com.1.0.0: ", "metadata.labels"}},
		"NoSource":  {"no fetch member", "fetch: {}", nil, "fetch", []string{"Fetching (0): Unsupported way to fetch templates"}},
		"NoSecret":  {"a Secret that is missing", "fetch: {git: {url: 'https://git.example.com/x.git', ref: origin/main, secretRef: {name: none}}}", nil, "fetch", []string{`secrets "none" not found`}},
		"BadPeriod": {"a sync period that is none", "syncPeriod: soon\n" + inlineRepository(good), nil, "", []string{"Invalid syncPeriod"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRepositories(t)
			w.repo("repo", c.spec)
			pairs := []string{}
			for _, o := range c.offers {
				pairs = append(pairs, o, "repo")
			}
			if c.stage == "" && c.says == nil {
				w.succeeded("repo")
				w.wantOffers(pairs...)
				return
			}
			s := w.failed("repo").Status
			w.wantOffers(pairs...)
			for _, text := range c.says {
				if problem := contains(s.UsefulErrorMessage, text); problem != "" {
					t.Errorf("%s: %s", c.reason, problem)
				}
			}
			code := map[string]int{}
			if s.Fetch != nil {
				code["fetch"] = s.Fetch.ExitCode
			}
			if s.Template != nil {
				code["template"] = s.Template.ExitCode
			}
			if s.Deploy != nil {
				code["deploy"] = s.Deploy.ExitCode
			}
			maps.DeleteFunc(code, func(_ string, n int) bool { return n == 0 })
			if _, bad := code[c.stage]; c.stage != "" && (!bad || len(code) != 1) {
				t.Errorf("%s: exit codes %v, want one for %s", c.reason, code, c.stage)
			}
		})
	}
}

// TestRepositoryChanges: what a new version of a repository adds, changes and drops
// is written, and nothing else.
func TestRepositoryChanges(t *testing.T) {
	t.Parallel()
	w := newRepositories(t)
	a, b, c := pkgDoc("a.example.com", "1.0.0", "", ""), pkgDoc("b.example.com", "1.0.0", "", ""), pkgDoc("c.example.com", "1.0.0", "", "")
	w.repo("repo", inlineRepository(a, b, metaDoc("a.example.com")))
	w.succeeded("repo")
	since := time.Now()
	w.repo("repo", inlineRepository(a, strings.ReplaceAll(b, "{spec: {}}", "{spec: {}}, releaseNotes: new"), c))
	r := w.succeeded("repo")
	w.wantOffers("a.example.com.1.0.0", "repo", "b.example.com.1.0.0", "repo", "c.example.com.1.0.0", "repo")
	if problem := contains(r.Status.Deploy.Stdout, "1 created, 1 updated, 1 deleted, 1 unchanged"); problem != "" {
		t.Error(problem)
	}
	if n := w.writes(since); n != 3 {
		t.Errorf("%d writes, want 3", n)
	}
	// A document that broke does not withdraw what it was.
	w.repo("repo", inlineRepository(a, b, strings.ReplaceAll(c, "version: 1.0.0", "version: 1")))
	w.failed("repo")
	w.wantOffers("a.example.com.1.0.0", "repo", "b.example.com.1.0.0", "repo", "c.example.com.1.0.0", "repo")
	// And nothing at all is taken for a mistake, too.
	w.repo("repo", inlineRepository(cm("other")))
	w.failed("repo")
	w.wantOffers("a.example.com.1.0.0", "repo", "b.example.com.1.0.0", "repo", "c.example.com.1.0.0", "repo")
}

// TestRepositoryPlaceholder: a repository without credentials gets a Secret that
// others may fill, and runs at once when they do.
func TestRepositoryPlaceholder(t *testing.T) {
	t.Parallel()
	if _, err := servers.PrivateRegistry.PushBundle(t.Context(), "pkgr/placeholder:1", repositoryTree("private")); err != nil {
		t.Fatal(err)
	}
	w := newRepositories(t)
	w.repo("repo", fmt.Sprintf("syncPeriod: 10h\nfetch: {imgpkgBundle: {image: %q}}", servers.PrivateRegistry.Host()+"/pkgr/placeholder:1"))
	r := w.failed("repo")
	s := &corev1.Secret{}
	if err := kube.Get(t.Context(), client.ObjectKey{Namespace: w.ns, Name: "repo-fetch-0"}, s); err != nil {
		t.Fatal(err)
	}
	if s.Type != corev1.SecretTypeDockerConfigJson || string(s.Data[corev1.DockerConfigJsonKey]) != `{"auths":{}}` || len(s.OwnerReferences) != 1 ||
		s.OwnerReferences[0].UID != r.UID || s.OwnerReferences[0].Controller != nil {
		t.Errorf("placeholder: %s %s %+v", s.Type, s.Data, s.OwnerReferences)
	}
	if v, ok := s.Annotations["secretgen.carvel.dev/image-pull-secret"]; !ok || v != "" {
		t.Errorf("annotations %v", s.Annotations)
	}
	s.Data[corev1.DockerConfigJsonKey] = fmt.Appendf(nil, `{"auths":{%q:{"username":%q,"password":%q}}}`, servers.PrivateRegistry.Host(), testenv.ServerUser, testenv.ServerPassword)
	if err := kube.Update(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	w.succeeded("repo")
	w.wantOffers("fetched.example.com.1.0.0", "repo", "fetched.example.com", "repo")
}

// TestRepositoryPause: nothing happens while a repository is paused; it can be
// deleted all the same.
func TestRepositoryPause(t *testing.T) {
	t.Parallel()
	w := newRepositories(t)
	w.repo("repo", inlineRepository(pkgDoc("a.example.com", "1.0.0", "", "")))
	w.succeeded("repo")
	w.edit("repo", func(r *packaging.PackageRepository) {
		r.Spec.Paused = true
		r.Spec.Fetch.Inline.Paths["packages/all.yml"] = pkgDoc("b.example.com", "1.0.0", "", "")
	})
	w.until("repo", func(r *packaging.PackageRepository) string {
		if r.Status.ObservedGeneration != r.Generation || r.Status.FriendlyDescription != "Paused" {
			return fmt.Sprintf("%d %q", r.Status.ObservedGeneration, r.Status.FriendlyDescription)
		}
		return ""
	})
	w.wantOffers("a.example.com.1.0.0", "repo")
	w.delete("repo")
	w.gone("repo")
	w.wantOffers()
}

// TestRepositoryDelete: what a repository offered goes with it, and so do kapp's
// record and the legacy finalizer; what others offer stays.
func TestRepositoryDelete(t *testing.T) {
	t.Parallel()
	w := newRepositories(t)
	w.repo("other", inlineRepository(pkgDoc("shared.example.com", "1.0.0", "", "")))
	w.succeeded("other")
	w.repo("repo", inlineRepository(pkgDoc("shared.example.com", "1.0.0", "", ""), pkgDoc("a.example.com", "1.0.0", "", ""), metaDoc("a.example.com")))
	w.succeeded("repo")
	w.edit("repo", func(r *packaging.PackageRepository) {
		r.Finalizers = append(r.Finalizers, "finalizers.packaging.carvel.dev/delete")
	})
	w.wantOffers("shared.example.com.1.0.0", "other", "a.example.com.1.0.0", "repo", "a.example.com", "repo")
	w.delete("repo")
	w.gone("repo")
	w.wantOffers("shared.example.com.1.0.0", "other")
	w.noConfigMap("repo.pkgr")
	w.configMap("other.pkgr")
	// One that never offered anything has nothing to wait for.
	w.repo("never", "fetch: {}")
	w.failed("never")
	w.delete("never")
	w.gone("never")
}

// TestRepositoryNamespaceGoes: a namespace that is deleted takes all along.
func TestRepositoryNamespaceGoes(t *testing.T) {
	t.Parallel()
	w := newRepositories(t)
	w.repo("repo", inlineRepository(pkgDoc("a.example.com", "1.0.0", "", "")))
	w.succeeded("repo")
	ns := &corev1.Namespace{}
	ns.Name = w.ns
	if err := kube.Delete(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	w.gone("repo")
}
