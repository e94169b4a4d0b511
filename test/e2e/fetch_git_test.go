package e2e

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/garboard-dev/garboard/test/testenv"
	"github.com/garboard-dev/garboard/test/testenv/gitserver"
)

// fetchCase is an App that deploys the ConfigMap fetched, or fails to fetch it.
type fetchCase struct {
	// secret is what the Secret named s holds, in YAML; "" is none.
	secret string
	spec   string
	// from is what the ConfigMap says, and lock a part of the lock document.
	from, lock string
	// stderr is a part of the fetch's standard error.
	stderr string
	// fails is a part of the useful error message of an App that fails.
	fails string
}

func (c fetchCase) run(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if c.secret != "" {
		w.apply("apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n" + c.secret)
	}
	w.app("fetch", c.spec)
	if c.fails != "" {
		s := w.failed("fetch").Status
		if problem := contains(s.UsefulErrorMessage, c.fails); problem != "" {
			t.Error(problem)
		}
		if s.Template != nil || s.Fetch == nil || s.Fetch.ExitCode == 0 {
			t.Errorf("fetch %+v, template %+v", s.Fetch, s.Template)
		}
		return
	}
	s := w.succeeded("fetch").Status
	w.wantConfigMap("fetched", map[string]string{"from": c.from})
	for _, part := range []string{c.lock, "kind: LockConfig"} {
		if !strings.Contains(s.Fetch.Stdout, part) {
			t.Errorf("lock document does not say %q:\n%s", part, s.Fetch.Stdout)
		}
	}
	if problem := contains(s.Fetch.Stderr, c.stderr); problem != "" {
		t.Error(problem)
	}
}

func runFetch(t *testing.T, cases map[string]fetchCase) {
	for name, c := range cases {
		t.Run(name, c.run)
	}
}

// must returns what a server answered.
func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func source(from string) fstest.MapFS { return file("config/cm.yml", cm("fetched", "from", from)) }

// yamlText is text as the value of a key in a Secret's stringData.
func yamlText(s string) string { return fmt.Sprintf("%q", s) }

// gitApp fetches with git; fields are more of its fields.
func gitApp(url, fields string) string {
	return fmt.Sprintf("fetch: [{git: {url: %q, %s}}]\n", url, fields) + "template: [{ytt: {paths: [config]}}]\ndeploy: [{kapp: {}}]\n"
}

// TestFetchGitHistory: how far back depth reaches, and what is said beyond it.
func TestFetchGitHistory(t *testing.T) {
	t.Parallel()
	commit := must[string](t)
	var commits []string
	for i := range 4 {
		commits = append(commits, commit(servers.Git.Commit(t.Context(), "history", source(fmt.Sprint(i)), fmt.Sprintf("commit %d", i))))
	}
	if err := servers.Git.Branch(t.Context(), "history", "feature/x", commits[0]); err != nil {
		t.Fatal(err)
	}
	url := servers.Git.RepoURL("history")
	runFetch(t, map[string]fetchCase{
		"Default":       {spec: gitApp(url, "ref: origin/main"), from: "3", lock: "commitTitle: commit 3"},
		"Branch":        {spec: gitApp(url, "ref: origin/feature/x"), from: "0", lock: "sha: " + commits[0]},
		"BeyondDefault": {spec: gitApp(url, "ref: "+commits[2]), fails: commits[2]},
		"Two":           {spec: gitApp(url, "depth: 2, ref: "+commits[2]), from: "2", lock: "sha: " + commits[2]},
		"BeyondTwo":     {spec: gitApp(url, "depth: 2, ref: "+commits[1]), fails: commits[1]},
		"All":           {spec: gitApp(url, "depth: 0, ref: "+commits[1]), from: "1", lock: "sha: " + commits[1]},
		"NoBranch":      {spec: gitApp(url, "ref: origin/none"), fails: "couldn't find remote ref none"},
		"NoRepository":  {spec: gitApp(servers.Git.RepoURL("none"), "ref: origin/main"), fails: "none.git"},
	})
}

// TestFetchGitSelection: the highest tag that fits, with and without prereleases.
func TestFetchGitSelection(t *testing.T) {
	t.Parallel()
	for _, tag := range []string{"v1.0.0", "1.1.0", "v2.0.0-alpha.1", "v2.0.0-rc.1", "not-a-version"} {
		commit := must[string](t)(servers.Git.Commit(t.Context(), "tags", source(tag), tag))
		if err := servers.Git.Tag(t.Context(), "tags", tag, commit, ""); err != nil {
			t.Fatal(err)
		}
	}
	app := func(selection string) string {
		return gitApp(servers.Git.RepoURL("tags"), "refSelection: {semver: "+selection+"}")
	}
	runFetch(t, map[string]fetchCase{
		"Highest":     {spec: app("{}"), from: "1.1.0", lock: "- 1.1.0"},
		"Constraint":  {spec: app("{constraints: '<1.1.0'}"), from: "v1.0.0", lock: "- v1.0.0"},
		"Prereleases": {spec: app("{prereleases: {}}"), from: "v2.0.0-rc.1", lock: "- v2.0.0-rc.1"},
		"Identifiers": {spec: app("{prereleases: {identifiers: [alpha]}}"), from: "v2.0.0-alpha.1", lock: "- v2.0.0-alpha.1"},
		"None": {spec: app("{constraints: '>=3.0.0'}"), fails: "Expected to find at least one version, but did not " +
			"(details: all=4 -> after-prereleases-filter=2 -> after-constraints-filter=0)"},
		"RefWins": {spec: gitApp(servers.Git.RepoURL("tags"), "ref: v1.0.0, refSelection: {semver: {}}"), from: "v1.0.0", lock: "- v1.0.0"},
	})
}

// TestFetchGitHTTPS: each way to log in, to a server with an authority of its own.
func TestFetchGitHTTPS(t *testing.T) {
	t.Parallel()
	for _, repo := range []string{"login", "first", "bearer", "untrusted"} {
		must[string](t)(servers.TLSGit.Commit(t.Context(), "https-"+repo, source(repo), "first"))
	}
	ca := "ca.crt: " + yamlText(string(servers.CA.CertPEM))
	login := fmt.Sprintf("username: %q, password: %q", testenv.ServerUser, testenv.ServerPassword)
	app := func(repo, fields string) string {
		return gitApp(servers.TLSGit.RepoURL("https-"+repo), "ref: origin/main, secretRef: {name: s}"+fields)
	}
	t.Run("group", func(t *testing.T) {
		runFetch(t, map[string]fetchCase{
			"Login":      {secret: "stringData: {" + ca + ", " + login + ", note: not for git}", spec: app("login", ""), from: "login"},
			"First":      {secret: "stringData: {" + ca + ", " + login + "}", spec: app("first", ", forceHTTPBasicAuth: true"), from: "first"},
			"Bearer":     {secret: "stringData: {" + ca + ", bearerToken: " + testenv.ServerToken + "}", spec: app("bearer", ""), from: "bearer"},
			"Untrusted":  {secret: "stringData: {" + login + "}", spec: app("untrusted", ""), fails: "\n(hint: The CA Certificate from URL is unknown/invalid."},
			"WrongLogin": {secret: "stringData: {" + ca + ", username: x, password: wr0ng-password}", spec: app("untrusted", ""), fails: "Authentication failed"},
			"NoKey":      {secret: "stringData: {user: x}", spec: app("untrusted", ""), fails: "Unknown secret field 'user' in secret 's' (hint: keys for git are ssh-privatekey, "},
			"NoCA":       {secret: "stringData: {ca.crt: x, " + login + "}", spec: app("untrusted", ""), fails: "Key 'ca.crt' of secret 's' has no certificate in PEM"},
			"BearerPlain": {secret: "stringData: {bearerToken: x}", spec: gitApp(servers.Git.RepoURL("x"), "ref: origin/main, secretRef: {name: s}"),
				fails: "Key 'bearerToken' of secret 's' is only supported for https remotes"},
		})
	})
	asked := func(repo string) bool {
		for _, r := range servers.TLSGit.Requests() {
			if strings.Contains(r, "/https-"+repo+".git") && strings.HasSuffix(r, " 401") {
				return true
			}
		}
		return false
	}
	for repo, want := range map[string]bool{"login": true, "first": false, "bearer": false} {
		if got := asked(repo); got != want {
			t.Errorf("%s: the server had to ask for a login: %t", repo, got)
		}
	}
}

// TestFetchGitSSH: keys as Garboard and as Flux name them; hosts that are known,
// wrong, and not checked.
func TestFetchGitSSH(t *testing.T) {
	t.Parallel()
	must[string](t)(servers.Git.Commit(t.Context(), "ssh", source("ssh"), "first"))
	key, hosts := string(servers.Git.PrivateKey()), servers.Git.KnownHosts()
	app := gitApp(servers.Git.SSHURL("ssh"), "ref: origin/main, secretRef: {name: s}")
	data := func(kv ...string) string {
		var parts []string
		for i := 0; i < len(kv); i += 2 {
			parts = append(parts, kv[i]+": "+yamlText(kv[i+1]))
		}
		return "stringData: {" + strings.Join(parts, ", ") + "}"
	}
	runFetch(t, map[string]fetchCase{
		"Flux":      {secret: data("identity", strings.TrimSpace(key), "identity.pub", "x", "known_hosts", hosts), spec: app, from: "ssh"},
		"Unchecked": {secret: data("ssh-privatekey", key), spec: app, from: "ssh", stderr: "Warning: source 0: whether '127.0.0.1:"},
		"WrongHost": {secret: data("ssh-privatekey", key, "ssh-knownhosts", servers.Git.WrongKnownHosts()), spec: app, fails: "host key verification failed: the host's key is not the known one"},
		"OtherHost": {secret: data("ssh-privatekey", key, "ssh-knownhosts", servers.PrivateGit.KnownHosts()), spec: app, fails: "host key verification failed: the host is not among the known hosts"},
		"WrongKey":  {secret: data("ssh-privatekey", string(servers.PrivateGit.PrivateKey()), "ssh-knownhosts", hosts), spec: app, fails: "permission denied (publickey)"},
		"NoSecret":  {spec: gitApp(servers.Git.SSHURL("ssh"), "ref: origin/main"), fails: "no known hosts are given"},
	})
}

// TestFetchGitLFS: large files come with the rest unless they are not wanted.
func TestFetchGitLFS(t *testing.T) {
	t.Parallel()
	const content = "a large file"
	pointer := servers.Git.PutLarge([]byte(content))
	servers.TLSGit.PutLarge([]byte(content))
	tree := fstest.MapFS{
		".gitattributes":      {Data: []byte("*.large filter=lfs diff=lfs merge=lfs -text\n"), Mode: 0o644},
		"config/cm.yml":       {Data: []byte("#@ load('@ytt:data', 'data')\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: fetched}\ndata:\n  from: #@ data.read('file.large')\n"), Mode: 0o644},
		"config/file.large":   {Data: []byte(pointer), Mode: 0o644},
		"elsewhere/two.large": {Data: []byte(pointer), Mode: 0o644},
	}
	must[string](t)(servers.Git.Commit(t.Context(), "large", tree, "first"))
	must[string](t)(servers.TLSGit.Commit(t.Context(), "large-private", tree, "first"))
	missing := fstest.MapFS{".gitattributes": tree[".gitattributes"], "x.large": {Mode: 0o644, Data: []byte(
		"version https://git-lfs.github.com/spec/v1\noid sha256:" + strings.Repeat("0", 64) + "\nsize 3\n")}}
	must[string](t)(servers.Git.Commit(t.Context(), "large-missing", missing, "first"))
	secret := fmt.Sprintf("stringData: {username: %q, password: %q, ca.crt: %q}", testenv.ServerUser, testenv.ServerPassword, servers.CA.CertPEM)
	runFetch(t, map[string]fetchCase{
		"Default": {spec: gitApp(servers.Git.RepoURL("large"), "ref: origin/main"), from: content},
		"Skip":    {spec: gitApp(servers.Git.RepoURL("large"), "ref: origin/main, lfsSkipSmudge: true"), from: pointer},
		"Private": {secret: secret, spec: gitApp(servers.TLSGit.RepoURL("large-private"), "ref: origin/main, secretRef: {name: s}"), from: content},
		"Missing": {spec: gitApp(servers.Git.RepoURL("large-missing"), "ref: origin/main"), fails: "smudge filter lfs failed"},
	})
}

// TestFetchGitSubmodules: submodules of submodules, named relative to the
// repository, with the login of the repository itself.
func TestFetchGitSubmodules(t *testing.T) {
	t.Parallel()
	modules := func(path, url string) fstest.MapFS {
		return file(".gitmodules", fmt.Sprintf("[submodule %q]\n\tpath = %s\n\turl = %s\n", path, path, url))
	}
	for _, git := range []*gitserver.Server{servers.Git, servers.TLSGit} {
		commit := must[string](t)
		inner := commit(git.Commit(t.Context(), "sub/inner", file("cm.yml", cm("fetched", "from", "inner")), "inner"))
		commit(git.Commit(t.Context(), "sub/middle", modules("config", "../inner.git"), "middle"))
		middle := commit(git.AddSubmodule(t.Context(), "sub/middle", "config", inner))
		commit(git.Commit(t.Context(), "sub/outer", modules("middle", "../middle.git"), "outer"))
		commit(git.AddSubmodule(t.Context(), "sub/outer", "middle", middle))
	}
	commit := must[string](t)(servers.Git.Commit(t.Context(), "sub/file", modules("x", "file:///etc"), "file"))
	must[string](t)(servers.Git.AddSubmodule(t.Context(), "sub/file", "x", commit))
	secret := fmt.Sprintf("stringData: {username: %q, password: %q, ca.crt: %q}", testenv.ServerUser, testenv.ServerPassword, servers.CA.CertPEM)
	runFetch(t, map[string]fetchCase{
		"Open":      {spec: gitApp(servers.Git.RepoURL("sub/outer"), "ref: origin/main, subPath: middle"), from: "inner"},
		"Private":   {secret: secret, spec: gitApp(servers.TLSGit.RepoURL("sub/outer"), "ref: origin/main, subPath: middle, secretRef: {name: s}"), from: "inner"},
		"LocalFile": {spec: gitApp(servers.Git.RepoURL("sub/file"), "ref: origin/main"), fails: "transport 'file' not allowed"},
	})
}
