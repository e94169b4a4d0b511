package e2e

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/garboard-dev/garboard/test/testenv/files"
)

// TestFetchLinks: links that stay inside are followed where templates are, whichever
// way they come; an archive with anything else is refused by the name of the entry.
func TestFetchLinks(t *testing.T) {
	t.Parallel()
	// A chart, as ytt follows no links at all.
	chart := fstest.MapFS{
		"Chart.yaml":    {Data: []byte("apiVersion: v2\nname: links\nversion: 1.0.0\n"), Mode: 0o644},
		"files/cm.yaml": {Data: []byte(cm("fetched", "from", "link")), Mode: 0o644},
	}
	link := tar.Header{Name: "templates/cm.yaml", Linkname: "../files/cm.yaml", Typeflag: tar.TypeSymlink}
	targz := func(entries ...tar.Header) []byte { return must[[]byte](t)(files.TarGz(chart, entries...)) }
	tree := maps.Clone(chart)
	tree[link.Name] = &fstest.MapFile{Data: []byte(link.Linkname), Mode: fs.ModeSymlink | 0o777}
	must[string](t)(servers.Git.Commit(t.Context(), "links", tree, "links"))
	var zipped bytes.Buffer
	z := zip.NewWriter(&zipped)
	for _, name := range slices.Sorted(maps.Keys(tree)) {
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
	const rest = "template: [{helmTemplate: {}}]\ndeploy: [{kapp: {}}]\n"
	app := func(name string, content []byte, fields string) string {
		return fmt.Sprintf("fetch: [{http: {url: %q%s}}]\n", servers.Files.Put("links/"+name, content), fields) + rest
	}
	git := fmt.Sprintf("fetch: [{git: {url: %q, ref: origin/main}}]\n", servers.Git.RepoURL("links")) + rest
	runFetch(t, map[string]fetchCase{
		"Tar":       {spec: app("tar.tgz", targz(link), ""), from: "link"},
		"Zip":       {spec: app("zip.zip", zipped.Bytes(), ""), from: "link"},
		"Git":       {spec: git, from: "link"},
		"NoSuffix":  {spec: app("download", targz(link), ""), from: "link"},
		"Gone":      {spec: app("gone.tgz", targz(), ", subPath: other"), fails: "Expected directory 'other' (subpath) to exist (found other directories: files)"},
		"LeftOut":   {spec: app("leftout.tgz", targz(link), ", subPath: templates"), fails: `entry "templates/cm.yaml" is a link to "../files/cm.yaml", which leads out of the archive`},
		"Twice":     {spec: app("twice.tgz", targz(tar.Header{Name: "Chart.yaml/", Typeflag: tar.TypeDir}), ""), fails: `entry "Chart.yaml/" is there twice, as a file and as a folder`},
		"Backslash": {spec: app("backslash.tgz", targz(tar.Header{Name: `b\c.yml`, Typeflag: tar.TypeReg}), ""), fails: `entry "b\\c.yml" has a name that is not allowed`},
	})
}
