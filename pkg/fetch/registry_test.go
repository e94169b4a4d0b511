package fetch_test

import (
	"archive/tar"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard-dev/garboard/pkg/fetch"
	"github.com/garboard-dev/garboard/test/workspace"
)

// registryWithLogin serves an OCI registry over TLS that wants robot's password.
func registryWithLogin(t *testing.T) *httptest.Server {
	t.Helper()
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u, p, _ := r.BasicAuth(); u != "robot" || p != "right-pass" {
			w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
			http.Error(w, "login needed", http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

// image is an image with one layer and what change makes of it.
type image struct {
	layer  []byte
	kind   types.MediaType
	change func(v1.Image) (v1.Image, error)
}

func push(t *testing.T, server *httptest.Server, repo string, of image) {
	t.Helper()
	img, err := mutate.Append(mutate.MediaType(empty.Image, types.OCIManifestSchema1), mutate.Addendum{Layer: static.NewLayer(of.layer, of.kind)})
	if err == nil && of.change != nil {
		img, err = of.change(img)
	}
	if err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(host(server) + "/" + repo)
	if err != nil {
		t.Fatal(err)
	}
	err = remote.Write(ref, img, remote.WithTransport(server.Client().Transport), remote.WithAuth(&authn.Basic{Username: "robot", Password: "right-pass"}))
	if err != nil {
		t.Fatal(err)
	}
}

func host(server *httptest.Server) string { return strings.TrimPrefix(server.URL, "https://") }

func certificate(server *httptest.Server) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
}

// TestVendirRegistry fetches images, bundles and charts with a login, from a
// registry with an authority of its own.
func TestVendirRegistry(t *testing.T) {
	server := registryWithLogin(t)
	push(t, server, "team/app:1.0.0", image{layer: tarGz(t, member{name: "config/app.yml", content: "kind: App\n"}), kind: types.OCILayer})
	push(t, server, "team/app:1.1.0-rc.1", image{layer: tarGz(t, member{name: "rc"}), kind: types.OCILayer})
	push(t, server, "team/bundle:1.0.0", image{
		layer: tarGz(t,
			member{name: "app.yml", content: "kind: App\n"},
			member{name: ".imgpkg/images.yml", content: "apiVersion: imgpkg.carvel.dev/v1alpha1\nkind: ImagesLock\n"},
		),
		kind: types.OCILayer,
		change: func(img v1.Image) (v1.Image, error) {
			return mutate.Config(img, v1.Config{Labels: map[string]string{"dev.carvel.imgpkg.bundle": "true"}})
		},
	})
	push(t, server, "a/b/chart:1.2.3", image{
		layer: tarGz(t, member{name: "chart/Chart.yaml", content: "apiVersion: v2\nname: chart\nversion: 1.2.3\n"}),
		kind:  "application/vnd.cncf.helm.chart.content.v1.tar+gzip",
		change: func(img v1.Image) (v1.Image, error) {
			return mutate.ConfigMediaType(img, "application/vnd.cncf.helm.config.v1+json"), nil
		},
	})
	docker := func(password string) *corev1.Secret {
		auth := base64.StdEncoding.EncodeToString([]byte("robot:" + password))
		s := secret("docker-"+password, ".dockerconfigjson", fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, host(server), auth))
		s.Type = corev1.SecretTypeDockerConfigJson
		return s
	}
	stored := newObjects(docker("right-pass"), docker("wrong-pass"), secret("login", "username", "robot", "password", "right-pass"))
	ca := certificate(server)
	for name, tc := range map[string]struct {
		source, ca, lock string
		skip             bool
		want             map[string]string // nil: fails
	}{
		"Image":       {`image: {url: HOST/team/app:1.0.0, subPath: config, secretRef: {name: docker-right-pass}}`, ca, "url: HOST/team/app@sha256:", false, map[string]string{"app.yml": "kind: App\n"}},
		"Login":       {`image: {url: HOST/team/app:1.0.0, secretRef: {name: login}}`, ca, "", false, map[string]string{"config/app.yml": "kind: App\n"}},
		"Selection":   {`image: {url: HOST/team/app, tagSelection: {semver: {constraints: "<2.0.0"}}, secretRef: {name: login}}`, ca, "tag: 1.0.0", false, map[string]string{"config/app.yml": "kind: App\n"}},
		"Prereleases": {`image: {url: HOST/team/app, tagSelection: {semver: {prereleases: {}}}, secretRef: {name: login}}`, ca, "tag: 1.1.0-rc.1", false, map[string]string{"rc": ""}},
		"SkipTLS":     {`image: {url: HOST/team/app:1.0.0, secretRef: {name: login}}`, "", "", true, map[string]string{"config/app.yml": "kind: App\n"}},
		"Bundle": {`imgpkgBundle: {image: HOST/team/bundle:1.0.0, secretRef: {name: docker-right-pass}}`, ca, "- imgpkgBundle:", false,
			map[string]string{"app.yml": "kind: App\n", ".imgpkg/images.yml": "---\napiVersion: imgpkg.carvel.dev/v1alpha1\nkind: ImagesLock\n"}},
		"ChartNested": {`helmChart: {name: chart, version: 1.2.3, repository: {url: "oci://HOST/a/b", secretRef: {name: login}}}`, ca, "version: 1.2.3", false, map[string]string{"Chart.yaml": "apiVersion: v2\nname: chart\nversion: 1.2.3\n"}},
		"WrongLogin":  {`image: {url: HOST/team/app:1.0.0, secretRef: {name: docker-wrong-pass}}`, ca, "", false, nil},
		"Anonymous":   {`imgpkgBundle: {image: HOST/team/bundle:1.0.0}`, ca, "", false, nil},
		"Untrusted":   {`image: {url: HOST/team/app:1.0.0, secretRef: {name: login}}`, "", "", false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			ws := workspace.NewTrusting(t, tc.ca)
			text := "[{" + strings.ReplaceAll(tc.source, "HOST", host(server)) + "}]"
			res := fetch.New(stored).Fetch(t.Context(), ws, fetch.Request{
				Namespace: "team-a", Sources: sources(t, text), SkipTLS: func(authority string) bool { return tc.skip && authority == host(server) },
			})
			if res.Failed() != (tc.want == nil) || !strings.Contains(res.Stdout, strings.ReplaceAll(tc.lock, "HOST", host(server))) {
				t.Fatalf("%s\n%s\n%s", res.Err, res.Stderr, res.Stdout)
			}
			if strings.Contains(res.Stderr, "-pass") {
				t.Errorf("a password is shown: %s", res.Stderr)
			}
			if hinted := strings.Contains(res.Stderr, "\n(hint: The CA"); hinted != (name == "Untrusted") {
				t.Errorf("hint: %v: %s", hinted, res.Stderr)
			}
			if res.Failed() {
				t.Log(res.Stderr)
				return
			}
			if diff := cmp.Diff(tc.want, ws.Tree(res.Root)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestHostileLayers: what a layer of an image or a chart holds besides files and
// folders either ends the fetch or is left out, and nothing lands outside.
func TestHostileLayers(t *testing.T) {
	server := registryWithLogin(t)
	stored := newObjects(secret("login", "username", "robot", "password", "right-pass"))
	ca := certificate(server)
	link := func(name, to string) member { return member{name: name, link: to, kind: tar.TypeSymlink} }
	large := make([]member, 5)
	for i := range large {
		large[i] = zeros(fmt.Sprintf("chart/%d", i), workspace.MaxBytes/4)
	}
	for name, tc := range map[string]struct {
		members []member
		// failed has "image" and "chart" for what fails.
		failed string
		err    string
	}{
		"LinkOutside":  {[]member{link("chart/l", "../../../../../../etc/passwd")}, "", ""},
		"LinkAbsolute": {[]member{link("chart/l", "/etc/passwd")}, "", ""},
		"LinkThrough":  {[]member{link("chart/d", "/tmp"), {name: "chart/d/up", content: "x"}}, "chart", ""},
		"HardLink":     {[]member{{name: "chart/l", link: "../../../x", kind: tar.TypeLink}}, "", ""},
		"Device":       {[]member{{name: "chart/d", kind: tar.TypeChar}}, "", ""},
		"NameOutside":  {[]member{{name: "chart/../../../../up", content: "x"}}, "image chart", ""},
		"NameAbsolute": {[]member{{name: "/up", content: "x"}}, "image chart", ""},
		"Bomb":         {large, "image chart", "Fetching resources: "},
	} {
		layer := tarGz(t, append([]member{{name: "chart/Chart.yaml", content: "apiVersion: v2\nname: chart\nversion: 1.0.0\n"}}, tc.members...)...)
		push(t, server, "hostile/"+strings.ToLower(name)+"/image:1.0.0", image{layer: layer, kind: types.OCILayer})
		push(t, server, "hostile/"+strings.ToLower(name)+"/chart:1.0.0", image{
			layer: layer, kind: "application/vnd.cncf.helm.chart.content.v1.tar+gzip",
			change: func(img v1.Image) (v1.Image, error) {
				return mutate.ConfigMediaType(img, "application/vnd.cncf.helm.config.v1+json"), nil
			},
		})
		at := host(server) + "/hostile/" + strings.ToLower(name)
		for kind, source := range map[string]string{
			"image": "image: {url: " + at + "/image:1.0.0, secretRef: {name: login}}",
			"chart": "helmChart: {name: chart, version: 1.0.0, repository: {url: oci://" + at + ", secretRef: {name: login}}}",
		} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				ws := workspace.NewTrusting(t, ca)
				res := fetch.New(stored).Fetch(t.Context(), ws, fetch.Request{Sources: sources(t, "[{"+source+"}]")})
				if res.Failed() != strings.Contains(tc.failed, kind) || !strings.HasPrefix(res.Err, tc.err) {
					t.Errorf("error %q: %s", res.Err, res.Stderr)
				}
				for p, content := range ws.Tree(".") {
					if strings.HasSuffix(p, "/up") && !strings.HasPrefix(p, "src/0/") || strings.HasPrefix(content, "-> ") {
						t.Errorf("%s: %s", p, content)
					}
				}
			})
		}
	}
}
