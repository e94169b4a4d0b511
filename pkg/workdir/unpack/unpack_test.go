package unpack_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/garboard-dev/garboard/pkg/workdir/unpack"
)

// tarOf has three entries: a file, a link, and a file again.
func tarOf(file, link, target, second string) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range []tar.Header{
		{Name: file, Mode: 0o644, Size: 1, Typeflag: tar.TypeReg}, {Name: link, Linkname: target, Typeflag: tar.TypeSymlink}, {Name: second, Mode: 0o644, Size: 1, Typeflag: tar.TypeReg},
	} {
		// A name that tar cannot hold leaves the entry out.
		if w.WriteHeader(&h) == nil && h.Size > 0 {
			_, _ = w.Write([]byte("x"))
		}
	}
	_ = w.Close()
	return b.Bytes()
}

func zipOf(file, link, target, second string) []byte {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, e := range []struct {
		name, content string
		mode          fs.FileMode
	}{{file, "x", 0o644}, {link, target, fs.ModeSymlink | 0o777}, {second, "x", 0o644}} {
		h := &zip.FileHeader{Name: e.name}
		h.SetMode(e.mode)
		if f, err := w.CreateHeader(h); err == nil {
			_, _ = f.Write([]byte(e.content))
		}
	}
	_ = w.Close()
	return b.Bytes()
}

// FuzzUnpack: whatever an archive holds, nothing outside of the source's folder is
// made or changed, each link leads to something inside, and a failure leaves nothing
// half done.
func FuzzUnpack(f *testing.F) {
	f.Add(false, "a/f", "a/l", "f", "b", "")
	f.Add(true, "a/f", "a/l", "f", "b", "")
	f.Add(false, "a", "l", "../secret", "l/x", "")
	f.Add(true, "a", "l", "../secret", "l/x", "")
	f.Add(false, "d/f", "d/l", "/etc/passwd", "d/l", "d")
	f.Add(true, "d/f", "d/l", "/etc/passwd", "d/l", "d")
	f.Add(false, "x", "d", ".", "d/../../secret", "../..")
	f.Add(true, "x", "d", ".", "d/../../secret", "../..")
	f.Add(false, "s/t", "l", "s/../../secret", "\\", "l")
	f.Add(true, "s/t", "l", "s/../../secret", "\\", "l")
	f.Add(false, "./f", "f", "f", "f/", ".")
	f.Add(true, "./f", "f", "f", "f/", ".")
	f.Fuzz(func(t *testing.T, zipped bool, file, link, target, second, sub string) {
		content := tarOf(file, link, target, second)
		if zipped {
			content = zipOf(file, link, target, second)
		}
		dir := t.TempDir()
		for name, content := range map[string][]byte{"secret": []byte("s"), "src/1/f": []byte("other"), "src/0/x": content} {
			p := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(p, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		root, err := os.OpenRoot(filepath.Join(dir, "src"))
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		check(t, dir, unpack.Unpack(root, unpack.Source{Dir: "0", Name: "x", SubPath: sub}))
	})
}

// check looks at all below dir.
func check(t *testing.T, dir string, failed error) {
	t.Helper()
	inside := filepath.Join(dir, "src", "0")
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		if rel == "." || rel == "secret" || rel == "src" || rel == "src/0" || rel == "src/1" || rel == "src/1/f" {
			return nil
		}
		if p != inside && !strings.HasPrefix(p, inside+"/") {
			return fmt.Errorf("%q was made", rel)
		}
		if failed == nil && e.Type() == fs.ModeSymlink {
			end, err := filepath.EvalSymlinks(p)
			if err != nil || end != inside && !strings.HasPrefix(end, inside+"/") {
				return fmt.Errorf("link %q leads to %q: %w", rel, end, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%v (unpacking: %v)", err, failed)
	}
	for name, want := range map[string]string{"secret": "s", "src/1/f": "other"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Fatalf("%s is %q, %v", name, got, err)
		}
	}
}

func ExampleUnpack() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	root, err := os.OpenRoot(dir)
	if err != nil {
		panic(err)
	}
	defer root.Close()
	if err := root.Mkdir("0", 0o700); err != nil {
		panic(err)
	}
	if err := root.WriteFile("0/download", tarOf("f", "l", "../../etc/passwd", "g"), 0o600); err != nil {
		panic(err)
	}
	fmt.Println(unpack.Unpack(root, unpack.Source{Dir: "0", Name: "x.tar"}))
	// Output: Unpacking archive 'x.tar': entry "l" is a link to "../../etc/passwd", which leads out of the archive
}
