package main

import (
	"encoding/json"
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
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// serve starts a registry that wants a login and has one image, team/app:1, and
// returns its host, the image's digest and what was asked of it since.
func serve(t *testing.T) (host, digest string, requests func() []string) {
	t.Helper()
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.Path)
		if u, p, _ := r.BasicAuth(); u != "robot" || p != "pass:word" {
			w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
			http.Error(w, "login needed", http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	host = strings.TrimPrefix(server.URL, "http://")
	ref, err := name.ParseReference(host + "/team/app:1")
	if err == nil {
		err = remote.Write(ref, empty.Image, remote.WithAuth(&authn.Basic{Username: "robot", Password: "pass:word"}))
	}
	if err != nil {
		t.Fatal(err)
	}
	hash, err := empty.Image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	asked = nil
	return host, hash.String(), func() []string { return asked }
}

func TestRun(t *testing.T) {
	good := auth{Username: "robot", Password: "pass:word"}
	cases := map[string]struct {
		reason string
		in     func(host string) input
		fails  string
	}{
		"Login": {"by host", func(h string) input { return input{Image: h + "/team/app:1", Auths: map[string]auth{h: good}} }, ""},
		"Docker": {"as docker writes it", func(h string) input {
			return input{Image: h + "/team/app:1", Auths: map[string]auth{"https://" + h + "/v2/": {Auth: "cm9ib3Q6cGFzczp3b3Jk"}}}
		}, ""},
		"Path": {"the longest path that fits", func(h string) input {
			return input{Image: h + "/team/app:1", Auths: map[string]auth{h: {Username: "x"}, h + "/team": good, h + "/team/ap": {Username: "y"}}}
		}, ""},
		"Any": {"credentials without a host", func(h string) input { return input{Image: h + "/team/app:1", Any: &good} }, ""},
		"OtherHost": {"are not for this one", func(h string) input {
			return input{Image: h + "/team/app:1", Auths: map[string]auth{"other.example.com": good}}
		}, "401"},
		"WrongLogin": {"the registry refuses", func(h string) input {
			return input{Image: h + "/team/app:1", Any: &auth{Username: "robot", Password: "wrong"}}
		}, "401"},
		"NoImage": {"a tag that is not there", func(h string) input { return input{Image: h + "/team/app:2", Any: &good} }, "404"},
		"BadAuth": {"no base64", func(h string) input { return input{Image: h + "/team/app:1", Any: &auth{Auth: "%%"}} }, "cannot be read"},
		"BadName": {"no reference", func(string) input { return input{Image: "UPPER/CASE::"} }, "could not parse"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			host, digest, requests := serve(t)
			text, err := json.Marshal(c.in(host))
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			err = run(t.Context(), strings.NewReader(string(text)), &out)
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) || strings.Contains(err.Error(), "pass:word") || strings.Contains(err.Error(), "wrong") {
					t.Errorf("%s: %v", c.reason, err)
				}
				return
			}
			if err != nil || out.String() != digest+"\n" {
				t.Errorf("%s: %v %q", c.reason, err, out.String())
			}
			if diff := cmp.Diff([]string{"GET /v2/", "HEAD /v2/team/app/manifests/1"}, requests()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
