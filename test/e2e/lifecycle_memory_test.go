package e2e

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard-dev/garboard/test/testenv"
)

// heap is the memory that the controller's objects take, the least of several
// looks: most of what is more is garbage that nobody has collected yet.
func heap(ctx context.Context, t testing.TB) float64 {
	t.Helper()
	least := math.Inf(1)
	for range 20 {
		text, err := garboard.Metrics(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(text) {
			var n float64
			if _, err := fmt.Sscanf(line, "go_memstats_heap_alloc_bytes %g", &n); err == nil {
				least = min(least, n)
			}
		}
	}
	return least
}

// TestUnrelatedSecretsCostNothing is not parallel: it measures memory. Secrets that
// no App names may not take memory by what is in them, nor by the copy of it that
// kubectl leaves in an annotation.
func TestUnrelatedSecretsCostNothing(t *testing.T) {
	const (
		count = 2000
		size  = 20 << 10
		// each has 40 KiB; its name, labels and times take about 1.5 KiB.
		most = 8 << 10
	)
	w := newWorld(t)
	before := heap(t.Context(), t)
	var wg sync.WaitGroup
	names := make(chan int)
	for range 8 {
		wg.Go(func() {
			for i := range names {
				content := make([]byte, size)
				_, _ = rand.Read(content)
				_, err := env.Core.CoreV1().Secrets(w.ns).Create(t.Context(), &corev1.Secret{
					ObjectMeta: metav1.ObjectMeta{
						Name:        fmt.Sprintf("unrelated-%04d", i),
						Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: base64.StdEncoding.EncodeToString(content)},
					},
					Data: map[string][]byte{"value": content},
				}, metav1.CreateOptions{})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range count {
		names <- i
	}
	close(names)
	wg.Wait()
	// Events come in the order of changes: when the App that names the last Secret
	// has run, the controller has seen them all.
	w.apply(fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {name: named}, stringData: {cm.yml: %q}}", cm("after", "v", "1")))
	w.app("after", "syncPeriod: 10h\nfetch: [{inline: {pathsFrom: [{secretRef: {name: named}}]}}]\n"+deployAll)
	w.succeeded("after")
	w.apply(fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {name: named}, stringData: {cm.yml: %q}}", cm("after", "v", "2")))
	w.untilConfigMap("after", map[string]string{"v": "2"})
	testenv.Eventually(t, patience, func(ctx context.Context) string {
		each := (heap(ctx, t) - before) / count
		if each > most {
			return fmt.Sprintf("%.0f bytes for each Secret", each)
		}
		t.Logf("%.0f bytes for each Secret", each)
		return ""
	})
	if err := env.Core.CoreV1().Secrets(w.ns).DeleteCollection(context.WithoutCancel(t.Context()), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
}
