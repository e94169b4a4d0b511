package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard-dev/garboard/test/testenv"
)

// dockerConfig is a pull secret with a login for each registry; a host may come as an
// address.
func dockerConfig(hosts ...string) string {
	var auths []string
	for i, host := range hosts {
		if i == 0 {
			auths = append(auths, fmt.Sprintf("%q:{\"username\":\"other\",\"password\":\"other-passw0rd\"}", host))
			continue
		}
		auth := base64.StdEncoding.EncodeToString([]byte(testenv.ServerUser + ":" + testenv.ServerPassword))
		auths = append(auths, fmt.Sprintf("%q:{\"auth\":%q}", host, auth))
	}
	return "type: kubernetes.io/dockerconfigjson\nstringData: {.dockerconfigjson: '{\"auths\":{" + strings.Join(auths, ",") + "}}'}"
}

// TestFetchImages: tags that are chosen, and Secrets with logins for many registries,
// for images and bundles alike.
func TestFetchImages(t *testing.T) {
	t.Parallel()
	ctx, pushed := t.Context(), must[string](t)
	for _, tag := range []string{"1.0.0", "v1.2.0", "2.0.0-alpha.1", "2.0.0-rc.1", "latest"} {
		pushed(servers.Registry.PushImage(ctx, "select/image:"+tag, source(tag)))
		pushed(servers.Registry.PushBundle(ctx, "select/bundle:"+tag, source(tag)))
	}
	pushed(servers.PrivateRegistry.PushImage(ctx, "many/image:1", source("private")))
	pushed(servers.PrivateRegistry.PushBundle(ctx, "many/bundle:1", source("private")))
	const rest = "template: [{ytt: {paths: [config]}}]\ndeploy: [{kapp: {}}]\n"
	cases := map[string]fetchCase{}
	for kind, member := range map[string][2]string{"Image": {"image", "url"}, "Bundle": {"imgpkgBundle", "image"}} {
		app := func(host, path, fields string) string {
			return fmt.Sprintf("fetch: [{%s: {%s: %q, %s}}]\n", member[0], member[1], host+path+strings.ToLower(kind), fields) + rest
		}
		open := func(semver string) string {
			return app(servers.Registry.Host(), "/select/", "tagSelection: {semver: "+semver+"}")
		}
		many := app(servers.PrivateRegistry.Host(), "/many/", "secretRef: {name: s}")
		many = strings.Replace(many, strings.ToLower(kind)+`"`, strings.ToLower(kind)+`:1"`, 1)
		cases[kind+"Highest"] = fetchCase{spec: open("{}"), from: "v1.2.0", lock: "tag: v1.2.0"}
		cases[kind+"Identifiers"] = fetchCase{spec: open("{prereleases: {identifiers: [alpha, beta]}}"), from: "2.0.0-alpha.1", lock: "tag: 2.0.0-alpha.1"}
		cases[kind+"Many"] = fetchCase{secret: dockerConfig("a.example.com", servers.PrivateRegistry.Host(), "https://index.docker.io/v1/"), spec: many, from: "private", lock: "@sha256:"}
		if kind == "Bundle" {
			continue
		}
		cases["Constraint"] = fetchCase{spec: open("{constraints: '<1.2.0'}"), from: "1.0.0", lock: "tag: 1.0.0"}
		cases["Prereleases"] = fetchCase{spec: open("{constraints: '>1.0.0', prereleases: {}}"), from: "2.0.0-rc.1", lock: "tag: 2.0.0-rc.1"}
		cases["None"] = fetchCase{spec: open("{constraints: '>=9.0.0'}"), fails: "Expected to find at least one version, but did not " +
			"(details: all=4 -> after-prereleases-filter=2 -> after-constraints-filter=0)"}
		cases["NoneOfMany"] = fetchCase{secret: dockerConfig("a.example.com", "b.example.com"), spec: many, fails: "UNAUTHORIZED"}
		cases["Login"] = fetchCase{secret: fmt.Sprintf("stringData: {username: %q, password: %q, note: not for registries}", testenv.ServerUser, testenv.ServerPassword), spec: many, from: "private"}
		cases["NoKey"] = fetchCase{secret: "stringData: {user: x}", spec: many, fails: "Unknown secret field 'user' in secret 's' (hint: keys for registry are hostname, username, "}
	}
	runFetch(t, cases)
}

// nestedChart is a chart whose ConfigMap says its version.
func nestedChart(version string) fstest.MapFS {
	return fstest.MapFS{
		"Chart.yaml":        {Data: []byte("apiVersion: v2\nname: nested\nappVersion: a" + version + "\nversion: " + version + "\n"), Mode: 0o644},
		"templates/cm.yaml": {Data: []byte(cm("fetched", "from", version)), Mode: 0o644},
	}
}

func chartApp(fields string) string {
	return "fetch: [{helmChart: {" + fields + "}}]\ntemplate: [{helmTemplate: {}}]\ndeploy: [{kapp: {}}]\n"
}

// TestFetchCharts: repositories at a path of a registry, charts by digest, versions
// that are chosen.
func TestFetchCharts(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for _, version := range []string{"1.0.0", "1.1.0"} {
		for _, err := range []error{servers.Registry.PushChart(ctx, "a/b/c", nestedChart(version)), servers.Helm.Add(ctx, nestedChart(version))} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	digest := must[string](t)(servers.Registry.Digest(ctx, "a/b/c/nested:1.0.0"))
	oci, repo := "oci://"+servers.Registry.Host(), "repository: {url: '"+servers.Helm.URL()+"'}"
	runFetch(t, map[string]fetchCase{
		"Nested":     {spec: chartApp("name: nested, version: 1.0.0, repository: {url: '" + oci + "/a/b/c'}"), from: "1.0.0", lock: "appVersion: a1.0.0"},
		"NameIsPath": {spec: chartApp("name: b/c/nested, version: 1.0.0, repository: {url: '" + oci + "/a'}"), from: "1.0.0"},
		"NameIsURL":  {spec: chartApp("name: '" + oci + "/a/b/c/nested', version: 1.0.0"), from: "1.0.0"},
		"Digest":     {spec: chartApp("name: '" + oci + "/a/b/c/nested@" + digest + "'"), from: "1.0.0"},
		"Latest":     {spec: chartApp("name: nested, " + repo), from: "1.1.0", lock: "version: 1.1.0"},
		"Range":      {spec: chartApp("name: nested, version: '<1.1.0', " + repo), from: "1.0.0", lock: "version: 1.0.0"},
		"NoVersion":  {spec: chartApp("name: nested, version: 9.9.9, " + repo), fails: "9.9.9"},
		"NoKey": {secret: "stringData: {.dockerconfigjson: '{}'}", spec: chartApp("name: nested, repository: {url: '" + servers.PrivateHelm.URL() + "', secretRef: {name: s}}"),
			fails: "Unknown secret field '.dockerconfigjson' in secret 's' (hint: keys for helm are username, password)"},
	})
}

// TestPlaceholder: an App whose pull secret is still to be filled says so, and goes
// on as soon as it is, whatever its sync period.
func TestPlaceholder(t *testing.T) {
	t.Parallel()
	must[string](t)(servers.PrivateRegistry.PushBundle(t.Context(), "placeholder/bundle:1", source("filled")))
	w := newWorld(t)
	w.apply(`{apiVersion: v1, kind: Secret, metadata: {name: pull, annotations: {secretgen.carvel.dev/image-pull-secret: ""}},
type: kubernetes.io/dockerconfigjson, stringData: {.dockerconfigjson: '{"auths":{}}'}}`)
	w.app("waits", fmt.Sprintf("syncPeriod: 10h\nfetch: [{imgpkgBundle: {image: %q, secretRef: {name: pull}}}]\n", servers.PrivateRegistry.Host()+"/placeholder/bundle:1")+
		"template: [{ytt: {paths: [config]}}]\ndeploy: [{kapp: {}}]\n")
	failed := w.failed("waits")
	if problem := contains(failed.Status.UsefulErrorMessage, "\n(hint: secret 'pull' is a placeholder without registry credentials yet; secretgen-controller fills it"); problem != "" {
		t.Error(problem)
	}
	w.untilEventOf("waits", "ReconcileFailed")
	// What secretgen-controller does.
	secrets := env.Core.CoreV1().Secrets(w.ns)
	s, err := secrets.Get(t.Context(), "pull", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.Data = map[string][]byte{corev1.DockerConfigJsonKey: fmt.Appendf(nil, `{"auths":{%q:{"username":%q,"password":%q}}}`, servers.PrivateRegistry.Host(), testenv.ServerUser, testenv.ServerPassword)}
	if _, err := secrets.Update(t.Context(), s, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.succeeded("waits")
	w.wantConfigMap("fetched", map[string]string{"from": "filled"})
}

// untilEventOf waits for an event about an App.
func (w world) untilEventOf(name, reason string) {
	w.Helper()
	testenv.Eventually(w, patience, func(ctx context.Context) string {
		events, err := env.Core.CoreV1().Events(w.ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		var seen []string
		for _, e := range events.Items {
			if e.InvolvedObject.Name == name && e.Reason == reason {
				return ""
			}
			seen = append(seen, e.InvolvedObject.Name+" "+e.Reason)
		}
		return fmt.Sprintf("events: %v", seen)
	})
}

// TestEmptyPullSecret: the same for a Secret that nobody is asked to fill.
func TestEmptyPullSecret(t *testing.T) {
	fetchCase{
		secret: "type: kubernetes.io/dockerconfigjson\nstringData: {.dockerconfigjson: '{\"auths\":{}}'}",
		spec:   fmt.Sprintf("fetch: [{image: {url: %q, secretRef: {name: s}}}]\n", servers.PrivateRegistry.Host()+"/none:1") + deployAll,
		fails:  "\n(hint: secret 's' has no registry credentials; once it has, this is fetched again at once)",
	}.run(t)
}
