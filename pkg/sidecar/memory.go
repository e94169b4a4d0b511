//go:build linux

package sidecar

import (
	"bytes"
	"fmt"

	"github.com/garboard-dev/garboard/pkg/tool"
)

// crashed are the words of a program that ends for want of memory: git says so, and
// Go's runtime says so or stumbles in its own goroutine, which no other fault does.
var crashed = [][]byte{[]byte("out of memory"), []byte("cannot allocate memory"), []byte("goroutine 0 gp=")}

// starved returns an error if the tool failed for want of memory, in place of what
// it says then.
func (r *run) starved(res tool.Result) error {
	if res.ExitCode == 0 {
		return nil
	}
	said := bytes.ToLower(res.Stderr)
	for _, words := range crashed {
		if bytes.Contains(said, words) {
			return &limitError{fmt.Sprintf("%s was ended: it needed more than %d MiB of memory", r.command.Name, r.server.opts.MaxMemory>>20)}
		}
	}
	return nil
}
