package outage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	data "github.com/garboard-dev/garboard/pkg/apis/datapackaging/v1alpha1"
	kappctrl "github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/test/testenv"
)

// fixed is how many packages are there from the beginning to the end.
const fixed = 20

// clients use the packaging API all the time: one creates and deletes, one lists and
// one watches. The versions of the package "tick" that exist are always a range
// without holes, so that an answer that misses something shows.
type clients struct {
	testing.TB
	ns string

	mu sync.Mutex // guards what follows
	// created and deleted are the highest versions that have been asked for.
	created, deleted int
	// version is the resource version of the last write that was confirmed, and
	// atLeast the highest version that existed then.
	version string
	atLeast int
	lists   int
	events  int
	wrong   []string
	errors  []failure
	excused []span
}

type span struct{ begin, end time.Time }

type failure struct {
	span
	text string
}

func newClients(t testing.TB) *clients {
	return &clients{TB: t, ns: env.Namespace(t)}
}

func tick(version int) *data.Package { return pkg("tick.example.com", version) }

func pkg(ref string, version int) *data.Package {
	p := &data.Package{}
	p.Spec.RefName, p.Spec.Version = ref, fmt.Sprintf("%d.0.0", version)
	p.Spec.Template.Spec = &kappctrl.AppSpec{}
	p.Name = ref + "." + p.Spec.Version
	return p
}

// start creates the fixed packages, half of them global, and lets all loose. What
// it returns ends them.
func (c *clients) start() (end func()) {
	for i := range fixed {
		p := pkg("fixed.example.com", i)
		if p.Namespace = c.ns; i%2 == 0 {
			p.Namespace = testenv.GlobalNamespace
		}
		if err := kube.Create(c.Context(), p); err != nil {
			c.Fatal(err)
		}
		c.version = p.ResourceVersion
	}
	ctx, cancel := context.WithCancel(c.Context())
	var wg sync.WaitGroup
	for _, work := range []func(context.Context){c.write, c.list, c.watch} {
		wg.Go(func() {
			for ctx.Err() == nil {
				work(ctx)
			}
		})
	}
	return func() { cancel(); wg.Wait() }
}

// note keeps an error, unless it is that of the end.
func (c *clients) note(ctx context.Context, doing string, begin time.Time, err error) {
	if ctx.Err() != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.errors = append(c.errors, failure{span{begin, time.Now()}, doing + ": " + err.Error()})
}

func (c *clients) saw(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
}

// write creates the next version, and deletes the oldest of more than five. It
// repeats what failed: it may have been done.
func (c *clients) write(ctx context.Context) {
	c.mu.Lock()
	c.created++
	next, oldest := c.created, c.deleted+1
	c.mu.Unlock()
	p := tick(next)
	p.Namespace = c.ns
	c.insist(ctx, "create", func() error {
		p.ResourceVersion = ""
		err := kube.Create(ctx, p)
		if apierrors.IsAlreadyExists(err) {
			return kube.Get(ctx, client.ObjectKeyFromObject(p), p)
		}
		return err
	})
	c.mu.Lock()
	if ctx.Err() == nil {
		c.version, c.atLeast = p.ResourceVersion, next
	}
	if next-oldest < 5 {
		c.mu.Unlock()
		return
	}
	c.deleted = oldest
	c.mu.Unlock()
	p = tick(oldest)
	p.Namespace = c.ns
	c.insist(ctx, "delete", func() error { return client.IgnoreNotFound(kube.Delete(ctx, p)) })
}

func (c *clients) insist(ctx context.Context, doing string, do func() error) {
	for ctx.Err() == nil {
		begin := time.Now()
		err := do()
		if err == nil {
			return
		}
		c.note(ctx, doing, begin, err)
	}
}

// list asks for what is at least as new as the last write that was confirmed.
func (c *clients) list(ctx context.Context) {
	c.mu.Lock()
	version, atLeast := c.version, c.atLeast
	c.mu.Unlock()
	list, begin := &data.PackageList{}, time.Now()
	if err := kube.List(ctx, list, &client.ListOptions{Namespace: c.ns, Raw: &metav1.ListOptions{ResourceVersion: version}}); err != nil {
		c.note(ctx, "list", begin, err)
		return
	}
	have := map[string]bool{}
	for i := range list.Items {
		have[list.Items[i].Name] = true
	}
	c.check("list", have, atLeast)
	c.mu.Lock()
	c.lists++
	c.mu.Unlock()
}

// check says what is wrong with a set of packages.
func (c *clients) check(who string, have map[string]bool, atLeast int) {
	var ticks []int
	others := 0
	for name := range have {
		text, ok := strings.CutPrefix(name, "tick.example.com.")
		if !ok {
			others++
			continue
		}
		n, err := strconv.Atoi(strings.TrimSuffix(text, ".0.0"))
		if err != nil {
			c.saw("%s: has %s", who, name)
		}
		ticks = append(ticks, n)
	}
	slices.Sort(ticks)
	if others != fixed {
		c.saw("%s: %d of the %d packages that are always there", who, others, fixed)
	}
	c.mu.Lock()
	created := c.created
	c.mu.Unlock()
	switch n := len(ticks); {
	case n == 0 && atLeast > 0:
		c.saw("%s: no version of %d", who, atLeast)
	case n > 0 && (ticks[n-1]-ticks[0] != n-1 || ticks[n-1] < atLeast || ticks[n-1] > created):
		c.saw("%s: versions %v, created are at least %d, at most %d", who, ticks, atLeast, created)
	}
}

// watch keeps a copy as informers do: it lists, and follows from there until it is
// told to list again.
func (c *clients) watch(ctx context.Context) {
	list, begin := &data.PackageList{}, time.Now()
	if err := kube.List(ctx, list, client.InNamespace(c.ns)); err != nil {
		c.note(ctx, "list to watch", begin, err)
		return
	}
	have := map[string]bool{}
	for i := range list.Items {
		have[list.Items[i].Name] = true
	}
	version, err := list.ResourceVersion, error(nil)
	for err == nil && ctx.Err() == nil {
		version, err = c.follow(ctx, have, version)
	}
}

var errListAgain = errors.New("list again")

// follow applies the events after a version, until the watch ends. It returns the
// version to go on from, or errListAgain.
func (c *clients) follow(ctx context.Context, have map[string]bool, version string) (string, error) {
	begin := time.Now()
	w, err := kube.Watch(ctx, &data.PackageList{}, &client.ListOptions{Namespace: c.ns, Raw: &metav1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true}})
	switch {
	case apierrors.IsResourceExpired(err) || apierrors.IsGone(err):
		return "", errListAgain
	case err != nil:
		c.note(ctx, "watch", begin, err)
		return version, nil
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		p, ok := e.Object.(*data.Package)
		switch {
		case e.Type == watch.Error && apierrors.IsResourceExpired(apierrors.FromObject(e.Object)):
			return "", errListAgain
		case e.Type == watch.Error || !ok:
			c.note(ctx, "watch", begin, apierrors.FromObject(e.Object))
			return version, nil
		}
		version = p.ResourceVersion
		if e.Type != watch.Bookmark {
			c.apply(have, e.Type, p.Name)
		}
	}
	return version, nil
}

func (c *clients) apply(have map[string]bool, what watch.EventType, name string) {
	if added := what == watch.Added; have[name] == added {
		c.saw("watch: %s %s, which was there: %t", what, name, have[name])
	}
	if have[name] = true; what == watch.Deleted {
		delete(have, name)
	}
	c.check("watch", have, 0)
	c.mu.Lock()
	c.events++
	c.mu.Unlock()
}

// outage runs do and waits until all clients have had answers again. Only requests
// that overlap it may have failed.
func (c *clients) outage(what string, do func()) {
	c.Helper()
	begin := time.Now()
	do()
	c.goOn(what)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.excused = append(c.excused, span{begin, time.Now()})
	c.Logf("%s: %d lists, %d events, %d errors so far", what, c.lists, c.events, len(c.errors))
}

// goOn waits until something was written, listed and seen in the watch.
func (c *clients) goOn(what string) {
	c.Helper()
	counts := func() (written, lists, events int) {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.atLeast, c.lists, c.events
	}
	written, lists, events := counts()
	testenv.Eventually(c, patience, func(context.Context) string {
		w, l, e := counts()
		if w < written+2 || l < lists+2 || e < events+2 {
			return fmt.Sprintf("after %s: %d writes, %d lists, %d events", what, w-written, l-lists, e-events)
		}
		return ""
	})
}

// judge reports all that was wrong, and all errors outside outages.
func (c *clients) judge() {
	c.Helper()
	for _, w := range c.wrong[:min(len(c.wrong), 10)] {
		c.Error(w)
	}
	var bad []string
	for _, f := range c.errors {
		if !slices.ContainsFunc(c.excused, func(o span) bool { return f.begin.Before(o.end) && o.begin.Before(f.end) }) {
			bad = append(bad, f.text)
		}
	}
	if len(bad) > 0 {
		c.Errorf("%d errors while something could answer: %s", len(bad), strings.Join(bad[:min(len(bad), 5)], "\n"))
	}
	c.Logf("%d lists, %d events, %d errors", c.lists, c.events, len(c.errors))
}
