package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/garboard-dev/garboard/test/testenv"
)

// TestWaitingAppsHoldUpNobody: more deploys wait for what never comes than Apps
// may work at the same time, and others run all the same.
func TestWaitingAppsHoldUpNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const stuck = 12 // -concurrency is 10
	for i := range stuck {
		name := fmt.Sprintf("stuck-%d", i)
		w.app(name, "syncPeriod: 10h\n"+yttApp(map[string]string{"d.yml": deployment(name, nowhere)}))
	}
	for i := range stuck {
		w.until(fmt.Sprintf("stuck-%d", i), waiting)
	}
	testenv.Eventually(t, patience, func(ctx context.Context) string {
		if n := metric(ctx, t, `garboard_app_slots{state="waiting"}`); n < stuck {
			return fmt.Sprintf("%v deploys wait beside those that work", n)
		}
		return ""
	})
	w.app("free", yttApp(map[string]string{"a.yml": cm("free-config")}))
	w.succeeded("free")

	// One whose wait ends ends well.
	w.makeReady("stuck-0")
	w.succeeded("stuck-0")
	for i := range stuck {
		w.delete(fmt.Sprintf("stuck-%d", i))
	}
	for i := range stuck {
		w.gone(fmt.Sprintf("stuck-%d", i))
	}
}
