package fetch_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/garboard-dev/garboard/pkg/fetch"
	"github.com/garboard-dev/garboard/pkg/sidecar"
	"github.com/garboard-dev/garboard/test/workspace"
)

// These tests run the real vendir, git and unpack.

// The sidecar's workspace is one.
var _ fetch.Workspace = (*sidecar.Workspace)(nil)

func TestVendirInline(t *testing.T) {
	ws := workspace.New(t)
	stored := newObjects(secret("a", "values.yml", "a"), secret("b", "values.yml", "b"), configMap("c", "c.yml", "c"))
	res := fetch.New(stored).Fetch(t.Context(), ws, fetch.Request{Namespace: "team-a", Sources: sources(t, `
- inline:
    paths: {x.yml: "default", /abs.yml: "---\nx\n"}
    pathsFrom:
    - secretRef: {name: a, directoryPath: one}
    - secretRef: {name: b, directoryPath: two}
    - configMapRef: {name: c}
- inline: {pathsFrom: [{configMapRef: {name: c}}]}
  path: deep/er
`)})
	if res.Failed() {
		t.Fatal(res.Err, res.Stderr)
	}
	want := map[string]string{
		"0/x.yml": "default", "0/abs.yml": "---\nx\n", "0/one/values.yml": "a", "0/two/values.yml": "b", "0/c.yml": "c", "deep/er/c.yml": "c",
	}
	if diff := cmp.Diff(want, ws.Tree("src")); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(res.Stdout, "kind: LockConfig") {
		t.Errorf("no lock document: %s", res.Stdout)
	}
}

// repository makes a git repository with one commit on main and serves it below
// /r.git; a request without the login is refused if one is given.
func repository(t *testing.T, user, password string) http.Handler {
	t.Helper()
	dir := t.TempDir()
	work := filepath.Join(dir, "work")
	backend := "/usr/lib/git-core/git-http-backend"
	if out, err := exec.Command("git", "--exec-path").Output(); err == nil {
		backend = filepath.Join(strings.TrimSpace(string(out)), "git-http-backend")
	}
	if err := os.MkdirAll(filepath.Join(work, "deploy"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(work, "deploy", "app.yml"), []byte("kind: App\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"init", "-q", "-b", "main", "."}, {"add", "."}, {"commit", "-q", "-m", "first"}, {"tag", "v1.2.0"}, {"tag", "v2.0.0-rc.1"},
		{"clone", "-q", "--bare", ".", filepath.Join(dir, "r.git")},
	} {
		cmd := exec.Command("git", args...)
		cmd.Dir = work
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	serve := &cgi.Handler{Path: backend, Env: []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1"}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u, p, _ := r.BasicAuth(); user != "" && (u != user || p != password) {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(w, "login needed", http.StatusUnauthorized)
			return
		}
		serve.ServeHTTP(w, r)
	})
}

func TestVendirGit(t *testing.T) {
	server := httptest.NewServer(repository(t, "", ""))
	defer server.Close()
	for name, tc := range map[string]struct{ fields, lock string }{
		"Branch":    {"ref: origin/main", "commitTitle: first"},
		"Tag":       {"ref: v1.2.0", "- v1.2.0"},
		"All":       {"ref: main, depth: 0", "sha: "},
		"Selection": {"refSelection: {semver: {constraints: '>=1.0.0'}}", "- v1.2.0"},
	} {
		t.Run(name, func(t *testing.T) {
			ws := workspace.New(t)
			res := fetch.New(newObjects()).Fetch(t.Context(), ws, fetch.Request{
				Sources: sources(t, fmt.Sprintf("[{git: {url: '%s/r.git', subPath: deploy, %s}}]", server.URL, tc.fields)),
			})
			if res.Failed() || !strings.Contains(res.Stdout, tc.lock) {
				t.Fatalf("%s\n%s\n%s", res.Err, res.Stderr, res.Stdout)
			}
			if diff := cmp.Diff(map[string]string{"app.yml": "kind: App\n"}, ws.Tree(res.Root)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestVendirGitLogin: a login works, and a failing one shows the host but nothing
// of the password, in whatever form git and vendir print it.
func TestVendirGitLogin(t *testing.T) {
	server := httptest.NewUnstartedServer(repository(t, "robot", "right-pass"))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	url := server.URL + "/r.git"
	skip := func(string) bool { return true }
	for name, tc := range map[string]struct {
		url, fields, password string
		skip                  func(string) bool
		ok                    bool
	}{
		"Works":      {url, "secretRef: {name: login}", "right-pass", skip, true},
		"WorksEager": {url, "secretRef: {name: login}, forceHTTPBasicAuth: true", "right-pass", skip, true},
		"Wrong":      {url, "secretRef: {name: login}", "wr%ng/p@ss", skip, false},
		"WrongEager": {url, "secretRef: {name: login}, forceHTTPBasicAuth: true", "wr%ng/p@ss", skip, false},
		"WrongInURL": {strings.Replace(url, "https://", "https://robot:tok3n@", 1), "depth: 1", "tok3n", skip, false},
		"BadURL":     {strings.Replace(url, "https://", "https://robot:tok3n%zz@", 1), "depth: 1", "tok3n%zz", skip, false},
		"Untrusted":  {url, "secretRef: {name: login}, forceHTTPBasicAuth: true", "right-pass", nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			res := fetch.New(newObjects(secret("login", "username", "robot", "password", tc.password))).Fetch(t.Context(), workspace.New(t), fetch.Request{
				Sources: sources(t, fmt.Sprintf("[{git: {url: '%s', ref: origin/main, %s}}]", tc.url, tc.fields)), SkipTLS: tc.skip,
			})
			if res.Failed() == tc.ok {
				t.Fatalf("%s\n%s", res.Err, res.Stderr)
			}
			all := res.Stdout + res.Stderr + res.Err
			for _, form := range []string{tc.password, "tok3n", "cm9ib3Q6"} {
				if strings.Contains(all, form) {
					t.Errorf("%q is shown: %s", form, all)
				}
			}
			if !tc.ok && !strings.Contains(all, "127.0.0.1") {
				t.Errorf("the host is not shown: %s", all)
			}
			if name == "Untrusted" && !strings.Contains(res.Stderr, "\n(hint: The CA Certificate from URL") {
				t.Errorf("no hint: %s", res.Stderr)
			}
			t.Log(res.Stderr)
		})
	}
}

type member struct {
	name, content, link string
	kind                byte
}

func tarGz(t *testing.T, members ...member) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, m := range members {
		if m.kind == 0 {
			m.kind = tar.TypeReg
		}
		if err := w.WriteHeader(&tar.Header{Name: m.name, Size: int64(len(m.content)), Typeflag: m.kind, Linkname: m.link, Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(m.content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestVendirHTTP: basic authentication, a plain file, a wrong digest.
func TestVendirHTTP(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, p, _ := r.BasicAuth(); p != "hunter2" {
			http.Error(w, "login needed", http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte("kind: App\n"))
	}))
	defer server.Close()
	for name, tc := range map[string]struct{ fields, err string }{
		"Works":   {"secretRef: {name: login}", ""},
		"NoLogin": {"subPath: ''", "Expected 200 OK, but was '401 Unauthorized'"},
		"Digest":  {"secretRef: {name: login}, sha256: abc", "Expected digest to match 'sha256:abc'"},
	} {
		t.Run(name, func(t *testing.T) {
			ws := workspace.New(t)
			res := fetch.New(newObjects(secret("login", "username", "u", "password", "hunter2"))).Fetch(t.Context(), ws, fetch.Request{
				Sources: sources(t, fmt.Sprintf("[{http: {url: '%s/app.yml', %s}}]", server.URL, tc.fields)),
			})
			if res.Failed() != (tc.err != "") || !strings.Contains(res.Stderr, tc.err) {
				t.Fatalf("%s\n%s", res.Err, res.Stderr)
			}
			if res.Failed() {
				if res.ExitCode != 1 || res.Err != "Fetching resources: Error (see .status.usefulErrorMessage for details)" || !strings.HasPrefix(res.Stderr, "vendir: Error:") {
					t.Errorf("code %d, error %q, stderr %q", res.ExitCode, res.Err, res.Stderr)
				}
				return
			}
			if diff := cmp.Diff(map[string]string{"app.yml": "kind: App\n"}, ws.Tree(res.Root)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestHangingServers: a server that accepts and says nothing holds a fetch until its
// time is over, and the error is the reason for that.
func TestHangingServers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	// Nobody accepts: the kernel does, and keeps what is sent.
	host := l.Addr().String()
	for name, source := range map[string]string{
		"HTTP":  "http: {url: 'http://" + host + "/x.tgz'}",
		"Git":   "git: {url: 'http://" + host + "/x.git', ref: origin/main}",
		"SSH":   "git: {url: 'ssh://git@" + host + "/x.git', ref: origin/main, secretRef: {name: key}}",
		"Image": "image: {url: '" + host + "/team/app:1'}",
		"Chart": "helmChart: {name: x, repository: {url: 'http://" + host + "'}}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ws := workspace.New(t)
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("the time for fetching is over"))
			defer cancel()
			res := fetch.New(newObjects(secret("key", "username", "u"))).Fetch(ctx, ws, fetch.Request{Sources: sources(t, "[{"+source+"}]")})
			if res.Err != "Fetching resources: the time for fetching is over" || res.ExitCode != -1 {
				t.Errorf("code %d, error %q: %s", res.ExitCode, res.Err, res.Stderr)
			}
		})
	}
}

// TestVendirHTTPBearer: a token instead of a login.
func TestVendirHTTPBearer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("Authorization"))
	}))
	defer server.Close()
	ws := workspace.New(t)
	res := fetch.New(newObjects(secret("token", "token", "t0k3n", "note", "x"))).Fetch(t.Context(), ws, fetch.Request{
		Sources: sources(t, "[{http: {url: '"+server.URL+"/f', secretRef: {name: token}}}]"),
	})
	if got := ws.Tree(res.Root)["f"]; res.Failed() || got != "Bearer t0k3n" {
		t.Errorf("%q, %s: %s", got, res.Err, res.Stderr)
	}
}

// TestLocalFiles: what needs no vendir lands and reads as if it had run, and so do
// its failures.
func TestLocalFiles(t *testing.T) {
	const text = `[{inline: {paths: {a.yml: "a", d/b.yml: "b"}}}, {inline: {paths: {c: "c"}}, path: x/y}]`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "x") }))
	defer server.Close()
	with, without := workspace.New(t), workspace.New(t)
	local := fetch.New(newObjects()).Fetch(t.Context(), without, fetch.Request{Sources: sources(t, text)})
	vendir := fetch.New(newObjects()).Fetch(t.Context(), with, fetch.Request{Sources: sources(t, strings.TrimSuffix(text, "]")+", {http: {url: '"+server.URL+"/f'}, path: third}]")})
	if err := with.Remove(t.Context(), []string{"src/third"}); err != nil {
		t.Fatal(err)
	}
	if local.Failed() || vendir.Failed() {
		t.Fatal(local.Err, vendir.Err, vendir.Stderr)
	}
	if diff := cmp.Diff(with.Tree("src"), without.Tree("src")); diff != "" {
		t.Error(diff)
	}
	third := "- contents:\n  - http: {}\n    path: .\n  path: third\n"
	if diff := cmp.Diff(strings.Replace(vendir.Stdout, third, "", 1), local.Stdout); diff != "" {
		t.Error(diff)
	}
	const long = `Fetching: invalid path "dddddddd`
	res := fetch.New(newObjects()).Fetch(t.Context(), without, fetch.Request{Sources: sources(t, fmt.Sprintf("[{inline: {paths: {%s/f: x}}}]", strings.Repeat("d", 300)))})
	if !strings.HasPrefix(res.Err, long) || !strings.HasSuffix(res.Err, "a name is longer than 255 bytes") {
		t.Errorf("error %q", res.Err)
	}
}
