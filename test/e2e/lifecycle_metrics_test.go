package e2e

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/test/testenv"
)

// metric returns the value of a series of the controller, 0 if there is none.
func metric(ctx context.Context, t testing.TB, series string) float64 {
	t.Helper()
	return metrics(ctx, t, series)[series]
}

// metrics returns the controller's series that contain a text.
func metrics(ctx context.Context, t testing.TB, part string) map[string]float64 {
	t.Helper()
	text, err := garboard.Metrics(ctx)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	for line := range strings.Lines(text) {
		series, value, ok := strings.Cut(strings.TrimSpace(line), "} ")
		if !ok || strings.HasPrefix(line, "#") || !strings.Contains(line, part) {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		found[series+"}"] = n
	}
	return found
}

// series are the controller's series about an App, times as whether there are any.
func (w world) series(ctx context.Context, name string) map[string]float64 {
	w.Helper()
	found := map[string]float64{}
	for series, n := range metrics(ctx, w, fmt.Sprintf("name=%q,namespace=%q", name, w.ns)) {
		if strings.Contains(series, "_seconds{") && n > 0 {
			n = 1
		}
		found[strings.ReplaceAll(series, w.ns, "NS")] = n
	}
	return found
}

// TestMetrics: an App has the series that kapp-controller's users scrape, and none
// when it is gone.
func TestMetrics(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	want := map[string]float64{}
	count := func(name string, n float64) {
		want[fmt.Sprintf("kappctrl_app_reconcile_%s_total{controller=\"App\",name=\"m\",namespace=\"NS\"}", name)] = n
	}
	times := func(first bool, stages ...string) {
		for _, stage := range stages {
			want[fmt.Sprintf("kappctrl_reconcile%s_time_seconds{controller=\"App\",firstReconcile=\"%t\",name=\"m\",namespace=\"NS\"}", stage, first)] = 1
		}
	}
	check := func(when string) {
		t.Helper()
		testenv.Eventually(t, patience, func(ctx context.Context) string {
			if diff := cmp.Diff(want, w.series(ctx, "m")); diff != "" {
				return fmt.Sprintf("%s (-want +got):\n%s", when, diff)
			}
			return ""
		})
	}
	w.app("m", "syncPeriod: 10h\n"+yttApp(map[string]string{"a.yml": cm("m-config")}))
	w.succeeded("m")
	for _, name := range []string{"failure", "delete_attempt", "delete_failed"} {
		count(name, 0)
	}
	count("attempt", 1)
	count("success", 1)
	times(true, "", "_fetch", "_template", "_deploy")
	check("after the first run")

	w.app("m", "syncPeriod: 10h\n"+yttApp(map[string]string{"a.yml": cm("m-config", "v", "2")}))
	w.succeeded("m")
	count("attempt", 2)
	count("success", 2)
	times(false, "", "_fetch", "_template", "_deploy")
	check("after the second run")

	// Deletes fail without a service account, and are tried again.
	w.edit("m", func(a *v1alpha1.App) { a.Spec.ServiceAccountName = "nobody" })
	w.failed("m")
	w.delete("m")
	w.until("m", func(a *v1alpha1.App) string { return ended(a, v1alpha1.DeleteFailed) })
	testenv.Eventually(t, patience, func(ctx context.Context) string {
		got := w.series(ctx, "m")
		of := func(name string) float64 {
			return got[fmt.Sprintf("kappctrl_app_reconcile_%s_total{controller=\"App\",name=\"m\",namespace=\"NS\"}", name)]
		}
		if of("failure") < 1 || of("delete_failed") < 1 || of("delete_attempt") < of("delete_failed") {
			return fmt.Sprintf("%v", got)
		}
		return ""
	})
	w.edit("m", func(a *v1alpha1.App) { a.Spec.ServiceAccountName = "deployer" })
	w.gone("m")
	want = map[string]float64{}
	check("after it is gone")
}
