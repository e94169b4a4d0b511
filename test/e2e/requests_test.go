package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/garboard-dev/garboard/pkg/sidecar"
	"github.com/garboard-dev/garboard/test/testenv"
	"github.com/garboard-dev/garboard/test/testenv/controlplane"
)

// What one App of one ConfigMap may cost. The figures are what was measured and a
// little room for a machine so slow that a run's beginning is written too. Whoever
// raises one makes every cluster pay for it: see docs/performance.md.
const (
	// 17 alone: finalizer, status and event, 12 as the service account, its token and
	// a look at it. 2 more in a cluster whose kinds are not known yet.
	maxFirst = 20
	// 15 when others of its service account were there before.
	maxCreate = 17
	// 2 and a look at the service account.
	maxSync = 4
)

// requests are those of the controller and the service account in the namespace.
func (w world) requests(since time.Time) (found []string) {
	w.Helper()
	all, err := env.Audit().Requests(controlplane.Filter{Namespace: w.ns, Since: since})
	if err != nil {
		w.Fatal(err)
	}
	for _, r := range all {
		account, ours := strings.CutPrefix(r.User, "system:serviceaccount:"+w.ns+":")
		if r.User == testenv.ControllerUser {
			account, ours = "controller", true
		}
		if ours {
			found = append(found, fmt.Sprintf("%s %s %s/%s %s %d", account, r.Verb, r.Resource, r.Subresource, r.Name, r.Code))
		}
	}
	return found
}

// cost counts the requests of an App's run until its status is written.
func (w world) cost(name string, since time.Time, most int) {
	w.Helper()
	written := fmt.Sprintf("controller update apps/status %s 200", name)
	var found []string
	testenv.Eventually(w, patience, func(context.Context) string {
		if found = w.requests(since); slices.Contains(found, written) {
			return ""
		}
		return "no status write of " + name + " is on record"
	})
	w.Logf("%s cost %d requests", name, len(found))
	if len(found) > most {
		w.Errorf("%s cost %d requests, want at most %d:\n%s", name, len(found), most, strings.Join(found, "\n"))
	}
}

// TestCostOfAnApp is not parallel: it counts what the sidecar starts.
func TestCostOfAnApp(t *testing.T) {
	w := newWorld(t)
	tools := sidecar.NewClient(garboard.Socket)
	defer func() { _ = tools.Shutdown() }()
	before := starts(t, tools)
	for _, app := range []struct {
		name string
		most int
	}{{"first", maxFirst}, {"second", maxCreate}} {
		since := time.Now()
		w.app(app.name, "syncPeriod: 10h\n"+yttApp(map[string]string{"a.yml": cm(app.name + "-config")}))
		w.succeeded(app.name)
		w.cost(app.name, since, app.most)
	}

	after := starts(t, tools)
	for name, n := range before {
		after[name] -= n
	}
	want := map[string]int64{"ytt": 2}
	for name, n := range after {
		if n == 0 {
			delete(after, name)
		}
	}
	if diff := cmp.Diff(want, after); diff != "" {
		t.Errorf("process starts of two Apps (-want +got):\n%s", diff)
	}
}

func starts(t *testing.T, tools *sidecar.Client) map[string]int64 {
	t.Helper()
	s, err := tools.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s.Starts
}

// TestIdleCostsNothing: from one run of an App to the next all requests in its
// namespace are those of that next run, and none of them writes. The second run is
// the first that has nothing to do, which it still tells.
func TestIdleCostsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.app("one", "syncPeriod: 30s\n"+yttApp(map[string]string{"a.yml": cm("one-config")}))
	w.succeeded("one")
	w.until("one", successes(2))
	since := time.Now()
	w.untilRuns("one", 3)
	var found []string
	testenv.Eventually(t, patience, func(context.Context) string {
		if found = w.requests(since); len(found) == 0 {
			return "no request is on record"
		}
		return ""
	})
	t.Logf("a sync cost %d requests", len(found))
	for _, r := range found {
		if verb := strings.Fields(r)[1]; verb != "get" && verb != "list" && verb != "watch" {
			t.Errorf("a sync without a change wrote: %s", r)
		}
	}
	if len(found) > maxSync {
		t.Errorf("a sync cost %d requests, want at most %d:\n%s", len(found), maxSync, strings.Join(found, "\n"))
	}
}

// TestSidecarDoesNotReachTheAPI: the process that runs tools holds no connection
// to the API server; the one that holds credentials does.
func TestSidecarDoesNotReachTheAPI(t *testing.T) {
	w := newWorld(t)
	w.app("slow", yttApp(map[string]string{"a.yml": slow}))
	untilTool(t, "ytt")
	if n := apiConnections(t, garboard.Controller.PID()); n == 0 {
		t.Error("no connection of the controller is found, so none of the sidecar would be")
	}
	for _, pid := range append(children(garboard.Sidecar.PID()), fmt.Sprint(garboard.Sidecar.PID())) {
		if n := apiConnections(t, pid); n > 0 {
			t.Errorf("process %s of the sidecar holds %d connections to the API server", pid, n)
		}
	}
	w.delete("slow")
	w.gone("slow")
}

// apiConnections counts a process's sockets that are connected to the API server:
// the kernel lists sockets of all processes by number.
func apiConnections(t *testing.T, pid any) (n int) {
	t.Helper()
	held := map[string]bool{}
	links, err := filepath.Glob(fmt.Sprintf("/proc/%v/fd/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		// One that was closed meanwhile is none.
		if target, err := os.Readlink(link); err == nil {
			held[strings.TrimSuffix(strings.TrimPrefix(target, "socket:["), "]")] = true
		}
	}
	port := fmt.Sprintf(":%04X", env.Port())
	for _, family := range []string{"tcp", "tcp6"} {
		table, err := os.ReadFile("/proc/self/net/" + family)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		for _, line := range strings.Split(string(table), "\n") {
			// sl local remote state queues timer retransmits uid timeout inode
			f := strings.Fields(line)
			if len(f) > 9 && strings.HasSuffix(f[2], port) && held[f[9]] {
				n++
			}
		}
	}
	return n
}
