package golden_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/garboard-dev/garboard/test/golden"
)

// recorder is a testing.TB that keeps failures to itself.
type recorder struct {
	testing.TB
	failed string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) { r.failed = fmt.Sprintf(format, args...) }

func TestEqual(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.want")
	if err := os.WriteFile(file, []byte("a\nb\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ file, got, failed string }{
		"Same":    {file: file, got: "a\nb\n"},
		"Other":   {file: file, got: "a\nc\n", failed: "differs"},
		"Missing": {file: file + ".no", got: "a\n", failed: "does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &recorder{TB: t}
			golden.Equal(r, tc.file, []byte(tc.got))
			if (r.failed == "") != (tc.failed == "") || !strings.Contains(r.failed, tc.failed) {
				t.Errorf("failure %q, want %q", r.failed, tc.failed)
			}
		})
	}
}
