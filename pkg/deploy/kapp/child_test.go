package kapp_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/garboard-dev/garboard/pkg/deploy"
	"github.com/garboard-dev/garboard/pkg/deploy/kapp"
	"github.com/garboard-dev/garboard/test/testenv"
)

// childArg makes this test binary be a child.
const childArg = "--kapp-child"

func childCommand(t *testing.T) []string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{exe, childArg}
}

// timed is a wait rule that counts time, and a ConfigMap that it waits for.
func timed(name, done string) string {
	return `
apiVersion: kapp.k14s.io/v1alpha1
kind: Config
waitRules:
- resourceMatchers: [{apiVersionKindMatcher: {apiVersion: v1, kind: ConfigMap}}]
  ytt:
    funcContractV1:
      resource.star: |
        def is_done(resource):
          if resource.data.key == "yes":
            return {"done": True, "successful": True, "message": "it says so"}
          end
          return {"done": False, "message": "started " + str(resource.startTime)}
        end
` + configMap(name, done)
}

func TestChildProcess(t *testing.T) {
	b := newBench(t, true)
	var ours atomic.Int64
	b.runner = kapp.New(kapp.Options{Child: childCommand(t), OnPanic: func(string, any, []byte) { ours.Add(1) }})
	applying := false
	req := b.request("timed", timed("timed", "yes"))
	req.Progress = func(p deploy.Progress) { applying = applying || p.Applying }
	res := b.runner.Deploy(t.Context(), req)
	if res.Failed() || res.Kapp == nil || !strings.HasPrefix(res.Kapp.AssociatedResources.Label, "kapp.k14s.io/app=") {
		t.Fatalf("deploy: %+v", res)
	}
	for _, want := range []string{"Target cluster 'https://", "it says so", "Succeeded"} {
		if !strings.Contains(res.Stdout, want) {
			t.Errorf("stdout lacks %q:\n%s", want, res.Stdout)
		}
	}
	if got := b.configMap("timed"); got.Data["key"] != "yes" || got.ManagedFields[0].Manager != "kapp" {
		t.Errorf("%v by %s", got.Data, got.ManagedFields[0].Manager)
	}
	res = b.runner.Deploy(t.Context(), b.request("timed", "x: ["+timed("timed", "yes")))
	if res.ExitCode != 1 || !strings.HasPrefix(res.Stderr, "kapp: Error: ") {
		t.Errorf("invalid: %+v", res.Stage)
	}
}

func TestCancelChildProcess(t *testing.T) {
	b := newBench(t, true)
	b.runner = kapp.New(kapp.Options{Child: childCommand(t)})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	req := b.request("slow", timed("slow", "no"))
	var waited atomic.Bool
	req.Progress = func(p deploy.Progress) {
		if p.Applying && strings.Contains(p.Stdout, "started ") {
			waited.Store(true)
			cancel()
		}
	}
	res := b.runner.Deploy(ctx, req)
	if res.Err != "Deploying: Process was canceled" || !waited.Load() {
		t.Errorf("waited: %t, %+v", waited.Load(), res.Stage)
	}
	if res := b.runner.Delete(t.Context(), b.request("slow", "")); res.Failed() {
		t.Errorf("delete: %s\n%s", res.Err, res.Stderr)
	}
}

// spinning changes a ConfigMap under a rebase rule that never ends.
func spinning(name, value string) string {
	return configMap(name, value) + `---
apiVersion: kapp.k14s.io/v1alpha1
kind: Config
rebaseRules:
- resourceMatchers: [{allMatcher: {}}]
  ytt:
    overlayContractV1:
      overlay.yml: |
        #@ def spin():
        #@   n = 0
        #@   for i in range(1000000000):
        #@     n = n + i
        #@   end
        #@   return n
        #@ end
        #@ load("@ytt:overlay", "overlay")
        #@overlay/match by=overlay.all
        ---
        #@overlay/match missing_ok=True
        spun: #@ spin()
`
}

// TestCodeInRulesEnds: ytt code of a tenant that never ends is ended with the run. In
// the controller's own process nothing could end it.
func TestCodeInRulesEnds(t *testing.T) {
	b := newBench(t, true)
	b.mustDeploy("spin", configMap("spin", "1"))
	b.runner = kapp.New(kapp.Options{Child: childCommand(t)})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if res := b.runner.Deploy(ctx, b.request("spin", spinning("spin", "2"))); !strings.HasPrefix(res.Err, "Deploying: Process was canceled") {
		t.Fatalf("%+v", res.Stage)
	}
	testenv.Eventually(t, 10*time.Second, func(context.Context) string {
		if n := b.runner.Zombies(); n > 0 {
			return fmt.Sprintf("%d runs go on", n)
		}
		return ""
	})
}

func TestChildProcessDies(t *testing.T) {
	b := newBench(t, true)
	b.runner = kapp.New(kapp.Options{Child: []string{"/bin/false"}})
	res := b.runner.Deploy(t.Context(), b.request("dead", timed("dead", "yes")))
	if res.ExitCode != 1 || !strings.Contains(res.Stderr, "kapp's process ended without a result") {
		t.Errorf("%+v", res.Stage)
	}
}
