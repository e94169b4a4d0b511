package app

import (
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard-dev/garboard/pkg/refs"
)

var (
	one    = types.NamespacedName{Namespace: "t", Name: "one"}
	two    = types.NamespacedName{Namespace: "t", Name: "two"}
	values = refs.Key{Kind: "Secret", Name: "values"}
	files  = refs.Key{Kind: "ConfigMap", Name: "files"}
)

func TestTrackerChanged(t *testing.T) {
	cases := map[string]struct {
		reason string
		do     func(*tracker)
		want   bool
	}{
		"AfterRestart":   {"no run read it since the start, and it changed since", func(k *tracker) { k.event("t", values, "5") }, true},
		"Begun":          {"the run that started reads it", func(k *tracker) { k.event("t", values, "5"); k.begin(one) }, false},
		"ReadSame":       {"the event is about what was read", func(k *tracker) { k.read(one, values, 5); k.event("t", values, "5") }, false},
		"ReadNewer":      {"a late event of an older version", func(k *tracker) { k.read(one, values, 7); k.event("t", values, "5") }, false},
		"Changed":        {"newer than what was read", func(k *tracker) { k.read(one, values, 5); k.event("t", values, "6") }, true},
		"ReadAgain":      {"the next run read it", func(k *tracker) { k.read(one, values, 5); k.event("t", values, "6"); k.read(one, values, 6) }, false},
		"OtherNamespace": {"names are per namespace", func(k *tracker) { k.read(one, values, 5); k.event("u", values, "6") }, false},
		"OtherKind": {"a ConfigMap of the Secret's name", func(k *tracker) {
			k.read(one, values, 5)
			k.event("t", refs.Key{Kind: "ConfigMap", Name: "values"}, "6")
		}, false},
		"DroppedRef": {"the spec no longer names it", func(k *tracker) { k.read(one, values, 5); k.event("t", values, "6"); k.track(one, nil) }, false},
		"KeptRef": {"another key was added meanwhile", func(k *tracker) {
			k.read(one, values, 5)
			k.track(one, []refs.Key{values, files})
			k.event("t", values, "6")
		}, true},
		"MissingThenCreated": {"a run that found nothing counts as having read the latest known version", func(k *tracker) {
			k.event("t", values, "9")
			k.begin(one)
			k.event("t", values, "12")
		}, true},
		"MissingStays": {"a deleted object must not make its App spin", func(k *tracker) {
			k.event("t", values, "9")
			k.begin(one)
		}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			k := newTracker()
			k.track(one, []refs.Key{values})
			c.do(k)
			if got := k.changed(one); got != c.want {
				t.Errorf("%s: changed %v, want %v", c.reason, got, c.want)
			}
		})
	}
}

func TestTrackerForgets(t *testing.T) {
	k := newTracker()
	for range 3 {
		k.track(one, []refs.Key{values, files})
		k.track(two, []refs.Key{values})
		if got := k.event("t", values, "1"); len(got) != 2 {
			t.Errorf("event reaches %v, want both apps", got)
		}
		k.track(one, nil)
		k.track(two, nil)
	}
	if diff := cmp.Diff([]int{0, 0, 0}, []int{len(k.apps), len(k.users), len(k.latest)}); diff != "" {
		t.Errorf("something is kept of apps that are gone:\n%s", diff)
	}
}

func TestTrackerIsSafeForConcurrentUse(*testing.T) {
	k, wg := newTracker(), sync.WaitGroup{}
	for i := range 8 {
		wg.Go(func() {
			app := types.NamespacedName{Namespace: "t", Name: fmt.Sprint(i % 3)}
			for v := range 200 {
				k.track(app, []refs.Key{values})
				k.event("t", values, fmt.Sprint(v))
				k.read(app, values, int64(v))
				k.changed(app)
				k.track(app, nil)
			}
		})
	}
	wg.Wait()
}
