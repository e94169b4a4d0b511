//go:build linux && !race

package sidecar_test

import (
	"errors"
	"testing"

	"github.com/garboard-dev/garboard/pkg/sidecar"
)

// TestMemoryLimit: a tool that takes more than its share of memory ends alone, and
// its failure says why. The race detector takes more than any share.
func TestMemoryLimit(t *testing.T) {
	r := start(t, func(o *sidecar.ServerOptions) { o.MaxMemory = 256 << 20 })
	w := r.open(t, "")
	if _, code := do(t, w, command("ytt", "allocate 100000000")); code != 0 {
		t.Errorf("100 MB: exit code %d", code)
	}
	const want = "ytt was ended: it needed more than 256 MiB of memory"
	res, err := w.Run(t.Context(), command("ytt", "allocate 400000000"))
	if len(res.Stderr) > 0 {
		t.Errorf("stderr holds the crash: %.300s", res.Stderr)
	}
	if err == nil || err.Error() != want || !errors.Is(err, sidecar.ErrLimit) {
		t.Errorf("400 MB: error %v, want %s", err, want)
	}
}
