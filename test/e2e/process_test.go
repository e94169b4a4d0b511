package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/test/testenv"
)

// Tests in this file end and start the shared processes, so none is parallel:
// they run before all that are.

// slow is a ytt template that computes for minutes.
const slow = "#@ def spin():\n#@   n = 0\n#@   for i in range(1000000000):\n#@     n = n + i\n#@   end\n#@   return n\n#@ end\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: slow}\ndata:\n  n: #@ str(spin())\n"

// TestSidecarKilled: the stage that runs fails with a clear error, and the next
// reconcile works.
func TestSidecarKilled(t *testing.T) {
	w := newWorld(t)
	w.app("slow", yttApp(map[string]string{"a.yml": slow}))
	untilTool(t, "ytt")
	garboard.Sidecar.Kill()
	app := w.failed("slow")
	checkFailure(t, app, "template", "Templating dir: Internal run comm: ", nil)

	// Without a sidecar the next stage cannot even begin, and says so.
	w.app("slow", yttApp(map[string]string{"a.yml": cm("slow", "v", "1")}))
	app = w.failed("slow")
	if problem := contains(app.Status.Conditions[0].Message, "Fetching: Opening work folder: Internal run comm: "); problem != "" {
		t.Error(problem)
	}
	if err := garboard.Sidecar.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.succeeded("slow")
	w.wantConfigMap("slow", map[string]string{"v": "1"})
	untilNoWorkspaces(t)
}

// untilTool waits until the sidecar runs a tool.
func untilTool(t *testing.T, name string) {
	t.Helper()
	testenv.Eventually(t, patience, func(context.Context) string {
		for _, child := range children(garboard.Sidecar.PID()) {
			if comm, err := os.ReadFile(fmt.Sprintf("/proc/%s/comm", child)); err == nil && strings.TrimSpace(string(comm)) == name {
				return ""
			}
		}
		return name + " is not running"
	})
}

func children(pid int) (out []string) {
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return nil
	}
	for _, list := range lists {
		if data, err := os.ReadFile(list); err == nil {
			out = append(out, strings.Fields(string(data))...)
		}
	}
	return out
}

// TestControllerKilled: a controller that dies in a deploy leaves an App that the
// next one finishes.
func TestControllerKilled(t *testing.T) {
	w := newWorld(t)
	w.app("stuck", "syncPeriod: 10h\n"+yttApp(map[string]string{"d.yml": deployment("stuck", nowhere), "a.yml": cm("beside", "v", "1")}))
	// Times in the status have whole seconds: the resumed run must not begin in the
	// second in which this one did.
	before := w.until("stuck", func(a *v1alpha1.App) string {
		if problem := waiting(a); problem != "" {
			return problem
		}
		if d := a.Status.Deploy; d.UpdatedAt.Sub(d.StartedAt.Time) < 2*time.Second {
			return "the deploy has only begun"
		}
		return ""
	}).Status.Deploy.StartedAt
	garboard.Controller.Kill()
	if err := garboard.Controller.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.app("done", yttApp(map[string]string{"a.yml": cm("done-config")}))
	w.succeeded("done")
	// The interrupted App runs again by itself: its status moves although neither
	// its spec nor its sync period gives a reason.
	w.until("stuck", func(a *v1alpha1.App) string {
		if problem := waiting(a); problem != "" || !before.Before(&a.Status.Deploy.StartedAt) {
			return "not resumed: " + problem
		}
		return ""
	})
	w.edit("stuck", func(a *v1alpha1.App) { a.Spec.Canceled = true })
	w.until("stuck", func(a *v1alpha1.App) string { return contains(a.Status.FriendlyDescription, "Canceled/paused") })
	w.edit("stuck", func(a *v1alpha1.App) {
		a.Spec.Canceled = false
		a.Spec.Fetch[0].Inline.Paths["d.yml"] = deployment("stuck", "")
	})
	w.succeeded("stuck")
	untilNoWorkspaces(t)
}

// TestDeleteEndsARunningTool: a delete does not wait for a tool either.
func TestDeleteEndsARunningTool(t *testing.T) {
	w := newWorld(t)
	w.app("slow", yttApp(map[string]string{"a.yml": slow}))
	untilTool(t, "ytt")
	w.delete("slow")
	w.gone("slow")
	testenv.Eventually(t, patience, func(context.Context) string {
		if left := children(garboard.Sidecar.PID()); len(left) > 0 {
			return fmt.Sprintf("tools still run: %v", left)
		}
		return ""
	})
	untilNoWorkspaces(t)
}

// TestTemporaryFoldersGo: no work folder is left, after success and after failure
// of each stage, in the sidecar or in the controller.
func TestTemporaryFoldersGo(t *testing.T) {
	w := newWorld(t)
	w.app("good", yttApp(map[string]string{"a.yml": cm("good")}))
	w.app("bad-fetch", "fetch: [{http: {url: 'http://127.0.0.1:1/x'}}]\n"+deployAll)
	w.app("bad-template", yttApp(map[string]string{"a.yml": "#@ nothere"}))
	w.app("bad-deploy", yttApp(map[string]string{"a.yml": "just: data"}))
	w.succeeded("good")
	for _, name := range []string{"bad-fetch", "bad-template", "bad-deploy"} {
		w.failed(name)
		w.edit(name, func(a *v1alpha1.App) { a.Spec.Paused = true })
		w.until(name, func(a *v1alpha1.App) string { return contains(a.Status.FriendlyDescription, "Canceled/paused") })
	}
	untilNoWorkspaces(t)
}

// untilNoWorkspaces waits until neither process holds a temporary folder.
func untilNoWorkspaces(t *testing.T) {
	t.Helper()
	testenv.Eventually(t, patience, func(context.Context) string {
		var left []string
		for _, dir := range []string{garboard.SidecarWorkDir, garboard.ControllerTmpDir} {
			entries, err := os.ReadDir(dir)
			if err != nil && !os.IsNotExist(err) {
				return err.Error()
			}
			for _, e := range entries {
				if e.IsDir() && e.Name() != "cache" && e.Name() != "os" {
					left = append(left, filepath.Join(dir, e.Name()))
				}
			}
		}
		if len(left) > 0 {
			return "left behind: " + strings.Join(left, " ")
		}
		return ""
	})
}

// TestControllerRunsNoProgram: after all the tests before it, the controller has
// had no child: fetch and template tools run in the sidecar, kapp in the
// controller itself. The kernel adds the page faults of a process's ended
// children to its own statistics, and no program runs without one.
func TestControllerRunsNoProgram(t *testing.T) {
	w := newWorld(t)
	w.app("one", yttApp(map[string]string{"a.yml": cm("one")}))
	w.succeeded("one")
	w.delete("one")
	w.gone("one")
	if left := children(garboard.Controller.PID()); len(left) > 0 {
		t.Errorf("the controller has children: %v", left)
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", garboard.Controller.PID()))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	// proc(5): state is field 3, so cminflt, field 11, is the ninth from there.
	if faults := fields[8]; faults != "0" {
		t.Errorf("ended children of the controller had %s page faults: it ran a program", faults)
	}
}
