package workdir_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/garboard-dev/garboard/pkg/workdir"
)

func newDir(t testing.TB) *workdir.Dir {
	t.Helper()
	base, err := workdir.OpenBase(filepath.Join(t.TempDir(), "base"))
	if err != nil {
		t.Fatal(err)
	}
	d, err := base.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(d.Close(), base.Close()); err != nil {
			t.Error(err)
		}
	})
	return d
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// at is a path in d's folder on disk.
func at(d *workdir.Dir, p string) string { return filepath.Join(d.Path(), filepath.FromSlash(p)) }

func TestCleanPath(t *testing.T) {
	long := strings.Repeat("n", 256)
	tests := map[string]struct{ in, want, err string }{
		"Plain":    {"a/b", "a/b", ""},
		"Dot":      {"./a//b/", "a/b", ""},
		"Empty":    {"", ".", ""},
		"Inner":    {"a/../b", "b", ""},
		"Absolute": {"/a", "", `invalid path "/a": must be relative`},
		"Up":       {"../a", "", `invalid path "../a": leads out of its folder`},
		"InnerUp":  {"a/../../b", "", `invalid path "a/../../b": leads out of its folder`},
		"NUL":      {"a\x00b", "", `invalid path "a\x00b": has a NUL byte`},
		"LongName": {"a/" + long, "", fmt.Sprintf("invalid path %q: a name is longer than 255 bytes", "a/"+long)},
		"LongPath": {strings.Repeat("abc/", 1025), "", fmt.Sprintf("invalid path %q: longer than 4096 bytes", strings.Repeat("abc/", 16)+"...")},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := workdir.CleanPath(tc.in)
			if diff := cmp.Diff([]string{tc.want, tc.err}, []string{got, text(err)}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCleanFile(t *testing.T) {
	for p, want := range map[string]string{
		"a":    "",
		".":    `invalid path ".": does not name a file`,
		"":     `invalid path "": does not name a file`,
		"a/":   `invalid path "a/": does not name a file`,
		`a\b`:  `invalid path "a\\b": has a backslash`,
		"/abs": `invalid path "/abs": must be relative`,
	} {
		if _, err := workdir.CleanFile(p); text(err) != want {
			t.Errorf("%q: error %q, want %q", p, text(err), want)
		}
	}
}

// FuzzPath: a path that passes stays inside however it is joined, and is in its
// shortest form.
func FuzzPath(f *testing.F) {
	for _, p := range []string{"a/b", "../a", "/a", "a/../..", "", ".", "a//b", `..\a`, "a\x00"} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p string) {
		clean, err := workdir.CleanPath(p)
		if err != nil {
			return
		}
		if joined := path.Join("/base", clean); joined != "/base" && !strings.HasPrefix(joined, "/base/") {
			t.Errorf("%q leads to %q", p, joined)
		}
		if again, err := workdir.CleanPath(clean); err != nil || again != clean {
			t.Errorf("%q became %q and then %q, %v", p, clean, again, err)
		}
	})
}

func TestPut(t *testing.T) {
	d := newDir(t)
	outside := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(outside, []byte("theirs"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.MkdirAll("folder"), os.Symlink(outside, at(d, "link")), os.Symlink(filepath.Dir(outside), at(d, "out")),
		syscall.Mkfifo(at(d, "pipe"), 0o600), os.WriteFile(at(d, "file"), []byte("old"), 0o444)); err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]string{
		"a/b/c":  "",
		"file":   "",
		"link":   "",
		"pipe":   "",
		"folder": `write "folder": is a folder`,
		"file/x": `write "file/x": a file is where a folder is needed`,
		"out/f":  `write "out/f": path escapes from parent`,
		"../x":   `invalid path "../x": leads out of its folder`,
	} {
		t.Run(p, func(t *testing.T) {
			if err := d.Put(p, []byte("new")); text(err) != want {
				t.Fatalf("error %q, want %q", text(err), want)
			}
			if want != "" {
				return
			}
			got, err := os.ReadFile(at(d, p))
			info, _ := os.Lstat(at(d, p))
			if err != nil || string(got) != "new" || info.Mode() != 0o600 {
				t.Errorf("%q, %v, %v", got, info.Mode(), err)
			}
		})
	}
	if got, _ := os.ReadFile(outside); string(got) != "theirs" {
		t.Errorf("a file outside was written: %q", got)
	}
}

func TestReplace(t *testing.T) {
	d := newDir(t)
	for _, want := range []string{"one", "two"} {
		if err := d.Replace("f", []byte(want)); err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile(at(d, "f")); string(got) != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestFind: a file counts by its beginning, and links are not followed.
func TestFind(t *testing.T) {
	d := newDir(t)
	for p, content := range map[string]string{
		"src/a.yml": "one\n", "src/b/c.yml": "two one", "src/d.yml": "two", "src/e.txt": "one", "other.yml": "one",
		"src/far.yml": strings.Repeat("x", 1<<20) + "one",
	} {
		if err := d.Put(p, []byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../other.yml", at(d, "src/l.yml")); err != nil {
		t.Fatal(err)
	}
	got, err := d.Find("src", []string{".yml"}, regexp.MustCompile(`\bone\b`))
	if diff := cmp.Diff([]string{"src/a.yml", "src/b/c.yml"}, got); diff != "" || err != nil {
		t.Errorf("%s\nerror %v", diff, err)
	}
	if _, err := d.Find("none", nil, regexp.MustCompile(`x`)); text(err) != `list "none": no such file or directory` {
		t.Errorf("error %v", err)
	}
}

func TestList(t *testing.T) {
	d := newDir(t)
	for _, p := range []string{"src/b.yml", "src/a.yml", "src/c/d.yml", "src/c/e.txt", "other/f.yml"} {
		if err := d.Put(p, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink("a.yml", at(d, "src/l.yml")), os.Symlink("../other", at(d, "src/o")), os.Symlink("/etc", at(d, "src/e"))); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		dir      string
		suffixes []string
		want     []string
		err      string
	}{
		"Suffix":  {"src", []string{".yml"}, []string{"src/a.yml", "src/b.yml", "src/c/d.yml"}, ""},
		"All":     {"src/c", nil, []string{"src/c/d.yml", "src/c/e.txt"}, ""},
		"File":    {"src/a.yml", []string{".yml"}, []string{"src/a.yml"}, ""},
		"Link":    {"src/o", nil, nil, ""},
		"LinkOut": {"src/e", nil, nil, ""},
		"Through": {"src/e/ssl", nil, nil, `list "src/e/ssl": path escapes from parent`},
		"Missing": {"src/x", nil, nil, `list "src/x": no such file or directory`},
		"Up":      {"..", nil, nil, `invalid path "..": leads out of its folder`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := d.List(tc.dir, tc.suffixes)
			if diff := cmp.Diff(tc.want, got); diff != "" || text(err) != tc.err {
				t.Errorf("%s\nerror %q, want %q", diff, text(err), tc.err)
			}
		})
	}
}

func TestRemove(t *testing.T) {
	d := newDir(t)
	outside := t.TempDir()
	if err := errors.Join(d.Put("a/b", nil), os.Symlink(outside, at(d, "l"))); err != nil {
		t.Fatal(err)
	}
	if err := d.Remove("a", "l", "none"); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(d.Path()); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	if _, err := os.Stat(outside); err != nil {
		t.Errorf("a folder outside: %v", err)
	}
	for p, want := range map[string]string{
		".":     `invalid path ".": names the whole folder`,
		"a/..":  `invalid path "a/..": names the whole folder`,
		"../..": `invalid path "../..": leads out of its folder`,
	} {
		if err := d.Remove(p); text(err) != want {
			t.Errorf("%q: %q, want %q", p, text(err), want)
		}
	}
}

func TestCheck(t *testing.T) {
	d := newDir(t)
	if err := errors.Join(d.Put("src/a/f", nil), os.Symlink("../a/f", at(d, "src/a/l"))); err != nil {
		t.Fatal(err)
	}
	if err := d.Check("src"); err != nil {
		t.Error(err)
	}
	if err := os.Symlink("..", at(d, "src/up")); err != nil {
		t.Fatal(err)
	}
	if want := `entry "up" is a link to "..", which leads out of the folder`; text(d.Check("src")) != want {
		t.Errorf("error %v", d.Check("src"))
	}
	if err := d.Check("none"); text(err) != `open "none": no such file or directory` {
		t.Error(err)
	}
}

func TestMeasure(t *testing.T) {
	d := newDir(t)
	for i := range 10 {
		if err := d.Put("d/"+strconv.Itoa(i), make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(workdir.Usage{Bytes: 10_000, Entries: 11}, workdir.Measure(workdir.Usage{}, d.Path())); diff != "" {
		t.Error(diff)
	}
	if got := workdir.Measure(workdir.Usage{Entries: 3}, d.Path()); got.Entries != 4 {
		t.Errorf("%+v, want to stop after the fourth entry", got)
	}
	f, err := os.Create(at(d, "sparse"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(1<<40), f.Close()); err != nil {
		t.Fatal(err)
	}
	if got := workdir.Measure(workdir.Usage{}, d.Path()); got.Bytes > 1<<20 {
		t.Errorf("%+v, a hole counts", got)
	}
}

func TestBase(t *testing.T) {
	p := filepath.Join(t.TempDir(), "base")
	base, err := workdir.OpenBase(p)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := workdir.OpenBase(p); err == nil || !strings.Contains(err.Error(), "is in use by another process") {
		t.Errorf("second OpenBase: %v", err)
	}
	d, err := base.New()
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(d.Path())
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	for _, name := range []string{"", ".", "..", "a/b", "/a", ".lock"} {
		if _, err := base.Open(name); err == nil {
			t.Errorf("Open(%q) has no error", name)
		}
	}
	// A crash: d is not closed.
	if err := base.Close(); err != nil {
		t.Fatal(err)
	}
	base, err = workdir.OpenBase(p)
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	if _, err := os.Stat(d.Path()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what the first left: %v", err)
	}
}

func TestBaseIsNotSomebodysFolder(t *testing.T) {
	p := t.TempDir()
	if err := os.WriteFile(filepath.Join(p, "precious"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := workdir.OpenBase(p); err == nil || !strings.Contains(err.Error(), "content that is not ours") {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(filepath.Join(p, "precious")); err != nil {
		t.Error(err)
	}
}

func Example() {
	tmp, err := os.MkdirTemp("", "example-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(tmp)
	base, err := workdir.OpenBase(filepath.Join(tmp, "work"))
	if err != nil {
		panic(err)
	}
	defer base.Close()
	dir, err := base.New()
	if err != nil {
		panic(err)
	}
	defer dir.Close()
	fmt.Println(dir.Put("src/config.yml", []byte("a: 1\n")))
	fmt.Println(dir.Put("../config.yml", nil))
	fmt.Println(dir.List(".", []string{".yml"}))
	// Output:
	// <nil>
	// invalid path "../config.yml": leads out of its folder
	// [src/config.yml] <nil>
}
