//go:build linux

package sidecar

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"github.com/garboard-dev/garboard/pkg/tool"
)

// Bounds of what one process of a tool may allocate: half of what the container
// has, so that one greedy template ends alone and not together with the sidecar
// and all that runs in it.
const (
	mostMemory  = 2 << 30
	leastMemory = 256 << 20
)

// defaultMemory returns MaxMemory for this container.
func defaultMemory() int64 {
	// The container's own group; there is no file where there is no limit.
	text, err := os.ReadFile("/sys/fs/cgroup/memory.max")
	if err != nil {
		return mostMemory
	}
	return memoryShare(text)
}

func memoryShare(limit []byte) int64 {
	n, err := strconv.ParseInt(string(bytes.TrimSpace(limit)), 10, 64)
	if err != nil { // it says max
		return mostMemory
	}
	return min(max(n/2, leastMemory), mostMemory)
}

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
