package app

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/garboard-dev/garboard/pkg/metrics"
	"github.com/garboard-dev/garboard/test/poll"
)

// hold takes a place that is free.
func hold(t *testing.T, s *slots) *turn {
	t.Helper()
	turn, err := s.acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return turn
}

// queueUp has someone wait for a place, and returns what it gets.
func queueUp(t *testing.T, s *slots) <-chan *turn {
	t.Helper()
	before, got := s.count().Queued, make(chan *turn, 1)
	go func() {
		turn, err := s.acquire(t.Context())
		if err != nil {
			t.Error(err)
		}
		got <- turn
	}()
	poll.Until(t, "someone waits for a place", func() bool { return s.count().Queued == before+1 })
	return got
}

func wantSlots(t *testing.T, s *slots, reason string, want metrics.Slots) {
	t.Helper()
	if diff := cmp.Diff(want, s.count()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", reason, diff)
	}
}

func TestWaitingGivesThePlaceAway(t *testing.T) {
	s := newSlots(1, 1)
	first := hold(t, s)
	second := queueUp(t, s)
	first.wait(true)
	first.wait(true)
	next := <-second
	wantSlots(t, s, "the next one works", metrics.Slots{Active: 1, Waiting: 1})
	if first.queued || !next.queued {
		t.Errorf("queued: %t, %t", first.queued, next.queued)
	}

	// The one that goes on works beside the next one, and nobody else begins until
	// both have ended.
	first.wait(false)
	third := queueUp(t, s)
	wantSlots(t, s, "one too many", metrics.Slots{Active: 2, Queued: 1})
	next.release()
	wantSlots(t, s, "as many as may", metrics.Slots{Active: 1, Queued: 1})
	first.release()
	(<-third).release()
	wantSlots(t, s, "nobody", metrics.Slots{})

	// kapp may call late.
	first.wait(true)
	first.wait(false)
	first.release()
	wantSlots(t, s, "nobody still", metrics.Slots{})
}

func TestFirstComeFirstServed(t *testing.T) {
	s := newSlots(1, 0)
	holder := hold(t, s)
	queue := []<-chan *turn{queueUp(t, s), queueUp(t, s), queueUp(t, s)}
	for i, mine := range queue {
		holder.release()
		holder = <-mine
		if left := s.count().Queued; left != len(queue)-i-1 {
			t.Errorf("%d wait after number %d got its place", left, i)
		}
	}
	holder.release()
}

// TestRoomsAreFull: who finds no room keeps its place, and moves when one is left.
func TestRoomsAreFull(t *testing.T) {
	s := newSlots(2, 1)
	one, two := hold(t, s), hold(t, s)
	next := queueUp(t, s)
	one.wait(true)
	three := <-next
	two.wait(true)
	two.wait(true)
	last := queueUp(t, s)
	wantSlots(t, s, "no room for the second", metrics.Slots{Active: 2, Waiting: 1, Queued: 1})
	one.release()
	four := <-last
	wantSlots(t, s, "now there is", metrics.Slots{Active: 2, Waiting: 1})

	// Who gave up waiting, or ended, moves nowhere.
	three.wait(true)
	four.wait(true)
	three.wait(false)
	four.release()
	two.release()
	wantSlots(t, s, "the third works", metrics.Slots{Active: 1})
	three.release()
	wantSlots(t, s, "nobody", metrics.Slots{})
}

func TestGivingUpTheQueue(t *testing.T) {
	s := newSlots(1, 1)
	holder := hold(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := s.acquire(ctx)
		ended <- err
	}()
	poll.Until(t, "one waits", func() bool { return s.count().Queued == 1 })
	cancel()
	if err := <-ended; err == nil {
		t.Error("got a place although it had ended")
	}
	holder.release()
	wantSlots(t, s, "nobody", metrics.Slots{})
	if _, err := s.acquire(ctx); err == nil {
		t.Error("a context that has ended got a place")
	}
	wantSlots(t, s, "nobody", metrics.Slots{})
}

// TestSlotsUnderLoad: whatever happens at the same time, nothing is lost, and no
// more than the places work except those that come back from a wait.
func TestSlotsUnderLoad(t *testing.T) {
	s := newSlots(3, 5)
	var wg sync.WaitGroup
	for i := range 60 {
		ctx, cancel := context.WithCancel(t.Context())
		wg.Go(func() {
			defer cancel()
			turn, err := s.acquire(ctx)
			if err != nil {
				return
			}
			defer turn.release()
			for range 3 {
				turn.wait(true)
				if n := s.count().Waiting; n > 5 {
					t.Errorf("%d wait", n)
				}
				turn.wait(false)
			}
		})
		if i%7 == 0 {
			cancel()
		}
	}
	wg.Wait()
	wantSlots(t, s, "nobody", metrics.Slots{})
}

// TestSlotsKeepCount: after any steps of three turns the counts are those of a model.
func TestSlotsKeepCount(t *testing.T) {
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // repeatable, no secret
		s := newSlots(3+rng.IntN(3), rng.IntN(4))
		turns := make([]*turn, 3)
		for i := range turns {
			var err error
			if turns[i], err = s.acquire(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		ended := map[int]bool{}
		for range rng.IntN(40) {
			who := rng.IntN(len(turns))
			switch rng.IntN(3) {
			case 0:
				turns[who].wait(true)
			case 1:
				turns[who].wait(false)
			default:
				turns[who].release()
				ended[who] = true
			}
			if c := s.count(); c.Active+c.Waiting != 3-len(ended) || c.Waiting > s.rooms || c.Active < 0 || c.Queued != 0 {
				t.Fatalf("seed %d: %d of 3 ended: %+v", seed, len(ended), c)
			}
		}
	}
}
