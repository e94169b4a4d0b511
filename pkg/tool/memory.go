package tool

import (
	"bytes"
	"os"
	"strconv"
)

// Bounds of MemoryShare.
const (
	mostMemory  = 2 << 30
	leastMemory = 256 << 20
)

// MemoryShare returns how many bytes one child process should allocate at most: half
// of what this container has, so that a greedy one ends alone and not together with
// its parent and all that runs there.
func MemoryShare() int64 {
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
