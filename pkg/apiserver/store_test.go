package apiserver

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	data "github.com/garboard-dev/garboard/pkg/apis/datapackaging/v1alpha1"
	stored "github.com/garboard-dev/garboard/pkg/apis/internalpackaging/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/packages"
)

// world is a store, and what fills it in place of a reflector.
type world struct {
	testing.TB
	kind  kind[*data.Package]
	store *store[*data.Package]
	rv    int
}

func newWorld(t testing.TB) *world {
	k := packageKind()
	w := &world{TB: t, kind: k, store: newStore(k.load, "global", logr.Discard()), rv: 100}
	if err := w.store.Replace(nil, "100"); err != nil {
		t.Fatal(err)
	}
	return w
}

// stored returns version n of the package in the namespace at a new resource version.
func (w *world) stored(namespace string, n int, label, uid string) *stored.InternalPackage {
	w.rv++
	p := &data.Package{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: fmt.Sprintf("web.example.com.%d.0.0", n), ResourceVersion: strconv.Itoa(w.rv),
		UID: types.UID(uid), Labels: map[string]string{"l": label},
	}}
	p.Spec.RefName, p.Spec.Version = "web.example.com", fmt.Sprintf("%d.0.0", n)
	return packages.StorePackage(p, "")
}

func (w *world) put(namespace string, n int, label string) {
	w.Helper()
	if err := w.store.Add(w.stored(namespace, n, label, namespace+strconv.Itoa(n))); err != nil {
		w.Fatal(err)
	}
}

func (w *world) remove(namespace string, n int) {
	w.Helper()
	if err := w.store.Delete(w.stored(namespace, n, "", "")); err != nil {
		w.Fatal(err)
	}
}

// lines describes objects by namespace, version and label.
func lines(list []*data.Package) (out []string) {
	for _, p := range list {
		out = append(out, p.Namespace+" "+p.Spec.Version+" "+p.Labels["l"]+" "+string(p.UID))
	}
	return out
}

func (w *world) list(v view) []string {
	list, _ := w.store.snapshot(w.kind, v)
	return lines(list)
}

func TestSnapshot(t *testing.T) {
	w := newWorld(t)
	w.put("global", 1, "a")
	w.put("global", 2, "b")
	w.put("team", 2, "c")
	w.put("team", 3, "a")
	w.put("other", 4, "a")
	cases := map[string]struct {
		reason string
		view   view
		want   []string
	}{
		"All":      {"every namespace as it is", view{}, []string{"global 1.0.0 a global1", "global 2.0.0 b global2", "other 4.0.0 a other4", "team 2.0.0 c team2", "team 3.0.0 a team3"}},
		"Plain":    {"a namespace that shows nothing global", view{namespace: "team"}, []string{"team 2.0.0 c team2", "team 3.0.0 a team3"}},
		"Merged":   {"local ones replace global ones", view{namespace: "team", merged: true}, []string{"team 1.0.0 a global1", "team 2.0.0 c team2", "team 3.0.0 a team3"}},
		"Empty":    {"only global ones", view{namespace: "new", merged: true}, []string{"new 1.0.0 a global1", "new 2.0.0 b global2"}},
		"Name":     {"by name", view{namespace: "team", merged: true, fields: fields.ParseSelectorOrDie("metadata.name=web.example.com.1.0.0")}, []string{"team 1.0.0 a global1"}},
		"RefName":  {"by what it is a version of", view{namespace: "team", fields: fields.ParseSelectorOrDie("spec.refName=web.example.com")}, []string{"team 2.0.0 c team2", "team 3.0.0 a team3"}},
		"OtherRef": {"of something else", view{namespace: "team", merged: true, fields: fields.ParseSelectorOrDie("spec.refName=x.example.com")}, nil},
		"Hidden":   {"a global one is replaced also by what the label does not select", view{namespace: "team", merged: true, labels: labels.SelectorFromSet(labels.Set{"l": "b"})}, nil},
		"Labels":   {"of both", view{namespace: "team", merged: true, labels: labels.SelectorFromSet(labels.Set{"l": "a"})}, []string{"team 1.0.0 a global1", "team 3.0.0 a team3"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, w.list(c.view)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

// watchFor watches a view from now on and returns a function that returns the next
// n events.
func (w *world) watchFor(v view, from start) func(n int) []string {
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	w.Cleanup(cancel)
	watcher := w.store.watch(ctx, w.kind, v, from, func() bool { return true })
	return func(n int) (out []string) {
		w.Helper()
		for range n {
			e, ok := <-watcher.ResultChan()
			if !ok {
				w.Fatalf("the watch ended after %v", out)
			}
			switch obj := e.Object.(type) {
			case *data.Package:
				out = append(out, fmt.Sprintf("%s %s@%s", e.Type, strings.Join(lines([]*data.Package{obj}), ""), obj.ResourceVersion))
			case *metav1.Status:
				out = append(out, fmt.Sprintf("%s %d %s", e.Type, obj.Code, obj.Reason))
			}
		}
		return out
	}
}

func TestWatchTellsWhatListsShow(t *testing.T) {
	merged := view{namespace: "team", merged: true}
	onlyA := view{namespace: "team", merged: true, labels: labels.SelectorFromSet(labels.Set{"l": "a"})}
	cases := map[string]struct {
		reason string
		view   view
		do     func(*world)
		want   []string
	}{
		"Local":       {"added, changed, removed", merged, func(w *world) { w.put("team", 1, "a"); w.put("team", 1, "b"); w.remove("team", 1) }, []string{"ADDED team 1.0.0 a team1@101", "MODIFIED team 1.0.0 b team1@102", "DELETED team 1.0.0 b team1@103"}},
		"Global":      {"as the namespace shows it", merged, func(w *world) { w.put("global", 1, "a"); w.put("global", 1, "b"); w.remove("global", 1) }, []string{"ADDED team 1.0.0 a global1@101", "MODIFIED team 1.0.0 b global1@102", "DELETED team 1.0.0 b global1@103"}},
		"Replaced":    {"another object takes the place", merged, func(w *world) { w.put("global", 1, "a"); w.put("team", 1, "b") }, []string{"ADDED team 1.0.0 a global1@101", "DELETED team 1.0.0 a global1@101", "ADDED team 1.0.0 b team1@102"}},
		"ShowsAgain":  {"and gives it back", merged, func(w *world) { w.put("team", 1, "b"); w.put("global", 1, "a"); w.remove("team", 1) }, []string{"ADDED team 1.0.0 b team1@101", "DELETED team 1.0.0 b team1@102", "ADDED team 1.0.0 a global1@103"}},
		"Elsewhere":   {"what others do is not told", merged, func(w *world) { w.put("other", 1, "a"); w.put("team", 2, "a") }, []string{"ADDED team 2.0.0 a team2@102"}},
		"NotMerged":   {"nor is what is global", view{namespace: "team"}, func(w *world) { w.put("global", 1, "a"); w.put("team", 2, "a") }, []string{"ADDED team 2.0.0 a team2@102"}},
		"Everywhere":  {"each in its own namespace", view{}, func(w *world) { w.put("global", 1, "a"); w.put("team", 2, "a") }, []string{"ADDED global 1.0.0 a global1@101", "ADDED team 2.0.0 a team2@102"}},
		"BeginsToFit": {"the selector", onlyA, func(w *world) { w.put("team", 1, "b"); w.put("team", 1, "a") }, []string{"ADDED team 1.0.0 a team1@102"}},
		"CeasesToFit": {"the selector: told as it was", onlyA, func(w *world) { w.put("team", 1, "a"); w.put("team", 1, "b") }, []string{"ADDED team 1.0.0 a team1@101", "DELETED team 1.0.0 a team1@102"}},
		"HiddenByOne": {"that the selector does not select", onlyA, func(w *world) { w.put("global", 1, "a"); w.put("team", 1, "b") }, []string{"ADDED team 1.0.0 a global1@101", "DELETED team 1.0.0 a global1@102"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			next := w.watchFor(c.view, start{from: 100})
			c.do(w)
			if diff := cmp.Diff(c.want, next(len(c.want))); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

func TestWatchBeginsWhereAsked(t *testing.T) {
	w := newWorld(t)
	w.put("team", 1, "a")
	w.put("team", 2, "a")
	v := view{namespace: "team"}
	marked := w.watchFor(v, start{initial: true, marked: true, bookmarks: true})
	if diff := cmp.Diff([]string{"ADDED team 1.0.0 a team1@101", "ADDED team 2.0.0 a team2@102", "BOOKMARK    @102"}, marked(3)); diff != "" {
		t.Errorf("with what there is (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"ADDED team 2.0.0 a team2@102"}, w.watchFor(v, start{from: 101})(1)); diff != "" {
		t.Errorf("from a version (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"ERROR 410 Expired"}, w.watchFor(v, start{from: 99})(1)); diff != "" {
		t.Errorf("from before the log (-want +got):\n%s", diff)
	}
	now := w.watchFor(v, start{})
	w.put("team", 3, "a")
	if diff := cmp.Diff([]string{"ADDED team 3.0.0 a team3@103"}, append(now(1), marked(1)...)[:1]); diff != "" {
		t.Errorf("from now (-want +got):\n%s", diff)
	}
	if err := w.store.Replace(nil, "200"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"ERROR 410 Expired"}, now(1)); diff != "" {
		t.Errorf("after the store began anew (-want +got):\n%s", diff)
	}
}

// TestSlowWatch: who lags behind further than the log goes back lists again, and
// holds up nobody.
func TestSlowWatch(t *testing.T) {
	w := newWorld(t)
	next := w.watchFor(view{namespace: "team"}, start{from: 100})
	w.put("team", 1, "a")
	if got := next(1); got[0] != "ADDED team 1.0.0 a team1@101" {
		t.Fatal(got)
	}
	for range 3 * logLength {
		w.put("team", 1, "b")
	}
	for i := 0; ; i++ {
		got := next(1)[0]
		if got == "ERROR 410 Expired" {
			break
		}
		if !strings.HasPrefix(got, "MODIFIED ") || i > 3*logLength {
			t.Fatal(got)
		}
	}
	if _, rv := w.store.snapshot(w.kind, view{}); rv != uint64(w.rv) {
		t.Errorf("the store is at %d, not %d", rv, w.rv)
	}
}

// TestWatchEnds: by Stop, twice, with nobody reading, and by its context.
func TestWatchEnds(t *testing.T) {
	w := newWorld(t)
	w.put("team", 1, "a")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, end := range map[string]func(watch.Interface){
		"Stop":    func(x watch.Interface) { x.Stop(); x.Stop() },
		"Context": func(watch.Interface) { cancel() },
	} {
		x := w.store.watch(ctx, w.kind, view{}, start{initial: true}, func() bool { return true })
		end(x)
		for e := range x.ResultChan() { // until it is closed
			t.Log(e.Type)
		}
	}
}

// TestViewOfNamespaceChanges: a namespace that begins to show global packages.
func TestViewOfNamespaceChanges(t *testing.T) {
	w := newWorld(t)
	valid := true
	x := w.store.watch(t.Context(), w.kind, view{namespace: "team"}, start{}, func() bool {
		w.store.mu.RLock()
		defer w.store.mu.RUnlock()
		return valid
	})
	w.store.mu.Lock()
	valid = false
	w.store.mu.Unlock()
	w.store.wake()
	e := <-x.ResultChan()
	if status, ok := e.Object.(*metav1.Status); !ok || status.Code != 410 {
		t.Errorf("got %v", e)
	}
	if _, more := <-x.ResultChan(); more {
		t.Error("the watch goes on")
	}
}

func TestForeignObjectsAreSkipped(t *testing.T) {
	w := newWorld(t)
	in := w.stored("team", 1, "a", "u")
	in.Name = "not-encoded"
	if err := w.store.Add(in); err != nil {
		t.Fatal(err)
	}
	if err := w.store.Replace([]any{in, w.stored("team", 2, "a", "team2")}, "300"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"team 2.0.0 a team2"}, w.list(view{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestWatchesAndListsAgree: whatever happens, who lists once and then watches knows
// what who lists at the end is told. It is no fuzz test: to instrument all that an API
// server is made of takes minutes.
func TestWatchesAndListsAgree(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		agree(t, random)
	}
}

func agree(t *testing.T, random *rand.Rand) {
	t.Helper()
	w := newWorld(t)
	views := []view{
		{}, {namespace: "team"}, {namespace: "team", merged: true}, {namespace: "other", merged: true},
		{namespace: "team", merged: true, labels: labels.SelectorFromSet(labels.Set{"l": "1"})},
		{namespace: "team", merged: true, fields: fields.ParseSelectorOrDie("metadata.name=web.example.com.1.0.0")},
	}
	known := make([]map[string]string, len(views))
	var from uint64
	for begin, i := random.IntN(20), 0; i < 60; i++ {
		if i == begin {
			for j, v := range views {
				list, rv := w.store.snapshot(w.kind, v)
				known[j], from = index(list), rv
			}
		}
		namespace, n := []string{"global", "team", "other"}[random.IntN(3)], random.IntN(3)
		if random.IntN(3) > 0 {
			w.put(namespace, n, strconv.Itoa(random.IntN(2)))
		} else if w.store.objects[key{namespace, fmt.Sprintf("web.example.com.%d.0.0", n)}] != nil {
			w.remove(namespace, n)
		}
	}
	cursor, ok := w.store.after(from)
	events, _, _, _ := w.store.since(cursor)
	for j, v := range views {
		last := from
		for _, e := range events {
			for _, out := range translate(w.kind, v, "global", e) {
				last = follow(t, known[j], out, last)
			}
		}
		list, _ := w.store.snapshot(w.kind, v)
		if diff := cmp.Diff(index(list), known[j]); !ok || diff != "" {
			t.Fatalf("view %d (-listed +watched):\n%s", j, diff)
		}
	}
}

// follow does what a client does with an event.
func follow(t *testing.T, known map[string]string, e watch.Event, last uint64) uint64 {
	t.Helper()
	p := e.Object.(*data.Package)
	name := p.Namespace + "/" + p.Name
	line := lines([]*data.Package{p})[0]
	switch _, had := known[name]; {
	case e.Type == watch.Added && had, e.Type != watch.Added && !had:
		t.Fatalf("%s of %s, which was there: %t", e.Type, name, had)
	case e.Type == watch.Deleted:
		delete(known, name)
	default:
		known[name] = line
	}
	rv, err := parseVersion(p.ResourceVersion)
	if err != nil || rv < last {
		t.Fatalf("version %d after %d: %v", rv, last, err)
	}
	return rv
}

func index(list []*data.Package) map[string]string {
	out := map[string]string{}
	for _, p := range list {
		out[p.Namespace+"/"+p.Name] = lines([]*data.Package{p})[0]
	}
	return out
}

func BenchmarkSnapshot(b *testing.B) {
	w := newWorld(b)
	for i := range 5000 {
		w.put("global", i, "a")
	}
	for name, v := range map[string]view{
		"merged":  {namespace: "team", merged: true},
		"refName": {namespace: "team", merged: true, fields: fields.ParseSelectorOrDie("spec.refName=web.example.com")},
		"name":    {namespace: "team", merged: true, fields: fields.ParseSelectorOrDie("metadata.name=web.example.com.1.0.0")},
	} {
		b.Run("packages=5000,"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				w.store.snapshot(w.kind, v)
			}
		})
	}
}
