package fetch_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard-dev/garboard/pkg/fetch"
	"github.com/garboard-dev/garboard/test/workspace"
)

// TestResolve: what is told about sources without a fetch, and that it changes when
// they do.
func TestResolve(t *testing.T) {
	server := registryWithLogin(t)
	put := func(content string) {
		push(t, server, "team/app:1", image{layer: tarGz(t, member{name: "app.yml", content: content}), kind: "application/vnd.oci.image.layer.v1.tar+gzip"})
	}
	put("one")
	s := secret("docker", ".dockerconfigjson", `{"auths":{"`+host(server)+`":{"username":"robot","password":"right-pass"}}}`)
	s.Type = corev1.SecretTypeDockerConfigJson
	stored := newObjects(s, secret("login", "username", "robot", "password", "right-pass"), secret("wrong", "username", "robot", "password", "wrong-pass"), secret("files", "a.yml", "a: 1"))
	const digest = "@sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"
	ws := workspace.NewTrusting(t, certificate(server))
	resolve := func(source string) (string, error) {
		return fetch.New(stored).Resolve(t.Context(), ws, fetch.Request{Namespace: "team-a", Sources: sources(t, "[{"+strings.ReplaceAll(source, "HOST", host(server))+"}]")})
	}
	for name, c := range map[string]struct {
		source       string
		known, fails bool
	}{
		"Image":     {`image: {url: HOST/team/app:1, secretRef: {name: docker}}`, true, false},
		"Bundle":    {`imgpkgBundle: {image: HOST/team/app:1, secretRef: {name: login}}`, true, false},
		"Digest":    {`image: {url: "HOST/team/none` + digest + `"}`, true, false},
		"Selection": {`image: {url: HOST/team/app, tagSelection: {semver: {}}, secretRef: {name: login}}`, false, false},
		"Inline":    {`inline: {pathsFrom: [{secretRef: {name: files}}]}`, true, false},
		"Commit":    {`git: {url: "https://git.example.com/a.git", ref: 2c26b46b68ffc68ff99b453c1d30413413422d70}`, true, false},
		"Branch":    {`git: {url: "https://git.example.com/a.git", ref: origin/main}`, false, false},
		"HTTP":      {`http: {url: "https://files.example.com/a.tgz"}`, false, false},
		"HTTPSum":   {`http: {url: "https://files.example.com/a.tgz", sha256: 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae}`, true, false},
		"Missing":   {`image: {url: HOST/team/app:2, secretRef: {name: login}}`, false, true},
		"Login":     {`image: {url: HOST/team/app:1, secretRef: {name: wrong}}`, false, true},
		"NoSecret":  {`image: {url: HOST/team/app:1, secretRef: {name: none}}`, false, true},
		"Invalid":   {`git: {url: "ext::sh", ref: a}`, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			first, err := resolve(c.source)
			if (first != "") != c.known || (err != nil) != c.fails || err != nil && strings.Contains(err.Error(), "-pass") {
				t.Fatalf("%q, %v", first, err)
			}
			if again, _ := resolve(c.source); again != first {
				t.Errorf("%q, then %q", first, again)
			}
		})
	}
	const source = `image: {url: HOST/team/app:1, secretRef: {name: docker}}`
	before, err := resolve(source)
	if err != nil {
		t.Fatal(err)
	}
	put("two")
	if after, err := resolve(source); err != nil || after == before {
		t.Errorf("a new image is not noticed: %v", err)
	}
}
