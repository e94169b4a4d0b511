package bench

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/test/testenv"
	"github.com/garboard-dev/garboard/test/testenv/controlplane"
)

const (
	count   = 100
	changes = 20
	// often is the sync period while idle: the default of kapp-controller.
	often = 30 * time.Second
	// idleFor is three of them.
	idleFor = 90 * time.Second
	// patience bounds the wait for one App.
	patience = 2 * time.Minute
)

// apps is a namespace full of Apps.
type apps struct {
	*testing.B
	ns    string
	count int
}

// patience bounds the wait for all Apps.
func (a *apps) patience() time.Duration {
	return patience + time.Duration(a.count)*500*time.Millisecond
}

const account = testenv.Deployer

func newApps(b *testing.B, count int) *apps {
	a := &apps{b, env.Namespace(b), count}
	env.MustApply(b, a.ns, account)
	return a
}

// manifest is an App that does not run again by itself while it is measured.
const manifest = `
apiVersion: kappctrl.k14s.io/v1alpha1
kind: App
metadata: {namespace: %[1]s, name: %[2]s}
spec:
  serviceAccountName: deployer
  syncPeriod: 1h
  fetch:
  - inline:
      paths:
        config.yml: |
          apiVersion: v1
          kind: ConfigMap
          metadata: {name: %[2]s-config}
          data: {value: %[3]q}
  template: [{ytt: {}}]
  deploy: [{kapp: {}}]
`

func (a *apps) app(name, value string) *unstructured.Unstructured {
	objs, err := testenv.Objects(fmt.Appendf(nil, manifest, a.ns, name, value))
	if err != nil {
		a.Fatal(err)
	}
	return objs[0]
}

func name(i int) string { return fmt.Sprintf("app-%03d", i) }

// each calls f for all Apps, from several clients at once.
func (a *apps) each(f func(ctx context.Context, name string) error) {
	a.Helper()
	var wg sync.WaitGroup
	next := make(chan int)
	for range 10 {
		wg.Go(func() {
			for i := range next {
				if err := f(a.Context(), name(i)); err != nil {
					a.Error(err)
				}
			}
		})
	}
	for i := range a.count {
		next <- i
	}
	close(next)
	wg.Wait()
	if a.Failed() {
		a.FailNow()
	}
}

// settled calls change and waits until all Apps have succeeded with a newer
// generation than before. It watches, so as not to load the API server.
func (a *apps) settled(change func()) time.Duration {
	a.Helper()
	ctx, cancel := context.WithTimeout(a.Context(), a.patience())
	defer cancel()
	before, version := a.list(ctx)
	old := map[string]int64{}
	for i := range before {
		old[before[i].Name] = before[i].Generation
	}
	began := time.Now()
	changed := make(chan struct{})
	go func() {
		defer close(changed)
		change()
	}()
	done := map[string]bool{}
	note := func(app *v1alpha1.App) {
		switch {
		case succeeded(app) && app.Generation > old[app.Name]:
			done[app.Name] = true
		case app.Status.ConsecutiveReconcileFailures > 0:
			a.Fatalf("App %s failed: %s", app.Name, app.Status.UsefulErrorMessage)
		}
	}
	for len(done) < a.count {
		if err := a.watch(ctx, version, note, func() bool { return len(done) == a.count }); err != nil {
			a.Fatalf("%d of %d Apps done: %v", len(done), a.count, err)
		}
		// The API server ends a watch that it finds slow.
		var now []v1alpha1.App
		now, version = a.list(ctx)
		for i := range now {
			note(&now[i])
		}
	}
	took := time.Since(began)
	<-changed
	return took
}

func (a *apps) list(ctx context.Context) ([]v1alpha1.App, string) {
	a.Helper()
	list := &v1alpha1.AppList{}
	if err := kube.List(ctx, list, client.InNamespace(a.ns)); err != nil {
		a.Fatal(err)
	}
	return list.Items, list.ResourceVersion
}

// watch calls note for each state of an App after version until enough says so or
// the watch ends.
func (a *apps) watch(ctx context.Context, version string, note func(*v1alpha1.App), enough func() bool) error {
	w, err := kube.Watch(ctx, &v1alpha1.AppList{}, client.InNamespace(a.ns), &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: version}})
	if err != nil {
		return err
	}
	defer w.Stop()
	for !enough() {
		e, ok := <-w.ResultChan()
		if !ok {
			return ctx.Err()
		}
		if app, ok := e.Object.(*v1alpha1.App); ok {
			note(app)
		}
	}
	return nil
}

func succeeded(app *v1alpha1.App) bool {
	s := app.Status
	return s.ObservedGeneration == app.Generation && len(s.Conditions) == 1 &&
		s.Conditions[0].Type == v1alpha1.ReconcileSucceeded && s.Conditions[0].Status == corev1.ConditionTrue
}

func (a *apps) create() Create {
	m := begin(a.B)
	took := a.settled(func() {
		a.each(func(ctx context.Context, name string) error { return kube.Create(ctx, a.app(name, "1")) })
	})
	each := float64(a.count)
	return Create{Apps: a.count, Seconds: took.Seconds(), CPU: m.cpu(1), Requests: m.requests(a.ns, each), ProcessStarts: m.starts(each)}
}

// change edits one App as `kubectl apply --server-side` does.
func (a *apps) change() Change {
	ctx, cancel := context.WithTimeout(a.Context(), patience)
	defer cancel()
	one := name(0)
	w, err := kube.Watch(ctx, &corev1.ConfigMapList{}, client.InNamespace(a.ns), client.MatchingFields{"metadata.name": one + "-config"})
	if err != nil {
		a.Fatal(err)
	}
	defer w.Stop()
	m := begin(a.B)
	var took []float64
	for i := range changes {
		value := fmt.Sprintf("changed-%d", i)
		began := time.Now()
		edited := client.ApplyConfigurationFromUnstructured(a.app(one, value))
		if err := kube.Apply(ctx, edited, client.FieldOwner("bench"), client.ForceOwnership); err != nil {
			a.Fatal(err)
		}
		for live := false; !live; {
			e, ok := <-w.ResultChan()
			if !ok {
				a.Fatal("the watch ended before the change was live")
			}
			cm, ok := e.Object.(*corev1.ConfigMap)
			live = ok && cm.Data["value"] == value
		}
		took = append(took, time.Since(began).Seconds())
		testenv.Eventually(a, patience, func(ctx context.Context) string {
			app := &v1alpha1.App{}
			if err := kube.Get(ctx, client.ObjectKey{Namespace: a.ns, Name: one}, app); err != nil || !succeeded(app) {
				return fmt.Sprintf("%v %+v", err, app.Status.Conditions)
			}
			return ""
		})
	}
	slices.Sort(took)
	at := func(part float64) float64 { return took[int(math.Ceil(part*float64(len(took))))-1] }
	return Change{Samples: changes, Median: at(0.5), P90: at(0.9), Max: at(1), Requests: m.requests(a.ns, changes)}
}

// noChange changes only the sync period, which makes each App run.
func (a *apps) noChange(period time.Duration) NoChange {
	m := begin(a.B)
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"syncPeriod":"`+period.String()+`"}}`))
	took := a.settled(func() {
		a.each(func(ctx context.Context, name string) error {
			return kube.Patch(ctx, a.app(name, ""), patch)
		})
	})
	each := float64(a.count)
	return NoChange{Seconds: took.Seconds(), CPU: m.cpu(1), Requests: m.requests(a.ns, each), ProcessStarts: m.starts(each)}
}

// idle measures whole sync periods. It begins in the middle of one, because all
// Apps ran together just before: so it counts as many runs as there are periods,
// or a few more.
func (a *apps) idle() Idle {
	if testing.Short() {
		return Idle{}
	}
	<-time.After(often / 2)
	m := begin(a.B)
	<-time.After(idleFor)
	minutes := m.elapsed().Minutes()
	return Idle{
		SyncPeriod: often.Seconds(), Seconds: m.elapsed().Seconds(),
		CPU: m.cpu(minutes), Requests: m.requests(a.ns, minutes),
	}
}

// meter counts from its beginning.
type meter struct {
	*testing.B
	since  time.Time
	ran    map[string]int64
	ticked [3]int64
}

func begin(b *testing.B) *meter {
	m := &meter{B: b, since: time.Now(), ran: starting(b)}
	m.ticked = ticks(b)
	return m
}

func (m *meter) elapsed() time.Duration { return time.Since(m.since) }

// requests counts what the controller and service accounts of the namespace
// asked, divided by per.
func (m *meter) requests(ns string, per float64) Requests {
	m.Helper()
	found, err := env.Audit().Requests(controlplane.Filter{Since: m.since})
	if err != nil {
		m.Fatal(err)
	}
	by := map[string]int{}
	for _, q := range found {
		who, ours := strings.CutPrefix(q.User, "system:serviceaccount:"+ns+":")
		if q.User == testenv.ControllerUser {
			who, ours = "controller", true
		}
		if !ours {
			continue
		}
		what := q.Resource
		if q.Subresource != "" {
			what += "/" + q.Subresource
		}
		if what == "" {
			what, _, _ = strings.Cut(q.URI, "?")
		}
		by[strings.Join([]string{who, q.Verb, what}, " ")]++
	}
	total := 0
	r := Requests{By: map[string]float64{}}
	for key, n := range by {
		total += n
		r.By[key] = float64(n) / per
	}
	r.Total = float64(total) / per
	return r
}
