package testenv_test

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/garboard-dev/garboard/test/testenv"
	"github.com/garboard-dev/garboard/test/testenv/files"
	"github.com/garboard-dev/garboard/test/testenv/registry"
)

var content = fstest.MapFS{"a.yml": {Data: []byte("a: 1\n")}, "d/b.yml": {Data: []byte("b: 2\n")}}

var chart = fstest.MapFS{
	"Chart.yaml":          {Data: []byte("apiVersion: v2\nname: boat\nversion: 1.2.3\n")},
	"templates/boat.yaml": {Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: boat}\n")},
}

// run runs a program with little in its environment.
func run(t *testing.T, env []string, name string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GIT_TERMINAL_PROMPT=0", "GIT_CONFIG_NOSYSTEM=1"}, env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// withUser adds the credentials to a URL.
func withUser(t *testing.T, raw string) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(testenv.ServerUser, testenv.ServerPassword)
	return u.String()
}

func TestGitServer(t *testing.T) {
	first, err := servers.Git.Commit(t.Context(), "repo", content, "first")
	if err != nil {
		t.Fatal(err)
	}
	if err := servers.Git.Tag(t.Context(), "repo", "v1.0.0", first, "one"); err != nil {
		t.Fatal(err)
	}
	if _, err := servers.Git.Commit(t.Context(), "repo", fstest.MapFS{"c.yml": {}}, "second"); err != nil {
		t.Fatal(err)
	}
	if _, err := servers.PrivateGit.Commit(t.Context(), "repo", content, "first"); err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(t.TempDir(), "key")
	hosts := filepath.Join(t.TempDir(), "known_hosts")
	for name, text := range map[string]string{key: string(servers.Git.PrivateKey()), hosts: servers.Git.KnownHosts() + "\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ssh := "GIT_SSH_COMMAND=ssh -F none -o BatchMode=yes -o IdentitiesOnly=yes -o StrictHostKeyChecking=yes -o UserKnownHostsFile=" + hosts
	cases := map[string]struct {
		reason string
		url    string
		ref    string
		env    []string
		want   []string // what is cloned; nil when the clone is refused
	}{
		"HTTP":          {"open to all", servers.Git.RepoURL("repo"), "main", nil, []string{"c.yml"}},
		"Tag":           {"tags are served", servers.Git.RepoURL("repo"), "v1.0.0", nil, []string{"a.yml", "d"}},
		"NoCredentials": {"the private server asks", servers.PrivateGit.RepoURL("repo"), "main", nil, nil},
		"Credentials":   {"the private server lets in", withUser(t, servers.PrivateGit.RepoURL("repo")), "main", nil, []string{"a.yml", "d"}},
		"SSH":           {"key and host key are right", servers.Git.SSHURL("repo"), "main", []string{ssh + " -i " + key}, []string{"c.yml"}},
		"SSHNoKey":      {"without a key nobody is let in", servers.Git.SSHURL("repo"), "main", []string{ssh}, nil},
		"NoSuchRepo":    {"SSH reports git's failure", servers.Git.SSHURL("other"), "main", []string{ssh + " -i " + key}, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			out, err := run(t, c.env, "git", "clone", "--quiet", "--depth=1", "--branch", c.ref, c.url, dir)
			got := glob(t, dir)
			if (err != nil) != (c.want == nil) {
				t.Fatalf("%s: %v\n%s", c.reason, err, out)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.reason, diff)
			}
		})
	}
}

func TestRegistries(t *testing.T) {
	imgpkg := filepath.Join(env.BinDir("dev"), "imgpkg")
	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, servers.CA.CertPEM, 0o600); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		server *registry.Server
		with   []string
		refuse []string // arguments with which the pull is refused; nil: none
	}{
		"Plain":   {servers.Registry, nil, nil},
		"Private": {servers.PrivateRegistry, []string{"--registry-username=" + testenv.ServerUser, "--registry-password=" + testenv.ServerPassword}, []string{"--registry-anon"}},
		"TLS":     {servers.TLSRegistry, []string{"--registry-ca-cert-path=" + ca}, []string{"--registry-anon"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			image, err := c.server.PushImage(t.Context(), "images/app:1", content)
			if err != nil {
				t.Fatal(err)
			}
			bundle, err := c.server.PushBundle(t.Context(), "bundles/app:1", content)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.server.PushChart(t.Context(), "charts", chart); err != nil {
				t.Fatal(err)
			}
			for flag, ref := range map[string]string{"--image": image, "--bundle": bundle} {
				dir := t.TempDir()
				out, err := run(t, nil, imgpkg, append([]string{"pull", flag, ref, "--output", dir}, c.with...)...)
				if err != nil {
					t.Fatalf("pull %s: %v\n%s", ref, err, out)
				}
				if _, err := os.Stat(filepath.Join(dir, "d/b.yml")); err != nil {
					t.Error(err)
				}
				if c.refuse == nil {
					continue
				}
				if out, err := run(t, nil, imgpkg, append([]string{"pull", flag, ref, "--output", t.TempDir()}, c.refuse...)...); err == nil {
					t.Errorf("pull %s with %v was not refused:\n%s", ref, c.refuse, out)
				}
			}
			n, err := c.server.Count("charts/boat")
			if err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				t.Error("no request for the chart is on record")
			}
		})
	}
}

func TestFilesAndHelm(t *testing.T) {
	archive, err := files.TarGz(content)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*files.Server{servers.Files, servers.PrivateFiles, servers.TLSFiles} {
		s.Put("content.tgz", archive)
	}
	if err := servers.Helm.Add(t.Context(), chart); err != nil {
		t.Fatal(err)
	}
	if err := servers.PrivateHelm.Add(t.Context(), chart); err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(servers.CA.CertPEM)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	t.Cleanup(client.CloseIdleConnections)
	cases := map[string]struct {
		reason string
		url    string
		want   int
	}{
		"File":          {"open to all", servers.Files.URL() + "/content.tgz", 200},
		"NoFile":        {"what was not put is not there", servers.Files.URL() + "/other.tgz", 404},
		"NoCredentials": {"the private server asks", servers.PrivateFiles.URL() + "/content.tgz", 401},
		"Credentials":   {"the private server lets in", withUser(t, servers.PrivateFiles.URL()) + "/content.tgz", 200},
		"TLS":           {"the CA signed the certificate", servers.TLSFiles.URL() + "/content.tgz", 200},
		"HelmIndex":     {"helm made an index", servers.Helm.URL() + "/index.yaml", 200},
		"HelmChart":     {"the chart is packaged", servers.Helm.URL() + "/boat-1.2.3.tgz", 200},
		"HelmPrivate":   {"the private repository asks", servers.PrivateHelm.URL() + "/index.yaml", 401},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			res, err := client.Get(c.url)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if res.StatusCode != c.want {
				t.Errorf("%s: status %d, want %d", c.reason, res.StatusCode, c.want)
			}
		})
	}
	t.Run("HelmPull", func(t *testing.T) {
		dir := t.TempDir()
		helm := filepath.Join(env.BinDir("tools"), "helm")
		out, err := run(t, nil, helm, "pull", "boat", "--repo", servers.Helm.URL(), "--version", "1.2.3", "--destination", dir)
		if err != nil || !slices.Equal(glob(t, dir), []string{"boat-1.2.3.tgz"}) {
			t.Errorf("helm pull: %v\n%s", err, out)
		}
	})
	if got := servers.Files.Count("/content.tgz"); got == 0 {
		t.Error("no request for the file is on record")
	}
}

// glob returns the names in a folder, without hidden ones; nil when it is empty.
func glob(t *testing.T, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "[^.]*"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range paths {
		names = append(names, filepath.Base(p))
	}
	return names
}
