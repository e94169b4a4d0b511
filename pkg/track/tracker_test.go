package track

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
		do     func(*Tracker)
		want   bool
	}{
		"AfterRestart":   {"no run read it since the start, and it changed since", func(k *Tracker) { k.Event("t", values, "5") }, true},
		"Begun":          {"the run that started reads it", func(k *Tracker) { k.Event("t", values, "5"); k.Begin(one) }, false},
		"ReadSame":       {"the event is about what was read", func(k *Tracker) { k.Read(one, values, 5); k.Event("t", values, "5") }, false},
		"ReadNewer":      {"a late event of an older version", func(k *Tracker) { k.Read(one, values, 7); k.Event("t", values, "5") }, false},
		"Changed":        {"newer than what was read", func(k *Tracker) { k.Read(one, values, 5); k.Event("t", values, "6") }, true},
		"ReadAgain":      {"the next run read it", func(k *Tracker) { k.Read(one, values, 5); k.Event("t", values, "6"); k.Read(one, values, 6) }, false},
		"OtherNamespace": {"names are per namespace", func(k *Tracker) { k.Read(one, values, 5); k.Event("u", values, "6") }, false},
		"OtherKind": {"a ConfigMap of the Secret's name", func(k *Tracker) {
			k.Read(one, values, 5)
			k.Event("t", refs.Key{Kind: "ConfigMap", Name: "values"}, "6")
		}, false},
		"DroppedRef": {"the spec no longer names it", func(k *Tracker) { k.Read(one, values, 5); k.Event("t", values, "6"); k.Track(one, nil) }, false},
		"KeptRef": {"another key was added meanwhile", func(k *Tracker) {
			k.Read(one, values, 5)
			k.Track(one, []refs.Key{values, files})
			k.Event("t", values, "6")
		}, true},
		"MissingThenCreated": {"a run that found nothing counts as having read the latest known version", func(k *Tracker) {
			k.Event("t", values, "9")
			k.Begin(one)
			k.Event("t", values, "12")
		}, true},
		"MissingStays": {"a deleted object must not make its App spin", func(k *Tracker) {
			k.Event("t", values, "9")
			k.Begin(one)
		}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			k := NewTracker()
			k.Track(one, []refs.Key{values})
			c.do(k)
			if got := k.Changed(one); got != c.want {
				t.Errorf("%s: changed %v, want %v", c.reason, got, c.want)
			}
		})
	}
}

func TestTrackerOvertaken(t *testing.T) {
	cases := map[string]struct {
		reason string
		do     func(*Tracker)
		want   bool
	}{
		"NotReadYet": {"the run will read what is there", func(k *Tracker) { k.Begin(one); k.Event("t", values, "6") }, false},
		"Read":       {"the run has read the old one", func(k *Tracker) { k.Begin(one); k.Read(one, values, 5); k.Event("t", values, "6") }, true},
		"ReadNewer":  {"a late event", func(k *Tracker) { k.Begin(one); k.Read(one, values, 7); k.Event("t", values, "6") }, false},
		"NextRun":    {"has read nothing so far", func(k *Tracker) { k.Read(one, values, 5); k.Event("t", values, "6"); k.Begin(one) }, false},
		"OtherKey":   {"which nothing that was read is about", func(k *Tracker) { k.Begin(one); k.Read(one, values, 5); k.Event("t", files, "6") }, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			k := NewTracker()
			k.Track(one, []refs.Key{values, files})
			c.do(k)
			if got := k.Overtaken(one); got != c.want {
				t.Errorf("%s: overtaken %v, want %v", c.reason, got, c.want)
			}
		})
	}
}

func TestTrackerBaseline(t *testing.T) {
	cases := map[string]struct {
		reason       string
		latest, read int64
		event        string
		want         bool
	}{
		"AsRead":       {"a restart is no reason to run", 5, 5, "", false},
		"LateEvent":    {"nor is the event of what is known", 5, 5, "5", false},
		"ChangedWhile": {"what changed while no controller ran is", 6, 0, "", true},
		"ChangedLater": {"and what changes later", 5, 5, "6", true},
		"Missing":      {"what is not there has not changed", 0, 0, "", false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			k, asked := NewTracker(), 0
			for range 2 {
				k.Track(one, []refs.Key{values})
				k.Baseline(one, func(refs.Key) (int64, int64) {
					asked++
					return c.latest, c.read
				})
			}
			if c.event != "" {
				k.Event("t", values, c.event)
			}
			if got := k.Changed(one); got != c.want || asked != 1 {
				t.Errorf("%s: changed %v, want %v; asked %d times", c.reason, got, c.want, asked)
			}
		})
	}
}

func TestTrackerForgets(t *testing.T) {
	k := NewTracker()
	for range 3 {
		k.Track(one, []refs.Key{values, files})
		k.Track(two, []refs.Key{values})
		if got := k.Event("t", values, "1"); len(got) != 2 {
			t.Errorf("event reaches %v, want both apps", got)
		}
		k.Track(one, nil)
		k.Track(two, nil)
	}
	if diff := cmp.Diff(0, k.Len()); diff != "" {
		t.Errorf("something is kept of apps that are gone:\n%s", diff)
	}
}

func TestTrackerIsSafeForConcurrentUse(*testing.T) {
	k, wg := NewTracker(), sync.WaitGroup{}
	for i := range 8 {
		wg.Go(func() {
			app := types.NamespacedName{Namespace: "t", Name: fmt.Sprint(i % 3)}
			for v := range 200 {
				k.Track(app, []refs.Key{values})
				k.Event("t", values, fmt.Sprint(v))
				k.Read(app, values, int64(v))
				k.Changed(app)
				k.Track(app, nil)
			}
		})
	}
	wg.Wait()
}
