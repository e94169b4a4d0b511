package e2e

import (
	"strconv"
	"strings"
	"testing"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
)

// TestControllerKilledWhileWaiting: what a controller that died had waited for is
// waited for by the next, and the next edit ends that. Not parallel, as it ends the
// shared controller.
func TestControllerKilledWhileWaiting(t *testing.T) {
	w := newWorld(t)
	spec := func(value, selector string) string {
		return replaceAll(twenty(value), `"a.yml":`, `"web.yml": `+strconv.Quote(deployment("web", selector))+"\n      \"a.yml\":")
	}
	w.app("k", spec("1", nowhere))
	waits := func(a *v1alpha1.App) string {
		if a.Status.Deploy == nil || a.Status.Deploy.Finished {
			return "not deploying"
		}
		return contains(a.Status.Deploy.Stdout, "ongoing: reconcile deployment/web")
	}
	w.until("k", waits)
	garboard.Controller.Kill()
	started := w.get("k").Status.Deploy.StartedAt
	if err := garboard.Controller.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.until("k", func(a *v1alpha1.App) string {
		if problem := waits(a); problem != "" {
			return problem
		}
		if !started.Before(&a.Status.Deploy.StartedAt) {
			return "not run again"
		}
		return ""
	})
	w.wantTwenty("1")
	w.app("k", spec("2", ""))
	app := w.succeeded("k")
	w.wantTwenty("2")
	if out := app.Status.Deploy.Stdout; strings.Contains(out, "create configmap") {
		t.Errorf("objects were made anew:\n%s", out)
	}
	w.delete("k")
	w.gone("k")
}
