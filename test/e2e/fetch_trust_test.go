package e2e

import (
	"fmt"
	"testing"

	"github.com/garboard-dev/garboard/test/testenv"
	"github.com/garboard-dev/garboard/test/testenv/registry"
)

// Tests in this file change the configuration of the shared controller, so none is
// parallel.

// TestFetchChartLogin: charts at a path of a registry that asks for a login, with a
// certificate of an authority that the configuration names.
func TestFetchChartLogin(t *testing.T) {
	private, err := registry.Start(t.Context(), registry.Options{
		BinDir: env.BinDir("dev"), ToolDir: env.BinDir("tools"), Dir: t.TempDir(),
		User: testenv.ServerUser, Password: testenv.ServerPassword, CA: servers.CA,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer private.Close()
	if err := private.PushChart(t.Context(), "a/b/c", nestedChart("1.0.0")); err != nil {
		t.Fatal(err)
	}
	defer unconfigure(t)
	configure(t, map[string]string{"caCerts": string(servers.CA.CertPEM)}, accepted)
	spec := chartApp("name: nested, version: 1.0.0, repository: {url: 'oci://" + private.Host() + "/a/b/c', secretRef: {name: s}}")
	w := newWorld(t)
	for name, c := range map[string]struct {
		secret string
		ok     bool
	}{
		"login":   {fmt.Sprintf("stringData: {username: %q, password: %q}", testenv.ServerUser, testenv.ServerPassword), true},
		"host":    {dockerConfig("a.example.com", private.Host()), true},
		"address": {dockerConfig("a.example.com", "https://"+private.Host()+"/v1/"), true},
		"others":  {dockerConfig("a.example.com", "b.example.com"), false},
		"empty":   {"type: kubernetes.io/dockerconfigjson\nstringData: {.dockerconfigjson: '{\"auths\":{}}'}", false},
	} {
		w := newWorld(t)
		w.apply("apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n" + c.secret)
		w.app(name, spec)
		if c.ok {
			w.succeeded(name)
			w.wantConfigMap("fetched", map[string]string{"from": "1.0.0"})
			continue
		}
		if problem := contains(w.failed(name).Status.UsefulErrorMessage, "basic credential not found"); problem != "" {
			t.Errorf("%s: %s", name, problem)
		}
	}
	w.app("anonymous", chartApp("name: nested, version: 1.0.0, repository: {url: 'oci://"+private.Host()+"/a/b/c'}"))
	if problem := contains(w.failed("anonymous").Status.UsefulErrorMessage, "basic credential not found"); problem != "" {
		t.Error(problem)
	}
}

// TestFetchSkipsTLS: a host without a port is trusted at all of them, by images,
// bundles and git.
func TestFetchSkipsTLS(t *testing.T) {
	must[string](t)(servers.TLSRegistry.PushImage(t.Context(), "skips/image:1", source("image")))
	must[string](t)(servers.TLSRegistry.PushBundle(t.Context(), "skips/bundle:1", source("bundle")))
	must[string](t)(servers.TLSGit.Commit(t.Context(), "skips", source("git"), "first"))
	defer unconfigure(t)
	configure(t, map[string]string{"dangerousSkipTLSVerify": "other.example.com:5000,127.0.0.1"}, accepted)
	const rest = "template: [{ytt: {paths: [config]}}]\ndeploy: [{kapp: {}}]\n"
	for name, spec := range map[string]string{
		"image":  fmt.Sprintf("fetch: [{image: {url: %q}}]\n", servers.TLSRegistry.Host()+"/skips/image:1") + rest,
		"bundle": fmt.Sprintf("fetch: [{imgpkgBundle: {image: %q}}]\n", servers.TLSRegistry.Host()+"/skips/bundle:1") + rest,
		"git":    gitApp(servers.TLSGit.RepoURL("skips"), "ref: origin/main, secretRef: {name: basic}"),
	} {
		w := newWorld(t)
		w.apply(credentials())
		w.app(name, spec)
		w.succeeded(name)
		w.wantConfigMap("fetched", map[string]string{"from": name})
	}
}
