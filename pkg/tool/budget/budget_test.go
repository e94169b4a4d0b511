package budget_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/garboard-dev/garboard/pkg/tool/budget"
)

const mib = 1 << 20

func TestShare(t *testing.T) {
	for name, tc := range map[string]struct {
		reason       string
		memory, want int64
	}{
		"Unlimited": {"a container without a limit still has a bound", 0, 128 * mib},
		"Small":     {"one output of the largest size always fits", 256 * mib, 64 * mib},
		"Usual":     {"work takes a multiple of the output", 4096 * mib, 256 * mib},
		"Large":     {"more does not make anything faster", 1 << 40, 1024 * mib},
	} {
		t.Run(name, func(t *testing.T) {
			if got := budget.Share(tc.memory); got != tc.want {
				t.Errorf("%s: %d, want %d", tc.reason, got, tc.want)
			}
		})
	}
}

// take returns a hold of n bytes. Where it has to wait for ever the test hangs.
func take(t *testing.T, b *budget.Budget, n int) *budget.Hold {
	t.Helper()
	h := b.Hold()
	if err := h.Resize(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	return h
}

func TestHold(t *testing.T) {
	b := budget.New(10 * mib)
	first := take(t, b, 6*mib)
	errGivenUp := errors.New("the App is gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	waiting := make(chan error)
	go func() { waiting <- b.Hold().Resize(ctx, 6*mib) }()
	take(t, b, budget.Small) // does not wait behind the large one
	cancel(errGivenUp)
	if err := <-waiting; !errors.Is(err, errGivenUp) || err.Error() != "waiting for room for 6 MiB of output, which other Apps take: the App is gone" {
		t.Errorf("a wait that is given up: %v", err)
	}
	first.Shrink(8 * mib)
	first.Shrink(2 * mib)
	second := take(t, b, 8*mib) // what was given back
	first.Release()
	first.Release()
	second.Release()
	take(t, b, 1<<40).Release() // all that there is
	var none *budget.Budget
	take(t, none, 1<<40).Release()
}

// TestGrowing: holds that grow at the same time do not wait for each other, and never
// hold more than there is.
func TestGrowing(t *testing.T) {
	const size = 10 * mib
	b := budget.New(size)
	var sum, most atomic.Int64
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			h := b.Hold()
			defer h.Release()
			for _, n := range []int{2 * mib, (3 + i%8) * mib} {
				if err := h.Resize(t.Context(), n); err != nil {
					t.Error(err)
					return
				}
				now := sum.Add(int64(n))
				for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
				}
				sum.Add(int64(-n))
			}
		})
	}
	wg.Wait()
	if most.Load() > size {
		t.Errorf("%d bytes were held at once, of %d", most.Load(), size)
	}
}

func ExampleHold_Resize() {
	b := budget.New(budget.Share(0))
	h := b.Hold()
	defer h.Release()
	fmt.Println(h.Resize(context.Background(), 40<<20))
	// Output: <nil>
}
