package kapp_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard-dev/garboard/pkg/deploy/kapp"
)

// told collects what a run says of its waiting.
type told struct {
	mu    sync.Mutex // guards calls
	calls []bool
	// waits is closed when it first waits.
	waits chan struct{}
}

func newTold() *told { return &told{waits: make(chan struct{})} }

func (w *told) tell(waiting bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if waiting && !slices.Contains(w.calls, true) {
		close(w.waits)
	}
	w.calls = append(w.calls, waiting)
}

func (w *told) all() []bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.calls)
}

// inOrder is two ConfigMaps, the second after the first is done.
const inOrder = `
apiVersion: v1
kind: ConfigMap
metadata: {name: first, annotations: {kapp.k14s.io/change-group: first}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: second, annotations: {kapp.k14s.io/change-rule: upsert after upserting first}}
`

// TestWaiting: a run says when it waits, when it goes on to apply, and nothing when
// it does neither.
func TestWaiting(t *testing.T) {
	cases := map[string]struct {
		reason   string
		manifest string
		child    bool
		want     []bool
	}{
		"InOrder": {"each step is waited for", inOrder, false, []bool{false, true, false, true}},
		"Nothing": {"nothing to do, nothing to wait for", inOrder, false, nil},
		"Child":   {"a run in a process of its own tells as well", timed("timed", "yes"), true, []bool{false, true}},
	}
	b := newBench(t, true)
	for _, name := range []string{"InOrder", "Nothing", "Child"} {
		c, w := cases[name], newTold()
		b.runner = kapp.New(kapp.Options{})
		if c.child {
			b.runner = kapp.New(kapp.Options{Child: childCommand(t)})
		}
		req := b.request("waiting", c.manifest)
		req.Waiting = w.tell
		if res := b.runner.Deploy(t.Context(), req); res.Failed() {
			t.Fatalf("%s: %s\n%s", name, res.Err, res.Stderr)
		}
		if got := w.all(); !slices.Equal(got[:min(len(got), len(c.want))], c.want) || (len(c.want) == 0) != (len(got) == 0) {
			t.Errorf("%s: %s: told %v, want %v", name, c.reason, got, c.want)
		}
	}
}

// changes are the records of what the App name did.
func (b *bench) changes(name string) []corev1.ConfigMap {
	b.t.Helper()
	list, err := env.Core.CoreV1().ConfigMaps(b.namespace).List(b.t.Context(), metav1.ListOptions{LabelSelector: "kapp.k14s.io/is-app-change"})
	if err != nil {
		b.t.Fatal(err)
	}
	return slices.DeleteFunc(list.Items, func(cm corev1.ConfigMap) bool { return !strings.HasPrefix(cm.Name, name+"-change-") })
}

// changeSpec is what kapp keeps of a change.
type changeSpec struct {
	StartedAt, FinishedAt metav1.Time
	Successful            *bool
	Description           string
	Namespaces            []string
}

// TestCanceledChange: the record of a change that was canceled says that it failed,
// and not that it runs for ever; a late word of the canceled run replaces nothing.
func TestCanceledChange(t *testing.T) {
	cases := map[string]struct {
		reason   string
		manifest string
		options  []string
		child    bool
		changes  int
	}{
		"InProcess": {"kapp in this process", pending, nil, false, 1},
		"Child":     {"kapp in a process that is killed", timed("pending", "no"), nil, true, 1},
		"NoHistory": {"only the App's own record tells", pending, []string{"--app-changes-max-to-keep=0"}, false, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b, w := newBench(t, true), newTold()
			if c.child {
				b.runner = kapp.New(kapp.Options{Child: childCommand(t)})
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			req := b.request("slow", c.manifest, c.options...)
			req.Waiting = func(waiting bool) {
				w.tell(waiting)
				if waiting {
					cancel(errors.New("the App was edited"))
				}
			}
			res := b.runner.Deploy(ctx, req)
			if want := "Deploying: Process was canceled: the App was edited"; res.Err != want {
				t.Fatalf("%s: %q, want %q", c.reason, res.Err, want)
			}
			<-w.waits
			var record struct {
				LastChangeName string
				LastChange     changeSpec
			}
			if err := json.Unmarshal([]byte(b.configMap("slow.app").Data["spec"]), &record); err != nil {
				t.Fatal(err)
			}
			specs := []changeSpec{record.LastChange}
			changes := b.changes("slow.app")
			for _, cm := range changes {
				var spec changeSpec
				if err := json.Unmarshal([]byte(cm.Data["spec"]), &spec); err != nil {
					t.Fatal(err)
				}
				specs = append(specs, spec)
			}
			if len(changes) != c.changes || c.changes > 0 && changes[0].Name != record.LastChangeName {
				t.Errorf("%s: %d changes, the last is %q", c.reason, len(changes), record.LastChangeName)
			}
			for _, spec := range specs {
				if spec.FinishedAt.IsZero() || spec.StartedAt.IsZero() || spec.Successful == nil || *spec.Successful || !strings.HasPrefix(spec.Description, "update: ") || len(spec.Namespaces) != 1 {
					t.Errorf("%s: change %+v", c.reason, spec)
				}
			}

			b.requests.take()
			if res := b.runner.Delete(t.Context(), b.request("slow", "")); res.Failed() {
				t.Errorf("delete: %s\n%s", res.Err, res.Stderr)
			}
			if calls := w.all(); !slices.Equal(calls, []bool{false, true}) {
				t.Errorf("%s: told %v after its end", c.reason, calls)
			}
		})
	}
}
