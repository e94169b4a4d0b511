package bench

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/garboard-dev/garboard/test/testenv"
)

// listSamples is how often each list is asked for.
const listSamples = 21

var packagesResource = schema.GroupVersionResource{Group: "data.packaging.carvel.dev", Version: "v1alpha1", Resource: "packages"}

// BenchmarkPackages measures lists of Packages as a client of kube-apiserver gets
// them, through a namespace that shows them from the global one: the middle of
// listSamples, and the memory of the controller that serves them. Each Package has
// 5 KiB of values schema. There are ten versions of everything.
func BenchmarkPackages(b *testing.B) {
	env.WaitForAPI(b)
	ns := env.Namespace(b)
	have := 0
	for _, count := range []int{500, 5000} {
		addPackages(b, have, count)
		have = count
		b.Run(fmt.Sprintf("packages=%d", count), func(b *testing.B) {
			for range b.N {
				measureLists(b, ns, count)
			}
		})
	}
	if _, err := env.Kubectl(context.Background(), "delete", "-n", testenv.GlobalNamespace, "packages", "-l", "bench=packages", "--wait=false"); err != nil {
		b.Error(err)
	}
}

// addPackages stores Packages begin to end.
func addPackages(b *testing.B, begin, end int) {
	b.Helper()
	filler := strings.Repeat("what a value means ", 270)
	g, ctx := errgroup.WithContext(b.Context())
	g.SetLimit(2 * runtime.NumCPU())
	for i := begin; i < end; i++ {
		g.Go(func() error {
			ref, version := fmt.Sprintf("app-%04d.bench.example.com", i/10), fmt.Sprintf("1.%d.0", i%10)
			_, err := env.Dynamic.Resource(packagesResource).Namespace(testenv.GlobalNamespace).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "data.packaging.carvel.dev/v1alpha1", "kind": "Package",
				"metadata": map[string]any{"name": ref + "." + version, "labels": map[string]any{"bench": "packages"}},
				"spec": map[string]any{
					"refName": ref, "version": version,
					"valuesSchema": map[string]any{"openAPIv3": map[string]any{"description": filler}},
					"template":     map[string]any{"spec": map[string]any{"noopDelete": true}},
				},
			}}, metav1.CreateOptions{})
			return err
		})
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
}

func measureLists(b *testing.B, ns string, count int) {
	b.Helper()
	for unit, x := range map[string]struct{ accept, selector string }{
		"list-ms":     {"application/json", ""},
		"table-ms":    {"application/json;as=Table;g=meta.k8s.io;v=v1;includeObject=Metadata", ""},
		"protobuf-ms": {"application/vnd.kubernetes.protobuf", ""},
		"refname-ms":  {"application/json", "spec.refName=app-0001.bench.example.com"},
	} {
		var took []time.Duration
		for range listSamples {
			began := time.Now()
			body, err := packagesClient(b).Get().AbsPath("/apis/data.packaging.carvel.dev/v1alpha1/namespaces/"+ns+"/packages").
				SetHeader("Accept", x.accept).Param("fieldSelector", x.selector).Do(b.Context()).Raw()
			if err != nil {
				b.Fatal(err)
			}
			took = append(took, time.Since(began))
			if x.selector == "" && len(body) < 100*count {
				b.Fatalf("%d bytes are not %d packages", len(body), count)
			}
		}
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, unit)
	}
	rss, err := garboard.Controller.PeakRSS()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(rss>>20), "peak-MiB")
}

// packagesClient returns a client that takes any answer as it is.
func packagesClient(b *testing.B) rest.Interface {
	b.Helper()
	return env.Core.CoreV1().RESTClient()
}
