package main

import (
	"testing"

	"github.com/garboard-dev/garboard/test/golden"
)

// TestReferenceIsCurrent fails if docs/api.md is not what the CRDs say.
func TestReferenceIsCurrent(t *testing.T) {
	got, err := render("../../config/crd")
	if err != nil {
		t.Fatal(err)
	}
	golden.Equal(t, "../../docs/api.md", got)
}
