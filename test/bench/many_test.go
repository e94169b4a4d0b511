package bench

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/garboard-dev/garboard/test/testenv"
	"github.com/garboard-dev/garboard/test/testenv/controlplane"
)

const (
	many = 1000
	// seldom is the sync period of many Apps: one that they can keep on two
	// processors that the control plane needs too.
	seldom = 2 * time.Minute
	// secrets and secretSize are a cluster with many Secrets of others.
	secrets    = 20_000
	secretSize = 20 << 10
)

// series sums all series of a metric of the controller.
func series(ctx context.Context, b *testing.B, name string) (sum float64) {
	b.Helper()
	text, err := garboard.Metrics(ctx)
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest[0] != '{' && rest[0] != ' ' {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndexByte(rest, ' '):]), 64)
		if err != nil {
			b.Fatal(err)
		}
		sum += n
	}
	return sum
}

// settledHeap is what the controller's objects take, without garbage: looking at
// the metrics makes some, until it is collected.
func settledHeap(b *testing.B) float64 {
	b.Helper()
	least := math.Inf(1)
	for range 400 {
		least = min(least, series(b.Context(), b, "go_memstats_heap_alloc_bytes"))
	}
	return least
}

// atRest waits until no App works and returns the number of goroutines.
func atRest(b *testing.B) (n float64) {
	b.Helper()
	testenv.Eventually(b, patience, func(ctx context.Context) string {
		if busy := series(ctx, b, "garboard_app_slots"); busy > 0 {
			return fmt.Sprintf("%v Apps work", busy)
		}
		n = series(ctx, b, "go_goroutines")
		return ""
	})
	return n
}

// BenchmarkManyApps measures what Apps cost that nobody changes.
func BenchmarkManyApps(b *testing.B) {
	if b.N > 1 {
		b.Fatal("run with -benchtime 1x: each run needs a control plane of its own")
	}
	// All workers are there, and all connections, once some Apps have run.
	few := newApps(b, 20)
	few.create()
	few.remove()
	a := newApps(b, many)
	r := Many{Apps: many, SyncPeriod: seldom.Seconds(), GoroutinesBefore: atRest(b)}
	heap := settledHeap(b)
	r.CreateSeconds = a.create().Seconds
	r.Goroutines = atRest(b)
	r.HeapPerApp = (settledHeap(b) - heap) / many
	if !testing.Short() {
		a.noChange(seldom)
		ran, m := series(b.Context(), b, "kappctrl_app_reconcile_attempt_total"), begin(b)
		<-time.After(seldom + seldom/4)
		r.Runs, r.Seconds = series(b.Context(), b, "kappctrl_app_reconcile_attempt_total")-ran, m.elapsed().Seconds()
		r.Requests, r.Writes, r.CPU = m.requests(a.ns, max(r.Runs, 1)), a.writes(m.since), m.cpu(m.elapsed().Minutes())
	}
	r.Memory = memory(b)
	report.Many = r
	r.print(b)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(r.Writes), "writes")
	b.ReportMetric(r.Requests.Total, "req/run")
	b.ReportMetric(r.Goroutines-r.GoroutinesBefore, "goroutines")
	b.ReportMetric(r.HeapPerApp, "heap-B/app")
	if err := report.write(env.Root()); err != nil {
		b.Fatal(err)
	}
	a.remove()
}

// noState are what is created or updated without a change of any App: the packaging
// API asks whether its callers may, and the leader says that it is there.
var noState = []string{"leases", "events", "subjectaccessreviews", "tokenreviews"}

// writes counts what changed something, but leases and events.
func (a *apps) writes(since time.Time) (n int) {
	a.Helper()
	found, err := env.Audit().Requests(controlplane.Filter{Since: since})
	if err != nil {
		a.Fatal(err)
	}
	for _, q := range found {
		ours := q.User == testenv.ControllerUser || strings.HasPrefix(q.User, "system:serviceaccount:"+a.ns+":")
		reads := q.Verb == "get" || q.Verb == "list" || q.Verb == "watch"
		if ours && !reads && !slices.Contains(noState, q.Resource) && q.Subresource != "token" {
			n++
		}
	}
	return n
}

// remove pauses all Apps, so that the next benchmark has the machine to itself.
func (a *apps) remove() {
	a.each(func(ctx context.Context, name string) error {
		return kube.Patch(ctx, a.app(name, ""), client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"paused":true}}`)))
	})
	atRest(a.B)
}

func (r Many) print(b *testing.B) {
	b.Helper()
	fmt.Fprintf(os.Stdout, `
%d Apps that nobody changes, syncPeriod %.0f s
created at once, all succeeded after          %.0f s
goroutines without them, with them at rest    %.0f, %.0f
heap of the controller for each               %.1f KiB
runs in %.0f s                                %.0f
writes in that time                           %d
requests per run                              %.2f
processor seconds a minute                    %v
peak memory                                   controller %d MiB, sidecar %d MiB
`, r.Apps, r.SyncPeriod, r.CreateSeconds, r.GoroutinesBefore, r.Goroutines, r.HeapPerApp/1024, r.Seconds, r.Runs,
		r.Writes, r.Requests.Total, r.CPU, r.Memory.Controller>>20, r.Memory.Sidecar>>20)
}

// BenchmarkSecrets measures what Secrets cost that no App names. With -short there
// are few.
func BenchmarkSecrets(b *testing.B) {
	if b.N > 1 {
		b.Fatal("run with -benchtime 1x: each run needs a control plane of its own")
	}
	count := secrets
	if testing.Short() {
		count = secrets / 20
	}
	ns, before := env.Namespace(b), settledHeap(b)
	content := strings.Repeat("x", secretSize)
	var wg sync.WaitGroup
	next := make(chan int)
	for range 10 {
		wg.Go(func() {
			for i := range next {
				s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: fmt.Sprintf("secret-%05d", i)}, StringData: map[string]string{"value": content}}
				if err := kube.Create(b.Context(), s); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for i := range count {
		next <- i
	}
	close(next)
	wg.Wait()
	r := Secrets{Count: count, Bytes: secretSize, HeapEach: (settledHeap(b) - before) / float64(count)}
	if err := garboard.Controller.Restart(b.Context()); err != nil {
		b.Fatal(err)
	}
	settledHeap(b)
	r.Start = memory(b).Controller
	report.Secrets = r
	fmt.Fprintf(os.Stdout, "\n%d Secrets of %d KiB that no App names\nheap of the controller for each   %.1f KiB\nmost memory of a new controller   %d MiB\n\n", r.Count, r.Bytes>>10, r.HeapEach/1024, r.Start>>20)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(r.HeapEach, "heap-B/secret")
	if err := report.write(env.Root()); err != nil {
		b.Fatal(err)
	}
}
