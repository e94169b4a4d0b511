package scratch_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/garboard-dev/garboard/test/testenv/scratch"
)

func TestSweepKeepsWhatIsHeld(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	held, err := scratch.New()
	if err != nil {
		t.Fatal(err)
	}
	// What an owner that was killed leaves: a folder and a lock that nobody holds.
	dead := filepath.Join(scratch.Base(), "dead")
	if err := os.MkdirAll(filepath.Join(dead, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dead+".lock", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := scratch.Sweep(); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{held.Path(): true, dead: false, dead + ".lock": false} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s is there: %v, want %v", path, err == nil, want)
		}
	}
	if err := held.Remove(); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(scratch.Base(), "*.lock"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
