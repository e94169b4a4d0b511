// Package budget bounds how many bytes of large outputs a process works on at once,
// so that many large Apps wait for each other and do not fill its memory together.
package budget

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/garboard-dev/garboard/pkg/tool"
)

// Small is the size in bytes up to which an output does not count: work on it never
// waits, and the number of workers bounds its sum.
const Small = tool.LargeOutput

// Bounds of Share: one output of the largest size must fit.
const (
	leastBytes = 64 << 20
	mostBytes  = 1 << 30
	// unlimited is the share in a container without a limit.
	unlimited = 128 << 20
)

// Share returns the size of a budget in a process that may hold memory bytes; 0 is
// no limit. Work on a manifest takes about eight times its size, so all together
// take half of the memory.
func Share(memory int64) int64 {
	if memory == 0 {
		return unlimited
	}
	return min(max(memory/16, leastBytes), mostBytes)
}

// Budget is a number of bytes that many share. It is safe for concurrent use.
type Budget struct {
	size int64
	sem  *semaphore.Weighted
}

// New returns a budget of size bytes, at least 1.
func New(size int64) *Budget {
	return &Budget{size: size, sem: semaphore.NewWeighted(size)}
}

// Hold is the part of a budget that one run holds. The zero value and nil belong to
// no budget and never wait. It is safe for concurrent use.
type Hold struct {
	budget *Budget
	mu     sync.Mutex // guards held
	held   int64
}

// Hold returns a part of 0 bytes; nil has none to give, and no limit. Release it.
func (b *Budget) Hold() *Hold { return &Hold{budget: b} }

// Resize waits until the part is of n bytes. It waits in line, so that a large part
// gets its turn, and until then it holds nothing, so that two that grow do not wait
// for each other. More than the budget has counts as all of it. The error is the
// cause of the context's end.
func (h *Hold) Resize(ctx context.Context, n int) error {
	if h == nil || h.budget == nil {
		return nil
	}
	want := min(int64(n), h.budget.size)
	if n <= Small {
		want = 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if want <= h.held {
		h.release(h.held - want)
		return nil
	}
	h.release(h.held)
	if err := h.budget.sem.Acquire(ctx, want); err != nil {
		return fmt.Errorf("waiting for room for %d MiB of output, which other Apps take: %w", n>>20, context.Cause(ctx))
	}
	h.held = want
	return nil
}

// Shrink gives back what is held for more than n bytes.
func (h *Hold) Shrink(n int) {
	if h == nil || h.budget == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if n <= Small {
		n = 0
	}
	h.release(h.held - int64(n))
}

// Release gives all back.
func (h *Hold) Release() { h.Shrink(0) }

func (h *Hold) release(n int64) {
	if n > 0 {
		h.budget.sem.Release(n)
		h.held -= n
	}
}
