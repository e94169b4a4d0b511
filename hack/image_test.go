// Package hack_test checks that what is built, copied and allowed is the same.
package hack_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/garboard-dev/garboard/pkg/sidecar"
)

func read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// The programs of the sidecar that it does not run itself, but git does, and those
// that `make build` makes.
var (
	ofGit = []string{"git-lfs", "ssh"}
	ours  = []string{"resolve", "ssh", "unpack"}
)

// TestImageHasTheAllowedTools: a tool that is allowed and not in the image fails
// for every user; one that is in the image and not allowed is of no use.
func TestImageHasTheAllowedTools(t *testing.T) {
	var copied []string
	for _, m := range regexp.MustCompile(`/src/bin/tools/([a-z-]+)`).FindAllStringSubmatch(read(t, "../Dockerfile"), -1) {
		copied = append(copied, m[1])
	}
	wanted := append(sidecar.Tools(), ofGit...)
	slices.Sort(wanted)
	if diff := cmp.Diff(wanted, copied); diff != "" {
		t.Errorf("Dockerfile: -allowed +copied:\n%s", diff)
	}
	m := regexp.MustCompile(`(?m)^sidecar="(.*)"$`).FindStringSubmatch(read(t, "build-tools.sh"))
	if m == nil {
		t.Fatal("build-tools.sh: no list of the sidecar's tools")
	}
	built := append(strings.Fields(m[1]), ours...)
	slices.Sort(built)
	if diff := cmp.Diff(wanted, built); diff != "" {
		t.Errorf("build-tools.sh: -allowed +built:\n%s", diff)
	}
}

// TestMakefileDescribesItsTargets: `make` lists a target by its description.
func TestMakefileDescribesItsTargets(t *testing.T) {
	makefile := read(t, "../Makefile")
	for _, m := range regexp.MustCompile(`(?m)^\.PHONY: (.*)$`).FindAllStringSubmatch(makefile, -1) {
		if !regexp.MustCompile(`(?m)^` + m[1] + `:.* ## .`).MatchString(makefile) {
			t.Errorf("target %s has no description", m[1])
		}
	}
}
