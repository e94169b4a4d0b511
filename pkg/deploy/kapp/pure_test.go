package kapp

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestPhases: text that only looks like a section is none, and nobody is told after
// the end.
func TestPhases(t *testing.T) {
	cases := map[string]struct {
		reason   string
		patterns []string
		want     []bool
		applied  int
	}{
		"Steps":    {"applying, waiting, applying", []string{"3:04:05PM: ---- applying 1 changes [0/2 done] ----\n", "3:04:05PM: ---- waiting on 1 changes [0/2 done] ----\n", "3:04:06PM: ---- applying 1 changes [1/2 done] ----\n"}, []bool{false, true, false}, 2},
		"Repeated": {"told when it changes", []string{"3:04:05PM: ---- waiting on 1 changes [0/2 done] ----\n", "3:05:05PM: ---- waiting on 1 changes [0/2 done] ----\n"}, []bool{true}, 0},
		"Text":     {"what users wrote is an argument", []string{"3:04:05PM: %s\n", "waiting on 1 changes", "---- waiting on"}, nil, 0},
		"Complete": {"the end of a wait is no wait", []string{"3:04:05PM: ---- waiting complete [2/2 done] ----\n"}, nil, 0},
	}
	for name, c := range cases {
		var got []bool
		applied := 0
		p := &phases{applying: func() { applied++ }, waiting: func(w bool) { got = append(got, w) }}
		for _, pattern := range c.patterns {
			p.line(pattern)
		}
		p.end()
		p.set(true)
		p.set(false)
		if !slices.Equal(got, c.want) || applied != c.applied {
			t.Errorf("%s: %s: told %v, applied %d; want %v, %d", name, c.reason, got, applied, c.want, c.applied)
		}
	}
	(&phases{}).line("3:04:05PM: ---- waiting on 1 changes ----\n") // nobody to tell
}

func TestFailLastChange(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const running = `{"labelKey":"k","labelValue":"v","lastChangeName":"c","lastChange":{"startedAt":"2026-01-01T00:00:00Z","finishedAt":"0001-01-01T00:00:00Z","namespaces":["ns"]},"usedGKs":[]}`
	const done = `{"lastChangeName":"c","lastChange":{"startedAt":"2026-01-01T00:00:00Z","finishedAt":"2026-01-01T00:00:01Z","successful":true}}`
	cases := map[string]struct {
		reason     string
		data, name string
		changed    bool
	}{
		"Running":  {"the change that was canceled", running, "c", true},
		"Another":  {"a later run's change is none of ours", running, "b", false},
		"Finished": {"what has ended stays", done, "c", false},
		"NotJSON":  {"what nobody can read stays", "{", "c", false},
		"Empty":    {"nothing is there", "", "", false},
	}
	for name, c := range cases {
		got, changed := failLastChange(c.data, c.name, now)
		if changed != c.changed {
			t.Errorf("%s: %s: changed %t: %s", name, c.reason, changed, got)
		}
		if !changed {
			continue
		}
		var before, after map[string]any
		if err := json.Unmarshal([]byte(c.data), &before); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(got), &after); err != nil {
			t.Fatal(err)
		}
		last, ok := before["lastChange"].(map[string]any)
		if !ok {
			t.Fatal("no last change")
		}
		last["finishedAt"], last["successful"] = "2026-01-02T03:04:05Z", false
		// kapp itself writes an empty list of versions when it reads none.
		delete(after, "usedGVs")
		if d := cmp.Diff(before, after); d != "" {
			t.Errorf("%s: %s (-want +got):\n%s", name, c.reason, d)
		}
	}
}

func TestClosure(t *testing.T) {
	deployment := schema.GroupKind{Group: "apps", Kind: "Deployment"}
	got, ok := closure([]schema.GroupKind{{Kind: "ConfigMap"}, deployment})
	var kinds []string
	for gk := range got {
		kinds = append(kinds, gk.Kind)
	}
	slices.Sort(kinds)
	if want := []string{"ConfigMap", "Deployment", "Pod", "ReplicaSet"}; !ok || !slices.Equal(kinds, want) {
		t.Errorf("kinds %v, want %v", kinds, want)
	}
	if _, ok := closure([]schema.GroupKind{{Group: "example.com", Kind: "Deployment"}}); ok {
		t.Error("nobody knows what is made of a custom resource")
	}
	// What is made of a kind is known as well, with what is made of that.
	for gk := range made {
		all, ok := closure([]schema.GroupKind{gk})
		more, ok2 := closure(slices.Collect(maps.Keys(all)))
		if !ok || !ok2 || !maps.Equal(all, more) {
			t.Errorf("%v: %v grows to %v", gk, all, more)
		}
	}
	lists := []*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "pods", Kind: "Pod"}, {Name: "nodes", Kind: "Node"}}},
		{GroupVersion: "example.com/v1", APIResources: []metav1.APIResource{{Name: "pods", Kind: "Pod"}}},
	}
	few := scoped(lists, map[schema.GroupKind]bool{{Kind: "Pod"}: true})
	if len(few) != 1 || few[0].GroupVersion != "v1" || len(few[0].APIResources) != 1 || len(lists[0].APIResources) != 2 {
		t.Errorf("scoped to Pods: %+v", few)
	}
}
