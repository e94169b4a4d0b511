package testenv_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/garboard-dev/garboard/test/testenv"
	"github.com/garboard-dev/garboard/test/testenv/scratch"
)

// asOwner makes the test binary start an environment, print the ids of its
// processes and its folder, and wait to be killed.
const asOwner = "GARBOARD_TEST_OWNER"

func ownEnvironment() {
	e, err := testenv.Start(context.Background(), testenv.Options{Nodes: 1})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, p := range e.Processes() {
		fmt.Println(p.PID())
	}
	fmt.Println(filepath.Dir(e.LogDir()))
	os.Stdout.Close()
	select {} // until it is killed
}

func TestKilledOwnerLeavesNothing(t *testing.T) {
	owner := exec.CommandContext(t.Context(), os.Args[0])
	owner.Env = append(os.Environ(), asOwner+"=1")
	owner.Stderr = os.Stderr
	stdout, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	printed, err := io.ReadAll(bufio.NewReader(stdout))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(string(printed))
	if len(lines) != 6 {
		t.Fatalf("owner printed %q, want five processes and a folder", printed)
	}
	pids, dir := lines[:5], lines[5]
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = owner.Wait() // says that it was killed

	testenv.Eventually(t, 10*time.Second, func(context.Context) string { return cmp.Diff([]string(nil), alive(pids)) })
	if err := scratch.Sweep(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("folder %s of the killed owner is still there: %v", dir, err)
	}
	if _, err := os.Stat(env.LogDir()); err != nil {
		t.Errorf("the sweep removed a folder whose owner lives: %v", err)
	}
}

// alive returns those of the processes that still run devcluster or kwok: an id
// may have been given to another process.
func alive(pids []string) (found []string) {
	for _, pid := range pids {
		exe, err := os.Readlink("/proc/" + pid + "/exe")
		if err == nil && (strings.HasSuffix(exe, "/devcluster") || strings.HasSuffix(exe, "/kwok")) {
			found = append(found, pid)
		}
	}
	return found
}

// TestInterruptReachesOnlyTheOwner: each process is in a group of its own, so
// that a Ctrl-C at `make run` does not end the API server before Garboard.
func TestInterruptReachesOnlyTheOwner(t *testing.T) {
	for _, p := range env.Processes() {
		group, err := syscall.Getpgid(p.PID())
		if err != nil {
			t.Fatal(err)
		}
		if group != p.PID() {
			t.Errorf("process %d is in group %d, want one of its own", p.PID(), group)
		}
	}
}
