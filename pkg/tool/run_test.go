//go:build linux

package tool_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/garboard-dev/garboard/pkg/tool"
	"github.com/garboard-dev/garboard/test/poll"
)

// sh is a process that runs a shell script.
func sh(t testing.TB, script string) tool.Process {
	return tool.Process{Path: "/bin/sh", Name: "sh", Args: []string{"-c", script}, Env: []string{"PATH=/usr/bin:/bin"}, Dir: t.TempDir()}
}

func TestRun(t *testing.T) {
	tests := map[string]struct {
		reason, script, stdin string
		want                  tool.Result
	}{
		"Output":      {"both streams apart", "echo out; echo err >&2", "", tool.Result{Stdout: []byte("out\n"), Stderr: []byte("err\n")}},
		"ExitCode":    {"no error, a result", "echo out; exit 3", "", tool.Result{Stdout: []byte("out\n"), ExitCode: 3}},
		"Signal":      {"no exit code", "kill -9 $$", "", tool.Result{ExitCode: -1}},
		"Stdin":       {"all of it", "cat", "in", tool.Result{Stdout: []byte("in")}},
		"NoStdin":     {"empty, not this process's", "cat", "", tool.Result{}},
		"StdinUnread": {"a tool need not read it", "exit 0", strings.Repeat("x", 1<<20), tool.Result{}},
		"Environment": {"nothing but what was given", "env | grep -v -e ^PWD= -e ^_= -e ^SHLVL= -e ^OLDPWD=", "", tool.Result{Stdout: []byte("PATH=/usr/bin:/bin\n")}},
		"Leftover":    {"its group ends with it", "sleep 1000 & exit 4", "", tool.Result{ExitCode: 4}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := sh(t, tc.script)
			p.Stdin = []byte(tc.stdin)
			got, err := p.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			clean := func(b []byte) []byte {
				if len(b) == 0 {
					return nil
				}
				return b
			}
			got.Stdout, got.Stderr = clean(got.Stdout), clean(got.Stderr)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: %s", tc.reason, diff)
			}
		})
	}
}

func TestRunBoundsOutput(t *testing.T) {
	p := sh(t, "while :; do echo 0123456789; done")
	p.MaxStdout, p.Grace = 1000, 10*time.Millisecond
	got, err := p.Run(t.Context())
	if want := "sh printed more than 1000 bytes on standard output: too much output"; err == nil || err.Error() != want || !errors.Is(err, tool.ErrTooMuchOutput) {
		t.Errorf("error %v, want %s", err, want)
	}
	if len(got.Stdout) != 1000 {
		t.Errorf("%d bytes", len(got.Stdout))
	}

	p = sh(t, "i=0; while [ $i -lt 500 ]; do echo 123456789 >&2; i=$((i+1)); done; printf end >&2")
	p.MaxStderr = 20
	got, err = p.Run(t.Context())
	if want := "[4983 bytes left out]\n456789\n123456789\nend"; err != nil || string(got.Stderr) != want {
		t.Errorf("stderr %q, want %q, %v", got.Stderr, want, err)
	}
}

// reaping runs a reaper until the test ends.
func reaping(t *testing.T) *tool.Reaper {
	t.Helper()
	r := tool.NewReaper()
	if err := r.Adopt(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { r.Run(ctx) })
	t.Cleanup(func() {
		stop()
		wg.Wait()
	})
	return r
}

func TestRunIsCanceled(t *testing.T) {
	r := reaping(t)
	tests := map[string]struct{ reason, script string }{
		"Term":   {"a tool may end by itself", "trap 'echo bye; exit 0' TERM; touch ready; while :; do sleep 0.01; done"},
		"Kill":   {"or it is killed", "trap '' TERM; touch ready; while :; do sleep 0.01; done"},
		"Family": {"with its children", "sh -c 'trap \"\" TERM; touch ready; while :; do sleep 0.01; done' & wait"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			cause := errors.New("app was deleted")
			ctx, cancel := context.WithCancelCause(t.Context())
			p := sh(t, tc.script)
			p.Grace, p.Reaper = 50*time.Millisecond, r
			var group int
			p.Started = func(pid int) error { group = pid; return nil }
			go func() {
				poll.Until(t, "script runs", func() bool {
					_, err := os.Stat(filepath.Join(p.Dir, "ready"))
					return err == nil
				})
				cancel(cause)
			}()
			if _, err := p.Run(ctx); !errors.Is(err, cause) {
				t.Errorf("error %v; %s", err, tc.reason)
			}
			poll.Until(t, "group is gone", func() bool { return errors.Is(syscall.Kill(-group, 0), syscall.ESRCH) })
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := sh(t, "exit 0").Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("already over: %v", err)
	}
}

func TestRunFailsToStart(t *testing.T) {
	p := sh(t, "exit 0")
	p.Path = "/nowhere/sh"
	if _, err := p.Run(t.Context()); err == nil || err.Error() != "start sh: no such file or directory" {
		t.Errorf("error %v", err)
	}
	p = sh(t, "exit 0")
	p.Confine = func() error { return errors.New("boom") }
	if _, err := p.Run(t.Context()); err == nil || err.Error() != "confine sh: boom" {
		t.Errorf("error %v", err)
	}
	p = sh(t, "while :; do sleep 1; done")
	p.Started = func(int) error { return errors.New("boom") }
	if _, err := p.Run(t.Context()); err == nil || err.Error() != "start sh: boom" {
		t.Errorf("error %v", err)
	}
}

// TestConfineIsOneThread: each run has a thread of its own, and never the first.
func TestConfineIsOneThread(t *testing.T) {
	var mu sync.Mutex
	threads := map[int]int{}
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			p := sh(t, "exit 0")
			p.Confine = func() error {
				mu.Lock()
				defer mu.Unlock()
				threads[syscall.Gettid()]++
				return nil
			}
			if _, err := p.Run(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if threads[os.Getpid()] != 0 {
		t.Error("the first thread was used")
	}
}

// TestReaper: exit codes are right and nothing is left, with many tools that each
// leave orphans, some in a session of their own.
func TestReaper(t *testing.T) {
	const children, atOnce = 2000, 16
	r := reaping(t)
	slots := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	dir := t.TempDir()
	for i := range children {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			want := i * 7 % 4
			orphan := "sleep 0.01"
			if i%2 == 0 {
				orphan = "setsid sleep 0.01"
			}
			p := tool.Process{
				Path: "/bin/sh", Name: "sh", Args: []string{"-c", fmt.Sprintf("(%s >/dev/null 2>&1 &); exit %d", orphan, want)},
				Env: []string{"PATH=/usr/bin:/bin"}, Dir: dir, Reaper: r,
			}
			got, err := p.Run(t.Context())
			if err != nil || got.ExitCode != want {
				t.Errorf("exit code %d, want %d, %v", got.ExitCode, want, err)
			}
		})
	}
	wg.Wait()
	poll.Until(t, "no children are left", func() bool { return len(processes(t)) == 0 })
}

// TestReaperLeavesOthers: a child that somebody else started keeps its exit code,
// and its life, also in a group of its own.
func TestReaperLeavesOthers(t *testing.T) {
	r := reaping(t)
	other := exec.Command("/bin/sh", "-c", "read line; exit 7")
	other.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		p := sh(t, "setsid sleep 0.01 & exit 0")
		p.Reaper = r
		if _, err := p.Run(t.Context()); err != nil {
			t.Error(err)
		}
	}
	stdin.Close()
	poll.Until(t, "the other child is dead", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", other.Process.Pid))
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
	p := sh(t, "exit 0") // its end wakes the reaper
	p.Reaper = r
	if _, err := p.Run(t.Context()); err != nil {
		t.Error(err)
	}
	if err := other.Wait(); other.ProcessState == nil || other.ProcessState.ExitCode() != 7 {
		t.Errorf("exit code was taken: %v, %v", other.ProcessState, err)
	}
}

// processes returns the children of this process, dead or alive.
func processes(t *testing.T) (pids []int) {
	t.Helper()
	lists, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lists {
		b, _ := os.ReadFile(l)
		for _, f := range strings.Fields(string(b)) {
			pid, err := strconv.Atoi(f)
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}

func BenchmarkRun(b *testing.B) {
	r := tool.NewReaper()
	b.ReportAllocs()
	p := sh(b, "exit 0")
	p.Reaper = r
	for b.Loop() {
		if _, err := p.Run(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func ExampleProcess_Run() {
	p := tool.Process{Path: "/bin/sh", Name: "sh", Args: []string{"-c", "cat; exit 3"}, Stdin: []byte("a: 1\n"), Dir: "/"}
	res, err := p.Run(context.Background())
	fmt.Printf("%s%v %v\n", res.Stdout, res.Err(), err)
	// Output:
	// a: 1
	// exit status 3 <nil>
}
