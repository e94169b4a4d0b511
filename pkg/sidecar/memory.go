//go:build linux

package sidecar

import (
	"bytes"
	"fmt"

	"github.com/garboard-dev/garboard/pkg/tool"
)

// outOfMemory are the words of Go and of git.
var outOfMemory = [][]byte{[]byte("out of memory"), []byte("cannot allocate memory")}

// starved returns an error if the tool failed for want of memory. Its own words
// are a dump of its stacks.
func (r *run) starved(res tool.Result) error {
	if res.ExitCode == 0 {
		return nil
	}
	said := bytes.ToLower(res.Stderr)
	for _, words := range outOfMemory {
		if bytes.Contains(said, words) {
			return &limitError{fmt.Sprintf("%s was ended: it needed more than %d MiB of memory", r.command.Name, r.server.opts.MaxMemory>>20)}
		}
	}
	return nil
}
