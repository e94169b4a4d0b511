package proc_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/garboard-dev/garboard/test/testenv/proc"
)

func start(t *testing.T, script string) *proc.Process {
	t.Helper()
	p, err := proc.Start(proc.Spec{
		Name: "script", Path: "/bin/sh", Args: []string{"-c", script}, LogFile: filepath.Join(t.TempDir(), "logs/script.log"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

func TestWaitForReportsAnEarlyEnd(t *testing.T) {
	p := start(t, "echo cannot bind; exit 3")
	err := p.WaitFor(t.Context(), func(context.Context) error { return errors.New("connection refused") })
	if err == nil || !strings.Contains(err.Error(), "exit status 3\ncannot bind") {
		t.Errorf("got %v, want the exit status and what was printed", err)
	}
}

func TestStopAsksAndThenKills(t *testing.T) {
	polite := start(t, "trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done")
	stubborn := start(t, "trap '' TERM; echo up; while :; do sleep 0.05; done")
	for _, p := range []*proc.Process{polite, stubborn} {
		err := p.WaitFor(t.Context(), func(context.Context) error {
			if strings.Contains(p.LogTail(1), "up") {
				return nil
			}
			return errors.New("not up")
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if rss, err := polite.PeakRSS(); err != nil || rss <= 0 {
		t.Errorf("peak memory: %d, %v", rss, err)
	}
	if err := polite.Stop(10 * time.Second); err != nil {
		t.Error(err)
	}
	if err := stubborn.Stop(100 * time.Millisecond); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("got %v, want an error that says that it was killed", err)
	}
	if err := stubborn.Stop(time.Second); err != nil {
		t.Errorf("stop after the end: %v", err)
	}
}

func TestNothingIsInherited(t *testing.T) {
	t.Setenv("GARBOARD_SECRET", "x")
	p := start(t, "echo secret=$GARBOARD_SECRET")
	<-p.Done()
	log, err := os.ReadFile(p.LogFile())
	if err != nil {
		t.Fatal(err)
	}
	if string(log) != "secret=\n" {
		t.Errorf("got %q", log)
	}
}

func TestFreePortIsGivenOnce(t *testing.T) {
	seen := map[int]bool{}
	for range 50 {
		port, err := proc.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		if seen[port] {
			t.Errorf("port %d was given twice", port)
		}
		seen[port] = true
	}
}
