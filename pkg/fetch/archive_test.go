package fetch_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/garboard-dev/garboard/pkg/fetch"
	"github.com/garboard-dev/garboard/test/workspace"
)

// zipped is tarGz for the kinds that zip has.
func zipped(t *testing.T, members ...member) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, m := range members {
		h := &zip.FileHeader{Name: m.name, Method: zip.Deflate}
		h.SetMode(map[byte]fs.FileMode{0: 0o644, tar.TypeSymlink: fs.ModeSymlink | 0o777, tar.TypeChar: fs.ModeDevice | fs.ModeCharDevice, tar.TypeDir: fs.ModeDir | 0o755}[m.kind])
		f, err := w.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(m.content + m.link)); err != nil && m.kind != tar.TypeDir {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// archiveCases is what may be in an archive. Refusals name the entry.
func archiveCases() map[string]archiveCase {
	first := member{name: "a/f", content: "f"}
	both := func(members ...member) []member { return append([]member{first}, members...) }
	link := func(name, to string) member { return member{name: name, link: to, kind: tar.TypeSymlink} }
	return map[string]archiveCase{
		"Plain":          {members: both(member{name: "./b", content: "b"}, member{name: "e/", kind: tar.TypeDir}), want: map[string]string{"a/f": "f", "b": "b"}},
		"LinkInside":     {members: both(link("a/l", "f"), link("up", "a/../a/f")), want: map[string]string{"a/f": "f", "a/l": "-> f", "up": "-> a/../a/f"}},
		"LinkBefore":     {members: []member{link("l", "a/f"), first}, want: map[string]string{"a/f": "f", "l": "-> a/f"}},
		"LinkOfLink":     {members: both(link("d", "a"), link("l", "d/f")), want: map[string]string{"a/f": "f", "d": "-> a", "l": "-> d/f"}},
		"SubPath":        {members: both(link("a/l", "f"), link("out", "a/f")), sub: "a", want: map[string]string{"f": "f", "l": "-> f"}},
		"SubPathGone":    {members: both(), sub: "b/c", err: "Expected directory 'b/c' (subpath) to exist (found other directories: a)"},
		"SubPathIsFile":  {members: both(), sub: "a/f", err: "Expected directory 'a/f' (subpath) to exist"},
		"SubPathLink":    {members: both(link("l", "a")), sub: "l", err: "Expected directory 'l' (subpath) to exist"},
		"LinkToLeftOut":  {members: both(member{name: "b/g", content: "g"}, link("a/l", "../b/g")), sub: "a", err: `entry "a/l" is a link to "../b/g", which leads out of the archive`},
		"LinkOutside":    {members: both(link("l", "../../etc/passwd")), err: `entry "l" is a link to "../../etc/passwd", which leads out of the archive`},
		"LinkToSource":   {members: both(link("l", "../1/f")), err: `entry "l" is a link to "../1/f", which leads out of the archive`},
		"LinkAbsolute":   {members: both(link("l", "/etc/passwd")), err: `entry "l" is a link to "/etc/passwd", which leads out of the archive`},
		"LinkByLink":     {members: both(link("d", "a"), link("l", "d/../../x")), err: `entry "l" is a link to "d/../../x", which leads out of the archive`},
		"LinkDeep":       {members: both(member{name: "x/y/z", content: "z"}, link("s", "x/y"), link("l", "s/../../../up")), err: `entry "l" is a link to "s/../../../up", which leads out`},
		"LinkHidden":     {members: both(link("d", "."), link("e", "d/.."), link("g", "e/../x")), err: `, which leads out of the archive`},
		"LinkNowhere":    {members: both(link("l", "gone")), err: `entry "l" is a link to "gone", which is not there`},
		"LinkCircle":     {members: both(link("l", "m"), link("m", "l")), err: `entry "l" is a link to "m", which leads out of the archive`},
		"LinkThrough":    {members: both(link("d", "/tmp"), member{name: "d/x", content: "x"}), err: `entry "d" is a link to "/tmp"`},
		"LinkThroughIn":  {members: both(link("d", "a"), member{name: "d/x", content: "x"}), err: `entry "d/x" is below "d", which is a link`},
		"LinkOverFolder": {members: both(member{name: "d/x", content: "x"}, link("d", "a")), err: `entry "d" is there twice, as a folder and as a link`},
		"HardLink":       {members: both(member{name: "l", link: "../x", kind: tar.TypeLink}), err: `entry "l" is a hard link`, tarOnly: true},
		"HardLinkInside": {members: both(member{name: "l", link: "a/f", kind: tar.TypeLink}), err: `entry "l" is a hard link`, tarOnly: true},
		"Device":         {members: both(member{name: "d", kind: tar.TypeChar}), err: `entry "d" is a device`},
		"Pipe":           {members: both(member{name: "p", kind: tar.TypeFifo}), err: `entry "p" is a named pipe`, tarOnly: true},
		"FileTwice":      {members: both(member{name: "a/f", content: "g"}), want: map[string]string{"a/f": "g"}},
		"FileThenFolder": {members: both(member{name: "a/f/", kind: tar.TypeDir}), err: `entry "a/f/" is there twice, as a file and as a folder`},
		"BelowFile":      {members: both(member{name: "a/f/g", content: "g"}), err: `entry "a/f/g" is below "a/f", which is a file`},
		"NameOutside":    {members: both(member{name: "../../../../up", content: "x"}), err: `entry "../../../../up" has a name that is not allowed`},
		"NameHidden":     {members: both(member{name: "a/../../up", content: "x"}), err: `entry "a/../../up" has a name that is not allowed`},
		"NameAbsolute":   {members: both(member{name: "/up", content: "x"}), err: `entry "/up" has a name that is not allowed`},
		"NameBackslash":  {members: both(member{name: `a\up`, content: "x"}), err: `entry "a\\up" has a name that is not allowed`},
		"NameLong":       {members: both(member{name: strings.Repeat("n", 300), content: "x"}), err: `entry "` + strings.Repeat("n", 100) + `..." has a name that is not allowed`},
	}
}

type archiveCase struct {
	members []member
	sub     string
	want    map[string]string
	// err is a part of standard error, if it fails.
	err     string
	tarOnly bool
}

// get fetches content from a server of its own.
func get(t *testing.T, content []byte, name, sub string) (*workspace.Dir, fetch.Result) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content) }))
	defer server.Close()
	ws := workspace.New(t)
	return ws, fetch.New(newObjects()).Fetch(t.Context(), ws, fetch.Request{
		Sources: sources(t, fmt.Sprintf("[{http: {url: '%s/%s', subPath: '%s'}}]", server.URL, name, sub)),
	})
}

// TestArchives: an archive is unpacked as a whole with its links or the fetch fails,
// and nothing lands outside.
func TestArchives(t *testing.T) {
	for name, tc := range archiveCases() {
		archives := map[string][]byte{"x.tgz": tarGz(t, tc.members...)}
		if !tc.tarOnly {
			archives["x.zip"] = zipped(t, tc.members...)
		}
		for file, content := range archives {
			t.Run(name+"/"+file, func(t *testing.T) {
				ws, res := get(t, content, file, tc.sub)
				for p := range ws.Tree(".") {
					if path.Base(p) == "up" && tc.want["up"] == "" {
						t.Errorf("%s was written", p)
					}
				}
				if res.Failed() != (tc.err != "") || !strings.Contains(strings.ReplaceAll(res.Stderr, "a device, a socket or a named pipe", "a device"), tc.err) {
					t.Fatalf("error %q: %s", res.Err, res.Stderr)
				}
				if res.Failed() {
					if res.Err != "Fetching resources: Error (see .status.usefulErrorMessage for details)" || res.ExitCode != 1 || !strings.HasPrefix(res.Stderr, "unpack: Error: Unpacking archive '"+file+"': ") {
						t.Errorf("code %d, error %q: %s", res.ExitCode, res.Err, res.Stderr)
					}
					return
				}
				if diff := cmp.Diff(tc.want, ws.Tree(res.Root)); diff != "" {
					t.Error(diff)
				}
				if !strings.Contains(res.Stdout, "- http: {}\n") {
					t.Errorf("lock document: %s", res.Stdout)
				}
			})
		}
	}
}

// TestNoArchives: what is no archive stays one file, named after its address.
func TestNoArchives(t *testing.T) {
	good := tarGz(t, member{name: "f", content: "f"})
	for name, tc := range map[string]struct {
		content   []byte
		file, err string
		want      map[string]string
	}{
		"Plain":     {[]byte("a: 1\n"), "app.yml", "", map[string]string{"app.yml": "a: 1\n"}},
		"Empty":     {nil, "app.yml", "", map[string]string{"app.yml": ""}},
		"Query":     {[]byte("a: 1\n"), "app.yml?x=1", "", map[string]string{"app.yml": "a: 1\n"}},
		"NoName":    {[]byte("a: 1\n"), "", "", map[string]string{"content": "a: 1\n"}},
		"ByContent": {good, "download?id=1", "", map[string]string{"f": "f"}},
		"Damaged":   {good[:len(good)-10], "x.tgz", "'x.tgz': is damaged behind its last entry: unexpected EOF", nil},
		"Cut":       {good[:15], "x.tar.gz", "'x.tar.gz': is no archive that can be unpacked (hint: it is damaged", nil},
		"NotOne":    {[]byte("<html>"), "x.zip", "'x.zip': is no archive that can be unpacked (hint: it is damaged", nil},
	} {
		t.Run(name, func(t *testing.T) {
			ws, res := get(t, tc.content, tc.file, "")
			if res.Failed() != (tc.want == nil) || !strings.Contains(res.Stderr, tc.err) {
				t.Fatalf("error %q: %s", res.Err, res.Stderr)
			}
			if tc.want != nil {
				if diff := cmp.Diff(tc.want, ws.Tree(res.Root)); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

// zeros is a member that is large, and nothing when packed.
func zeros(name string, size int) member {
	return member{name: name, content: strings.Repeat("\x00", size)}
}

// TestBombs: what becomes too large or too many is stopped at the sidecar's limits,
// and nothing of it is left.
func TestBombs(t *testing.T) {
	large := make([]member, 0, 5)
	for i := range 5 {
		large = append(large, zeros(fmt.Sprint(i), workspace.MaxBytes/4))
	}
	many := make([]member, 5*workspace.MaxEntries/4)
	for i := range many {
		many[i] = member{name: fmt.Sprintf("%d/%d", i/1000, i)}
	}
	for name, tc := range map[string]struct {
		content []byte
		err     string
	}{
		"Large": {tarGz(t, large...), fmt.Sprintf("unpack was ended: it wrote more than %d bytes into its work folder", workspace.MaxBytes)},
		"Many":  {tarGz(t, many...), fmt.Sprintf("unpack was ended: it made more than %d files and folders in its work folder", workspace.MaxEntries)},
		"Zip":   {zipped(t, many...), fmt.Sprintf("unpack was ended: it made more than %d files and folders in its work folder", workspace.MaxEntries)},
	} {
		t.Run(name, func(t *testing.T) {
			ws, res := get(t, tc.content, "bomb", "")
			if res.Err != "Fetching resources: "+tc.err {
				t.Errorf("error %q: %s", res.Err, res.Stderr)
			}
			if left := ws.Tree("src"); len(left) > 0 {
				t.Errorf("%d files are left", len(left))
			}
		})
	}
}
