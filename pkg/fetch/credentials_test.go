package fetch_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard-dev/garboard/pkg/fetch"
	"github.com/garboard-dev/garboard/pkg/tool"
	"github.com/garboard-dev/garboard/test/golden"
	"github.com/garboard-dev/garboard/test/testenv/pki"
)

func docker(name string, auths ...string) *corev1.Secret {
	s := secret(name, ".dockerconfigjson", `{"auths":{`+strings.Join(auths, ",")+`}}`)
	s.Type = corev1.SecretTypeDockerConfigJson
	s.Annotations = nil
	return s
}

// stored are Secrets of all kinds.
func stored(t *testing.T) *objects {
	t.Helper()
	ca, err := pki.NewCA("test")
	if err != nil {
		t.Fatal(err)
	}
	auth := base64.StdEncoding.EncodeToString([]byte("robot:hunter:2"))
	return newObjects(
		secret("login", "username", "u", "password", "hunter2", "extra", "x"),
		secret("typo", "user", "u", "pass", "hunter2"), secret("none"),
		secret("git", "username", "u", "password", "hunter2", "bearerToken", "t0k3n\n", "ca.crt", string(ca.CertPEM)),
		secret("bearer", "bearerToken", `t0"k\3n`), secret("badbearer", "bearerToken", "a\nb"), secret("badca", "username", "u", "ca.crt", "x"),
		docker("many", `"a.example.com":{"username":"a","password":"hunter2"}`, fmt.Sprintf(`"https://r.example:5000/v1/":{"auth":%q}`, auth)),
		docker("broken", `"a.example.com":{}`, `"r.example:5000":{"auth":"???"}`),
	)
}

// TestCredentials: what vendir gets of a Secret for each use.
func TestCredentials(t *testing.T) {
	for name, text := range map[string]string{
		"extra-keys": `[{http: {url: "https://h/x", secretRef: {name: login}}}, {git: {url: "https://h/x", ref: v1, secretRef: {name: login}}}, {image: {url: x, secretRef: {name: login}}}, {image: {url: z, secretRef: {name: login}}}]`,
		"helm-many":  `[{helmChart: {name: c, version: "1", repository: {url: "oci://r.example:5000/a", secretRef: {name: many}}}}]`,
		"helm-none":  `[{helmChart: {name: c, version: "1", repository: {url: "oci://other.example/a", secretRef: {name: many}}}}]`,
		"image-many": `[{image: {url: r.example:5000/x, secretRef: {name: many}}}, {imgpkgBundle: {image: r.example:5000/x, secretRef: {name: many}}}]`,
	} {
		t.Run(name, func(t *testing.T) {
			ws := &fake{}
			res := fetch.New(stored(t)).Fetch(t.Context(), ws, fetch.Request{Sources: sources(t, text)})
			if res.Err != "" {
				t.Fatal(res.Err)
			}
			golden.Equal(t, "testdata/credentials/"+name+".want.yml", ws.vendir(t).Stdin)
		})
	}
}

func TestCredentialsRefused(t *testing.T) {
	for name, tc := range map[string]struct{ source, want string }{
		"TypoHTTP":    {`http: {url: "https://h/x", secretRef: {name: typo}}`, "Fetching: Unknown secret field 'user' in secret 'typo' (hint: keys for http are username, password, token)"},
		"TypoImage":   {`image: {url: x, secretRef: {name: typo}}`, "Fetching: Unknown secret field 'user' in secret 'typo' (hint: keys for registry are hostname, username, password, token, identity-token)"},
		"DockerHTTP":  {`http: {url: "https://h/x", secretRef: {name: many}}`, "Fetching: Unknown secret field '.dockerconfigjson' in secret 'many' (hint: keys for http are username, password, token)"},
		"DockerAuth":  {`helmChart: {name: c, version: "1", repository: {url: "oci://r.example:5000/a", secretRef: {name: broken}}}`, "Fetching: Expected auth of 'r.example:5000' in secret 'broken' to be 'username:password' in base64, but it is not"},
		"BearerPlain": {`git: {url: "http://h/x", ref: v1, secretRef: {name: bearer}}`, "Fetching: Key 'bearerToken' of secret 'bearer' is only supported for https remotes"},
		"BearerBad":   {`git: {url: "https://h/x", ref: v1, secretRef: {name: badbearer}}`, "Fetching: Key 'bearerToken' of secret 'badbearer' is no token: it has control characters"},
		"CABad":       {`git: {url: "https://h/x", ref: v1, secretRef: {name: badca}}`, "Fetching: Key 'ca.crt' of secret 'badca' has no certificate in PEM"},
	} {
		t.Run(name, func(t *testing.T) {
			ws := &fake{}
			res := fetch.New(stored(t)).Fetch(t.Context(), ws, fetch.Request{Sources: sources(t, "[{"+tc.source+"}]")})
			if res.Err != tc.want || len(ws.runs) != 0 {
				t.Errorf("error %q, %d runs; want %q", res.Err, len(ws.runs), tc.want)
			}
		})
	}
	if res := fetch.New(stored(t)).Fetch(t.Context(), &fake{}, fetch.Request{Sources: sources(t, `[{image: {url: x, secretRef: {name: none}}}]`)}); res.Failed() {
		t.Errorf("a Secret without keys: %s", res.Err)
	}
}

// TestGitHome: what git finds in its home while vendir runs, and not after.
func TestGitHome(t *testing.T) {
	for name, tc := range map[string]struct {
		text, conf, cas string
		files           []string
	}{
		"Nothing": {text: `[{git: {url: "https://h/x", ref: v1}}, {git: {url: "git@h:x", ref: v1, secretRef: {name: login}}}]`},
		"All": {
			text: `[{inline: {paths: {a: b}}}, {git: {url: "https://me@h:8443/x.git", ref: v1, secretRef: {name: git}}}]`,
			conf: "[http \"https://h:8443/\"]\n\textraHeader =\n\textraHeader = \"Authorization: Bearer t0k3n\"\n" +
				"[credential \"https://h:8443/\"]\n\thelper = store --file ~/login-1\n",
			cas: "GARBOARD_GIT_CAS=https://h:8443/=home/ca-1.crt", files: []string{"home/ca-1.crt", "home/login-1"},
		},
		"Quoted": {text: `[{git: {url: "https://h/x", ref: v1, secretRef: {name: bearer}}}]`,
			conf: "[http \"https://h/\"]\n\textraHeader =\n\textraHeader = \"Authorization: Bearer t0\\\"k\\\\3n\"\n"},
		"TwoLogins": {
			text: `[{git: {url: "https://h/a/x", ref: v1, secretRef: {name: bearer}}}, {git: {url: "https://h/b/y", ref: v1, secretRef: {name: login}}}]`,
			conf: "[http \"https://h/a/x\"]\n\textraHeader =\n\textraHeader = \"Authorization: Bearer t0\\\"k\\\\3n\"\n" +
				"[credential \"https://h/b/y\"]\n\thelper = store --file ~/login-1\n",
			files: []string{"home/login-1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var there map[string]string
			ws := &fake{}
			ws.run = func(tool.Command) (tool.Result, error) {
				there = map[string]string{}
				for p, content := range ws.files {
					there[p] = content
				}
				return tool.Result{}, nil
			}
			res := fetch.New(stored(t)).Fetch(t.Context(), ws, fetch.Request{Sources: sources(t, tc.text)})
			if res.Err != "" {
				t.Fatal(res.Err)
			}
			if diff := cmp.Diff(tc.conf, there["home/.gitconfig"]); diff != "" {
				t.Error(diff)
			}
			for _, f := range tc.files {
				if there[f] == "" {
					t.Errorf("%s is missing", f)
				}
			}
			if want := len(tc.files) + min(1, len(tc.conf)); len(there) != want {
				t.Errorf("%d files, want %d", len(there), want)
			}
			if len(ws.files) != 0 {
				t.Errorf("left for later tools: %v", ws.files)
			}
			if got := strings.Join(ws.vendir(t).Env[2:], " "); got != tc.cas {
				t.Errorf("environment has %q", got)
			}
		})
	}
}

// TestCacheable: what is kept whole, and when vendir may keep images.
func TestCacheable(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("0", 64)
	commit := strings.Repeat("0a", 20)
	for name, tc := range map[string]struct {
		in   string
		want tool.Cache
	}{
		"Tag":          {`[{image: {url: "r/x:1"}}]`, tool.CacheNothing},
		"Digest":       {`[{image: {url: "r/x` + digest + `"}}]`, tool.CacheAll},
		"TagAndDigest": {`[{image: {url: "r/x:1` + digest + `"}}, {inline: {paths: {a: b}}}]`, tool.CacheAll},
		"Bundle":       {`[{imgpkgBundle: {image: "r/x` + digest + `"}}]`, tool.CacheParts},
		"BundleTag":    {`[{imgpkgBundle: {image: "r/x:1"}}]`, tool.CacheNothing},
		"Selection":    {`[{image: {url: "r/x` + digest + `", tagSelection: {semver: {}}}}]`, tool.CacheNothing},
		"Checksum":     {`[{http: {url: "https://h/x", sha256: abc}}]`, tool.CacheAll},
		"NoChecksum":   {`[{http: {url: "https://h/x"}}]`, tool.CacheNothing},
		"Commit":       {`[{git: {url: "https://h/x", ref: ` + commit + `}}]`, tool.CacheAll},
		"ShortCommit":  {`[{git: {url: "https://h/x", ref: 0a0a0a0}}]`, tool.CacheNothing},
		"Branch":       {`[{git: {url: "https://h/x", ref: origin/` + commit + `}}]`, tool.CacheNothing},
		"Chart":        {`[{helmChart: {name: x, version: 1.2.3, repository: {url: "https://h"}}}]`, tool.CacheNothing},
		"ChartDigest":  {`[{helmChart: {name: "oci://h/x` + digest + `"}}]`, tool.CacheAll},
		"Mixed":        {`[{image: {url: "r/x` + digest + `"}}, {git: {url: "https://h/x", ref: origin/main}}]`, tool.CacheParts},
	} {
		t.Run(name, func(t *testing.T) {
			ws := &fake{}
			if res := fetch.New(newObjects()).Fetch(t.Context(), ws, fetch.Request{Sources: sources(t, tc.in)}); res.Failed() {
				t.Fatal(res.Err)
			}
			if got := ws.vendir(t).Cache; got != tc.want {
				t.Errorf("cache %d, want %d", got, tc.want)
			}
		})
	}
}

// TestWarnings: a host that nobody checked is told of a fetch that worked.
func TestWarnings(t *testing.T) {
	o := newObjects(secret("key", "ssh-privatekey", "k"), secret("both", "identity", "k", "known_hosts", "h"))
	for text, want := range map[string]string{
		`{url: "ssh://git@h:22/x", ref: v1, secretRef: {name: key}}`: "Warning: source 0: whether 'h:22' is the right host was not checked (hint: put its host keys into the Secret, key ssh-knownhosts)\n",
		`{url: "git@h:x", ref: v1, secretRef: {name: key}}`:          "Warning: source 0: whether 'h' is the right host was not checked (hint: put its host keys into the Secret, key ssh-knownhosts)\n",
		`{url: "git@h:x", ref: v1, secretRef: {name: both}}`:         "",
		`{url: "https://h/x", ref: v1, secretRef: {name: both}}`:     "",
	} {
		res := fetch.New(o).Fetch(t.Context(), &fake{}, fetch.Request{Sources: sources(t, "[{git: "+text+"}]")})
		if res.Failed() || res.Stderr != want {
			t.Errorf("%s: %q, %q", text, res.Err, res.Stderr)
		}
	}
}

// TestPlaceholderHint: the failure with an empty pull secret names it.
func TestPlaceholderHint(t *testing.T) {
	asked := docker("asked")
	asked.Annotations = map[string]string{"secretgen.carvel.dev/image-pull-secret": ""}
	o := newObjects(asked, docker("empty"), docker("full", `"h":{}`), secret("login", "username", "u"))
	for name, want := range map[string]string{
		"asked": "vendir: Error: no\n(hint: secret 'asked' is a placeholder without registry credentials yet; secretgen-controller fills it from SecretExports that are offered to this namespace, and then this is fetched again at once)\n",
		"empty": "vendir: Error: no\n(hint: secret 'empty' has no registry credentials; once it has, this is fetched again at once)\n",
		"full":  "vendir: Error: no\n", "login": "vendir: Error: no\n",
	} {
		ws := &fake{run: func(tool.Command) (tool.Result, error) {
			return tool.Result{Stderr: []byte("vendir: Error: no\n"), ExitCode: 1}, nil
		}}
		res := fetch.New(o).Fetch(t.Context(), ws, fetch.Request{Sources: sources(t, "[{image: {url: r/x, secretRef: {name: "+name+"}}}]")})
		if res.Stderr != want {
			t.Errorf("%s: %q", name, res.Stderr)
		}
	}
}
