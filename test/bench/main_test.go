// Package bench measures Garboard from outside, on a real control plane that
// shares this machine's processors: how long Apps take, how many API requests and
// processes they cost, and what they cost while nothing happens. `make bench`
// prints a table and writes bench.json at the top of the repository.
// report_test.go says what each figure is, docs/performance.md how to read them.
package bench

import (
	"context"
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/sidecar"
	"github.com/garboard-dev/garboard/test/testenv"
)

// What the benchmarks share; TestMain sets them.
var (
	env      *testenv.Env
	garboard *testenv.Garboard
	tools    *sidecar.Client
	kube     client.WithWatch
)

func TestMain(m *testing.M) {
	testenv.Main(m, &env, testenv.Options{}, func(ctx context.Context, e *testenv.Env) (err error) {
		if garboard, err = e.StartGarboard(ctx, testenv.GarboardOptions{}); err != nil {
			return err
		}
		tools = sidecar.NewClient(garboard.Socket)
		scheme := runtime.NewScheme()
		if err := clientgoscheme.AddToScheme(scheme); err != nil {
			return err
		}
		if err := v1alpha1.AddToScheme(scheme); err != nil {
			return err
		}
		kube, err = client.NewWithWatch(e.Config(), client.Options{Scheme: scheme})
		return err
	})
}

// BenchmarkApps measures one life of a set of Apps. It starts from a fresh
// control plane, so it is to be run with -benchtime 1x; the steps are one
// benchmark because each needs the one before. With -short the last and longest,
// idling, is left out.
func BenchmarkApps(b *testing.B) {
	if b.N > 1 {
		b.Fatal("run with -benchtime 1x: each run needs a control plane of its own")
	}
	r := report
	a := newApps(b, count)
	r.Create = a.create()
	r.Change = a.change()
	r.NoChange = a.noChange(often)
	r.Idle = a.idle()
	r.Memory = memory(b)
	r.metrics(b)
	r.print(os.Stdout)
	if err := r.write(env.Root()); err != nil {
		b.Fatal(err)
	}
}

// report is what all benchmarks add to.
var report = newReport()
