// Package golden compares generated text with a file that holds the wanted text.
package golden

import (
	"bytes"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// update is the only -update flag of the repository: a second definition would
// panic in a test binary that links both.
var update = flag.Bool("update", false, "write golden files instead of comparing; read the diff afterwards")

// Equal fails t if got is not byte for byte what file holds. file is relative to
// the folder of the test. With -update it writes file, and its folder, instead.
func Equal(t testing.TB, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s does not exist; run the test with -update, then read the file. Got:\n%s", file, got)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, got) {
		t.Errorf("%s differs (-want +got); run the test with -update if the new text is right:\n%s", file, cmp.Diff(string(want), string(got)))
	}
}
