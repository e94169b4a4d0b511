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
func MemoryShare() int64 { return memoryShare(ContainerMemory()) }

func memoryShare(limit int64) int64 {
	if limit == 0 {
		return mostMemory
	}
	return min(max(limit/2, leastMemory), mostMemory)
}

// ContainerMemory returns how many bytes this container may hold, 0 if that is not
// limited.
func ContainerMemory() int64 {
	// The container's own group; there is no file where there are no groups.
	text, err := os.ReadFile("/sys/fs/cgroup/memory.max")
	if err != nil {
		return 0
	}
	return memoryMax(text)
}

func memoryMax(text []byte) int64 {
	n, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
	if err != nil { // it says max
		return 0
	}
	return n
}
