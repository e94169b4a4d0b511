package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestOnlyOneEnvironmentAtATime(t *testing.T) {
	home := filepath.Join(t.TempDir(), ".dev")
	first, err := take(home)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.write("kubeconfig", "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := take(home); !errors.Is(err, errTaken) {
		t.Errorf("second: got %v, want %v", err, errTaken)
	}
	first.release()
	if _, err := os.Stat(filepath.Join(home, "kubeconfig")); !os.IsNotExist(err) {
		t.Errorf("kubeconfig of an environment that has ended: %v", err)
	}
	second, err := take(home)
	if err != nil {
		t.Fatal(err)
	}
	second.release()
}

func TestDownWithoutUp(t *testing.T) {
	var out bytes.Buffer
	if err := down(t.Context(), filepath.Join(t.TempDir(), ".dev"), &out); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "nothing is running\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestUnknownCommand(t *testing.T) {
	for _, args := range [][]string{nil, {"sideways"}, {"run", "-twice"}} {
		if err := dispatch(t.Context(), args, &bytes.Buffer{}); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}
