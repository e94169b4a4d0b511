package e2e

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/test/testenv"
	"github.com/garboard-dev/garboard/test/testenv/files"
)

// file is a tree of one file.
func file(name, content string) fstest.MapFS {
	return fstest.MapFS{name: {Data: []byte(content), Mode: 0o644}}
}

const deployAll = "template: [{ytt: {}}]\ndeploy: [{kapp: {}}]\n"

// publishFetched puts a ConfigMap on every server, as chart, archive, image and in git.
// Its key from says where it comes from.
func publishFetched(t *testing.T) (commit string, archive []byte) {
	t.Helper()
	ctx := t.Context()
	must := func(_ string, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	content := fstest.MapFS{
		"config/cm.yml": {Data: []byte(cm("fetched", "from", "${SOURCE}")), Mode: 0o644},
		"other/cm.yml":  {Data: []byte("this: is: no: YAML"), Mode: 0o644},
	}
	of := func(source string) fstest.MapFS {
		out := fstest.MapFS{}
		for name, f := range content {
			out[name] = &fstest.MapFile{Data: []byte(strings.ReplaceAll(string(f.Data), "${SOURCE}", source)), Mode: f.Mode}
		}
		return out
	}
	commit, err := servers.Git.Commit(ctx, "fetch", of("git"), "first")
	must(commit, err)
	must("", servers.Git.Tag(ctx, "fetch", "v1.2.0", commit, "v1.2.0"))
	candidate, err := servers.Git.Commit(ctx, "candidate", of("git"), "first")
	must(candidate, err)
	must("", servers.Git.Tag(ctx, "candidate", "v2.0.0-rc.1", candidate, "v2.0.0-rc.1"))
	must(servers.PrivateGit.Commit(ctx, "fetch", of("git"), "first"))
	must(servers.Registry.PushImage(ctx, "fetch/image:1.2.0", of("image")))
	must(servers.PrivateRegistry.PushImage(ctx, "fetch/image:1.2.0", of("image")))
	must(servers.Registry.PushBundle(ctx, "fetch/bundle:1.2.0", of("bundle")))
	must(servers.PrivateRegistry.PushBundle(ctx, "fetch/bundle:1.2.0", of("bundle")))
	archive, err = files.TarGz(of("http"))
	must("", err)
	servers.Files.Put("fetch.tar.gz", archive)
	servers.PrivateFiles.Put("fetch.tar.gz", archive)
	chart := fstest.MapFS{
		"Chart.yaml":        {Data: []byte("apiVersion: v2\nname: fetchchart\nversion: 1.2.0\n"), Mode: 0o644},
		"templates/cm.yaml": {Data: []byte(cm("fetched", "from", "helmChart")), Mode: 0o644},
	}
	must("", servers.Helm.Add(ctx, chart))
	must("", servers.PrivateHelm.Add(ctx, chart))
	must("", servers.Registry.PushChart(ctx, "fetch/charts", chart))
	return commit, archive
}

// TestFetch: each source, from a real server, open and with credentials.
func TestFetch(t *testing.T) {
	t.Parallel()
	commit, archive := publishFetched(t)
	const sub = "template: [{ytt: {paths: [config]}}]\ndeploy: [{kapp: {}}]\n"
	const helm = "template: [{helmTemplate: {}}]\ndeploy: [{kapp: {}}]\n"
	cases := map[string]struct {
		spec string
		from string
		// lock is a part of the lock document in status.fetch.stdout.
		lock string
	}{
		"HTTPArchive":    {fmt.Sprintf("fetch: [{http: {url: %q, sha256: %s, subPath: config}}]\n", servers.Files.URL()+"/fetch.tar.gz", files.SHA256(archive)) + deployAll, "http", "http: {}"},
		"HTTPAuth":       {fmt.Sprintf("fetch: [{http: {url: %q, subPath: config, secretRef: {name: basic}}}]\n", servers.PrivateFiles.URL()+"/fetch.tar.gz") + deployAll, "http", "http: {}"},
		"GitBranch":      {fmt.Sprintf("fetch: [{git: {url: %q, ref: origin/main, subPath: config}}]\n", servers.Git.RepoURL("fetch")) + deployAll, "git", "sha: " + commit},
		"GitTag":         {fmt.Sprintf("fetch: [{git: {url: %q, ref: v1.2.0}}]\n", servers.Git.RepoURL("fetch")) + sub, "git", "v1.2.0"},
		"GitCommit":      {fmt.Sprintf("fetch: [{git: {url: %q, ref: %s, depth: 0}}]\n", servers.Git.RepoURL("fetch"), commit) + sub, "git", "sha: " + commit},
		"GitSelection":   {fmt.Sprintf("fetch: [{git: {url: %q, refSelection: {semver: {constraints: '>=1.0.0'}}}}]\n", servers.Git.RepoURL("fetch")) + sub, "git", "v1.2.0"},
		"GitPrerelease":  {fmt.Sprintf("fetch: [{git: {url: %q, refSelection: {semver: {prereleases: {}}}}}]\n", servers.Git.RepoURL("candidate")) + sub, "git", "v2.0.0-rc.1"},
		"GitSSH":         {fmt.Sprintf("fetch: [{git: {url: %q, ref: origin/main, secretRef: {name: ssh}}}]\n", servers.Git.SSHURL("fetch")) + sub, "git", "sha: " + commit},
		"Image":          {fmt.Sprintf("fetch: [{image: {url: %q, subPath: config}}]\n", servers.Registry.Host()+"/fetch/image:1.2.0") + deployAll, "image", "@sha256:"},
		"ImageAuth":      {fmt.Sprintf("fetch: [{image: {url: %q, subPath: config, secretRef: {name: registry}}}]\n", servers.PrivateRegistry.Host()+"/fetch/image:1.2.0") + deployAll, "image", "@sha256:"},
		"ImageSelection": {fmt.Sprintf("fetch: [{image: {url: %q, subPath: config, tagSelection: {semver: {constraints: '>=1.0.0'}}}}]\n", servers.Registry.Host()+"/fetch/image") + deployAll, "image", "tag: 1.2.0"},
		"Bundle":         {fmt.Sprintf("fetch: [{imgpkgBundle: {image: %q}}]\n", servers.Registry.Host()+"/fetch/bundle:1.2.0") + sub, "bundle", "imgpkgBundle:"},
		"BundleAuth":     {fmt.Sprintf("fetch: [{imgpkgBundle: {image: %q, secretRef: {name: dockerconfig}}}]\n", servers.PrivateRegistry.Host()+"/fetch/bundle:1.2.0") + sub, "bundle", "imgpkgBundle:"},
		"HelmChart":      {fmt.Sprintf("fetch: [{helmChart: {name: fetchchart, version: 1.2.0, repository: {url: %q}}}]\n", servers.Helm.URL()) + helm, "helmChart", "version: 1.2.0"},
		"HelmChartAuth":  {fmt.Sprintf("fetch: [{helmChart: {name: fetchchart, repository: {url: %q, secretRef: {name: basic}}}}]\n", servers.PrivateHelm.URL()) + helm, "helmChart", "version: 1.2.0"},
		"HelmChartOCI":   {fmt.Sprintf("fetch: [{helmChart: {name: fetchchart, version: 1.2.0, repository: {url: %q}}}]\n", "oci://"+servers.Registry.Host()+"/fetch/charts") + helm, "helmChart", "version: 1.2.0"},
		"InlineSecrets":  {"fetch: [{inline: {pathsFrom: [{secretRef: {name: files, directoryPath: sub}}, {configMapRef: {name: more, directoryPath: more}}]}}]\n" + deployAll, "secret", "inline: {}"},
		"InlineTwice": {"fetch:\n- {inline: {pathsFrom: [{configMapRef: {name: more, directoryPath: a}}, {configMapRef: {name: more, directoryPath: b}}]}, path: one}\n" +
			"- {inline: {pathsFrom: [{configMapRef: {name: more}}]}, path: two}\n" + fmt.Sprintf("- {git: {url: %q, ref: origin/main, subPath: config}, path: app}\n", servers.Git.RepoURL("fetch")) +
			"template: [{ytt: {paths: [app, one/b]}}]\ndeploy: [{kapp: {}}]\n", "git", "path: two"},
		"SeveralWithPaths": {fmt.Sprintf("fetch:\n- {git: {url: %q, ref: origin/main}, path: app}\n- {inline: {paths: {values.yml: \"#@data/values\\n---\\nx: 1\\n\"}}}\n", servers.Git.RepoURL("fetch")) + "template: [{ytt: {paths: [app/config, '1']}}]\ndeploy: [{kapp: {}}]\n", "git", "path: app"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.apply(credentials())
			w.apply("{apiVersion: v1, kind: Secret, metadata: {name: files}, stringData: {a.yml: " + fmt.Sprintf("%q", cm("fetched", "from", "secret")) + "}}")
			w.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: more}, data: {a.yml: " + fmt.Sprintf("%q", cm("more-fetched")) + "}}")
			w.app("fetch", c.spec)
			s := w.succeeded("fetch").Status
			w.wantConfigMap("fetched", map[string]string{"from": c.from})
			if !strings.Contains(s.Fetch.Stdout, c.lock) || !strings.Contains(s.Fetch.Stdout, "kind: LockConfig") {
				t.Errorf("lock document does not say %q:\n%s", c.lock, s.Fetch.Stdout)
			}
		})
	}
}

// credentials are Secrets for the private servers.
func credentials() string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Secret
metadata: {name: basic}
stringData: {username: %[1]q, password: %[2]q}
---
apiVersion: v1
kind: Secret
metadata: {name: registry}
stringData: {hostname: %[3]q, username: %[1]q, password: %[2]q}
---
apiVersion: v1
kind: Secret
metadata: {name: dockerconfig}
type: kubernetes.io/dockerconfigjson
stringData: {.dockerconfigjson: '{"auths":{%[3]q:{"username":%[1]q,"password":%[2]q}}}'}
---
apiVersion: v1
kind: Secret
metadata: {name: ssh}
stringData:
  ssh-privatekey: %[4]q
  ssh-knownhosts: %[5]q
`, testenv.ServerUser, testenv.ServerPassword, servers.PrivateRegistry.Host(), string(servers.Git.PrivateKey()), servers.Git.KnownHosts())
}

// TestFetchPicksUpAChange: a moved branch is deployed within the sync period.
func TestFetchPicksUpAChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	commit := func(value string) {
		if _, err := servers.Git.Commit(t.Context(), "moving", file("cm.yml", cm("moving", "v", value)), value); err != nil {
			t.Fatal(err)
		}
	}
	commit("1")
	w.app("moving", fmt.Sprintf("syncPeriod: 30s\nfetch: [{git: {url: %q, ref: origin/main}}]\n", servers.Git.RepoURL("moving"))+deployAll)
	w.succeeded("moving")
	w.wantConfigMap("moving", map[string]string{"v": "1"})
	commit("2")
	w.untilConfigMap("moving", map[string]string{"v": "2"})
	w.until("moving", func(app *v1alpha1.App) string {
		if app.Status.ConsecutiveReconcileSuccesses < 2 {
			return fmt.Sprintf("%d successes", app.Status.ConsecutiveReconcileSuccesses)
		}
		return ""
	})
}
