package bench

import (
	"context"
	"fmt"
	"testing"
	"testing/fstest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard-dev/garboard/test/testenv"
	"github.com/garboard-dev/garboard/test/testenv/controlplane"
	"github.com/garboard-dev/garboard/test/testenv/registry"
)

var (
	repositoryKind = schema.GroupVersionResource{Group: "packaging.carvel.dev", Version: "v1alpha1", Resource: "packagerepositories"}
	packageKind    = schema.GroupVersionResource{Group: "internal.packaging.carvel.dev", Version: "v1alpha1", Resource: "internalpackages"}
)

// packageText is about as large as a Package with a few values.
const packageText = `apiVersion: data.packaging.carvel.dev/v1alpha1
kind: Package
metadata: {name: %[1]s.%[2]s}
spec:
  refName: %[1]s
  version: %[2]s
  releaseNotes: %[3]q
  licenses: [Apache-2.0]
  valuesSchema:
    openAPIv3:
      type: object
      properties:
        replicas: {type: integer, default: 1, description: Number of Pods}
        namespace: {type: string, default: default, description: Namespace to deploy to}
        ingress: {type: object, properties: {host: {type: string, default: ""}, tls: {type: boolean, default: false}}}
  template:
    spec:
      fetch: [{imgpkgBundle: {image: "registry.example.com/%[1]s@sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"}}]
      template: [{ytt: {paths: [config]}}, {kbld: {paths: ["-", .imgpkg/images.yml]}}]
      deploy: [{kapp: {rawOptions: ["--wait-timeout=10m"]}}]
`

func packageTree(count, changed int) fstest.MapFS {
	tree := fstest.MapFS{}
	for i := range count {
		notes := "as it was"
		if i < changed {
			notes = "changed"
		}
		name := fmt.Sprintf("package%03d.bench.example.com", i%(count/10))
		tree[fmt.Sprintf("packages/%s/%d.yml", name, i)] = &fstest.MapFile{Data: fmt.Appendf(nil, packageText, name, fmt.Sprintf("1.%d.0", i), notes), Mode: 0o644}
	}
	return tree
}

// BenchmarkRepository measures the life of a PackageRepository by the number of its
// packages: seconds, processor seconds and requests to import all, to take up ten changed ones, to look
// at unchanged ones after an edit, and to delete. Run it with -benchtime 1x.
func BenchmarkRepository(b *testing.B) {
	dir, err := env.Dir("bench-registry")
	if err != nil {
		b.Fatal(err)
	}
	server, err := registry.Start(b.Context(), registry.Options{BinDir: env.BinDir("dev"), ToolDir: env.BinDir("tools"), Dir: dir})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(server.Close)
	for _, count := range []int{500, 5000} {
		b.Run(fmt.Sprintf("packages=%d", count), func(b *testing.B) {
			r := repositoryBench{b, server, env.Namespace(b), count}
			b.ResetTimer()
			for range b.N {
				r.life()
			}
			peak := memory(b)
			b.ReportMetric(float64(peak.Controller)/(1<<20), "controller-MiB")
			b.ReportMetric(float64(peak.Sidecar)/(1<<20), "sidecar-MiB")
		})
	}
}

type repositoryBench struct {
	*testing.B
	registry *registry.Server
	ns       string
	count    int
}

func (r *repositoryBench) life() {
	r.push(0)
	r.step("import", func() { r.apply("1h"); r.succeeded() })
	r.step("look", func() { r.apply("2h"); r.succeeded() })
	r.push(10)
	r.step("change10", func() { r.apply("3h"); r.succeeded() })
	list, err := env.Dynamic.Resource(packageKind).Namespace(r.ns).List(r.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != r.count {
		r.Fatalf("%d packages are offered: %v", len(list.Items), err)
	}
	r.step("delete", r.delete)
}

// step times what do does and counts the controller's requests for it.
func (r *repositoryBench) step(name string, do func()) {
	r.Helper()
	began, used := time.Now(), processorSeconds(r.B)
	do()
	seconds := time.Since(began).Seconds()
	r.ReportMetric(processorSeconds(r.B)-used, name+"-cpu-s")
	requests := env.AuditCount(r, controlplane.Filter{User: testenv.ControllerUser, Namespace: r.ns, Since: began})
	r.ReportMetric(seconds, name+"-s")
	r.ReportMetric(float64(requests), name+"-requests")
}

func (r *repositoryBench) push(changed int) {
	r.Helper()
	if _, err := r.registry.PushBundle(r.Context(), fmt.Sprintf("bench/packages:%d", r.count), packageTree(r.count, changed)); err != nil {
		r.Fatal(err)
	}
}

// apply gives the repository a spec, and so a new generation.
func (r *repositoryBench) apply(syncPeriod string) {
	r.Helper()
	env.MustApply(r, r.ns, fmt.Sprintf("apiVersion: packaging.carvel.dev/v1alpha1\nkind: PackageRepository\nmetadata: {name: bench}\nspec: {syncPeriod: %s, fetch: {imgpkgBundle: {image: %q}}}\n",
		syncPeriod, fmt.Sprintf("%s/bench/packages:%d", r.registry.Host(), r.count)))
}

func (r *repositoryBench) succeeded() {
	r.Helper()
	testenv.Eventually(r, 5*patience, func(ctx context.Context) string {
		repo, err := env.Dynamic.Resource(repositoryKind).Namespace(r.ns).Get(ctx, "bench", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		observed, _, _ := unstructured.NestedInt64(repo.Object, "status", "observedGeneration")
		description, _, _ := unstructured.NestedString(repo.Object, "status", "friendlyDescription")
		if observed != repo.GetGeneration() || description != "Reconcile succeeded" {
			return fmt.Sprintf("generation %d of %d: %q", observed, repo.GetGeneration(), description)
		}
		return ""
	})
}

func (r *repositoryBench) delete() {
	r.Helper()
	if err := env.Dynamic.Resource(repositoryKind).Namespace(r.ns).Delete(r.Context(), "bench", metav1.DeleteOptions{}); err != nil {
		r.Fatal(err)
	}
	testenv.Eventually(r, 5*patience, func(ctx context.Context) string {
		_, err := env.Dynamic.Resource(repositoryKind).Namespace(r.ns).Get(ctx, "bench", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return ""
		}
		return fmt.Sprintf("the repository is still there: %v", err)
	})
}
