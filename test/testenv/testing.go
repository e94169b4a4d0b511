package testenv

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/garboard-dev/garboard/test/testenv/controlplane"
)

// Main is the body of a TestMain: it starts an environment, stores it in env,
// calls each setup, runs the tests, prints the ends of the logs when a test
// failed, stops the environment and exits.
func Main(m *testing.M, env **Env, o Options, setup ...func(context.Context, *Env) error) {
	os.Exit(run(m, env, o, setup))
}

func run(m *testing.M, env **Env, o Options, setup []func(context.Context, *Env) error) (code int) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	e, err := Start(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if code != 0 {
			e.printLogs()
		}
		if err := e.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}()
	for _, f := range setup {
		if err := f(ctx, e); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	*env = e
	return m.Run()
}

// Namespace returns a new namespace, which is deleted after the test.
func (e *Env) Namespace(t testing.TB) string {
	t.Helper()
	name, err := e.AddNamespace(t.Context(), "test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The test's own context has ended.
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := e.Core.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("delete namespace %s: %v", name, err)
		}
	})
	return name
}

// MustApply applies a manifest or ends the test.
func (e *Env) MustApply(t testing.TB, namespace, manifest string) {
	t.Helper()
	if err := e.Apply(t.Context(), namespace, []byte(manifest)); err != nil {
		t.Fatal(err)
	}
}

// Eventually calls check until it returns "" or the time is over. What it
// returned last, the difference to what is wanted, ends the test.
func Eventually(t testing.TB, within time.Duration, check func(context.Context) string) {
	t.Helper()
	last := "never checked"
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, within, true, func(ctx context.Context) (bool, error) {
		// A check that the deadline interrupts says nothing about the state.
		if now := check(ctx); ctx.Err() == nil {
			last = now
		}
		return last == "", nil
	})
	if err != nil {
		t.Fatalf("not within %s: %s", within, last)
	}
}

// AuditCount returns how many API requests the filter selects.
func (e *Env) AuditCount(t testing.TB, f controlplane.Filter) int {
	t.Helper()
	n, err := e.Audit().Count(f)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// printLogs prints the end of each Garboard process's log; the control plane's
// own logs rarely explain a failed test.
func (e *Env) printLogs() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, u := range e.units {
		fmt.Fprintf(os.Stderr, "--- end of the log of %s\n%s\n", u.name, strings.TrimSpace(u.LogTail(60)))
	}
}
