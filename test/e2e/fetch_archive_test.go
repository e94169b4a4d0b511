package e2e

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"fmt"
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/garboard-dev/garboard/test/testenv/files"
)

// TestFetchLinks: links that stay inside are followed where templates are, whichever
// way they come; an archive with anything else is refused by the name of the entry.
func TestFetchLinks(t *testing.T) {
	t.Parallel()
	good := cm("fetched", "from", "link")
	link := tar.Header{Name: "config/cm.yml", Linkname: "../a.yml", Typeflag: tar.TypeSymlink}
	targz := func(entries ...tar.Header) []byte { return packedFile(t, good, entries...) }
	tree := fstest.MapFS{
		"a.yml":         {Data: []byte(good), Mode: 0o644},
		"config/cm.yml": {Data: []byte("../a.yml"), Mode: fs.ModeSymlink | 0o777},
	}
	must[string](t)(servers.Git.Commit(t.Context(), "links", tree, "links"))
	var zipped bytes.Buffer
	z := zip.NewWriter(&zipped)
	for _, name := range []string{"a.yml", "config/cm.yml"} {
		h := &zip.FileHeader{Name: name, Method: zip.Deflate}
		h.SetMode(tree[name].Mode)
		w, err := z.CreateHeader(h)
		if err == nil {
			_, err = w.Write(tree[name].Data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	const rest = "template: [{ytt: {paths: [config]}}]\ndeploy: [{kapp: {}}]\n"
	app := func(name string, content []byte, fields string) string {
		return fmt.Sprintf("fetch: [{http: {url: %q%s}}]\n", servers.Files.Put("links/"+name, content), fields) + rest
	}
	plain, err := files.TarGz(source("plain"))
	if err != nil {
		t.Fatal(err)
	}
	runFetch(t, map[string]fetchCase{
		"Tar":       {spec: app("tar.tgz", targz(link), ""), from: "link"},
		"Zip":       {spec: app("zip.zip", zipped.Bytes(), ""), from: "link"},
		"Git":       {spec: gitApp(servers.Git.RepoURL("links"), "ref: origin/main"), from: "link"},
		"NoSuffix":  {spec: app("download", plain, ""), from: "plain"},
		"Gone":      {spec: app("gone.tgz", plain, ", subPath: other"), fails: "Expected directory 'other' (subpath) to exist (found other directories: config)"},
		"LeftOut":   {spec: app("leftout.tgz", targz(link), ", subPath: config"), fails: `entry "config/cm.yml" is a link to "../a.yml", which leads out of the archive`},
		"Twice":     {spec: app("twice.tgz", targz(tar.Header{Name: "a.yml/", Typeflag: tar.TypeDir}), ""), fails: `entry "a.yml/" is there twice, as a file and as a folder`},
		"Backslash": {spec: app("backslash.tgz", targz(tar.Header{Name: `b\c.yml`, Typeflag: tar.TypeReg}), ""), fails: `entry "b\\c.yml" has a name that is not allowed`},
	})
}

// packedFile is a tar.gz with the entries after the file a.yml.
func packedFile(t *testing.T, content string, entries ...tar.Header) []byte {
	t.Helper()
	archive, err := files.TarGz(fstest.MapFS{"a.yml": {Data: []byte(content), Mode: 0o644}}, entries...)
	if err != nil {
		t.Fatal(err)
	}
	return archive
}
