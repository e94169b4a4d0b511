package fetch_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	vendir "carvel.dev/vendir/pkg/vendir/config"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/fetch"
)

// FuzzConfig: any spec is refused or becomes a configuration that says the same,
// whose folders are inside, and in which nothing can be an option.
func FuzzConfig(f *testing.F) {
	f.Add(byte(0), "../x", "https://h/x", "origin/main", "sub", "c")
	f.Add(byte(1), "a/../..", "git@h:x", "-x", "../s", "oci://h/c")
	f.Add(byte(2), "a", "https://h/x.tgz?y=%zz", "origin/--upload-pack=x", "s/./t", "")
	f.Add(byte(3), ".vendir-tmp-1", "ext::sh -c x", "v1\n---\nkind: Secret", "", "- a: b")
	f.Add(byte(4), "0", "oci://h/a/b", "1.0.0", "x", "name: {}")
	f.Add(byte(5), "x", "r.example:5000/x@sha256:0", "", "", "\xff\x00")
	f.Fuzz(func(t *testing.T, kind byte, path, url, ref, sub, name string) {
		src := v1alpha1.AppFetch{Path: path}
		secretRef := &v1alpha1.AppFetchLocalRef{Name: "s"}
		switch kind % 6 {
		case 0:
			src.Git = &v1alpha1.AppFetchGit{URL: url, Ref: ref, SubPath: sub, SecretRef: secretRef}
		case 1:
			src.HTTP = &v1alpha1.AppFetchHTTP{URL: url, SHA256: ref, SubPath: sub, SecretRef: secretRef}
		case 2:
			src.Image = &v1alpha1.AppFetchImage{URL: url, SubPath: sub, SecretRef: secretRef}
		case 3:
			src.ImgpkgBundle = &v1alpha1.AppFetchImgpkgBundle{Image: url, SecretRef: secretRef}
		case 4:
			src.HelmChart = &v1alpha1.AppFetchHelmChart{Name: name, Version: ref, Repository: &v1alpha1.AppFetchHelmChartRepo{URL: url, SecretRef: secretRef}}
		case 5:
			src.Inline = &v1alpha1.AppFetchInline{Paths: map[string]string{name: ref, sub: url}}
		}
		s := secret("s", "username", name, "password", ref)
		if kind&64 != 0 {
			s = secret("s", name, ref)
		}
		if kind&128 != 0 {
			s = secret("s", corev1.DockerConfigJsonKey, name)
			s.Type = corev1.SecretTypeDockerConfigJson
		}
		ws := &fake{}
		res := fetch.New(newObjects(s)).Fetch(t.Context(), ws, fetch.Request{Sources: []v1alpha1.AppFetch{src, {Inline: &v1alpha1.AppFetchInline{}, Path: "second"}}})
		for p := range ws.files {
			if !filepath.IsLocal(p) {
				t.Fatalf("file %q", p)
			}
		}
		if len(ws.runs) == 0 {
			if !res.Failed() {
				t.Fatal("neither run nor refused")
			}
			return
		}
		checkConfig(t, ws.runs[0].Stdin, src)
		if len(ws.runs) > 1 {
			var list []struct{ Dir, Name, SubPath string }
			if err := json.Unmarshal(ws.runs[1].Stdin, &list); err != nil || len(list) != 1 || !filepath.IsLocal(list[0].Dir) || list[0].Name == "" || strings.ContainsRune(list[0].Name, '/') {
				t.Fatalf("unpack gets %q: %v", ws.runs[1].Stdin, err)
			}
		}
	})
}

// checkConfig checks vendir's input for src.
func checkConfig(t *testing.T, input []byte, src v1alpha1.AppFetch) {
	t.Helper()
	documents := bytes.Split(input, []byte("\n---\n"))
	var conf vendir.Config
	if err := yaml.UnmarshalStrict(documents[len(documents)-1], &conf); err != nil {
		t.Fatalf("configuration cannot be read back: %v\n%s", err, input)
	}
	for _, d := range documents[:len(documents)-1] {
		var s vendir.Secret
		if err := yaml.Unmarshal(d, &s); err != nil || !strings.HasPrefix(s.Metadata.Name, "s") {
			t.Fatalf("document of no Secret: %v\n%s", err, d)
		}
	}
	if len(conf.Directories) != 2 || len(conf.Directories[0].Contents) != 1 {
		t.Fatalf("%d folders\n%s", len(conf.Directories), input)
	}
	if p := conf.Directories[0].Path; !filepath.IsLocal(p) || filepath.Clean(p) == "." || strings.HasPrefix(p, ".vendir-tmp") {
		t.Fatalf("folder %q", p)
	}
	c := conf.Directories[0].Contents[0]
	var arguments []string
	switch {
	case c.Git != nil:
		arguments = []string{c.Git.URL, c.Git.Ref, strings.TrimPrefix(c.Git.Ref, "origin/")}
		same(t, src.Git.URL, c.Git.URL)
		same(t, src.Git.Ref, c.Git.Ref)
		local(t, c.Git.URL)
	case c.HTTP != nil:
		same(t, src.HTTP.URL, c.HTTP.URL)
		local(t, c.HTTP.URL)
		if !c.HTTP.DisableUnpack {
			t.Fatal("vendir is to unpack")
		}
	case c.HelmChart != nil:
		arguments = []string{c.HelmChart.Name, c.HelmChart.Version, c.HelmChart.Repository.URL}
		local(t, c.HelmChart.Repository.URL)
		same(t, src.HelmChart.Version, c.HelmChart.Version)
	case c.Image != nil:
		same(t, src.Image.URL, c.Image.URL)
	}
	for _, a := range arguments {
		if strings.HasPrefix(a, "-") || strings.ContainsFunc(a, unicode.IsControl) {
			t.Fatalf("argument %q", a)
		}
	}
	// A leading slash means the root of what was fetched.
	if p := strings.TrimLeft(c.NewRootPath, "/"); p != "" && !filepath.IsLocal(p) {
		t.Fatalf("root path %q", c.NewRootPath)
	}
}

// same compares a field after its way through YAML, which has only valid UTF-8, as
// the API has.
func same(t *testing.T, want, got string) {
	t.Helper()
	if want != got && utf8.ValidString(want) {
		t.Fatalf("%q became %q", want, got)
	}
}

// local refuses addresses that lead to this machine's files or run programs.
func local(t *testing.T, address string) {
	t.Helper()
	scheme, _, found := strings.Cut(strings.ToLower(address), "://")
	if found && (scheme == "http" || scheme == "https" || scheme == "ssh" || scheme == "oci") {
		return
	}
	host, _, short := strings.Cut(address, ":")
	if !short || strings.Contains(address, "::") && !strings.Contains(address, "[") && strings.Index(address, "::") == len(host) || strings.ContainsAny(host, "/ ") {
		t.Fatalf("address %q", address)
	}
}
