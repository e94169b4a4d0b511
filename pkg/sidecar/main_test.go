//go:build linux

package sidecar_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/garboard-dev/garboard/pkg/sidecar"
)

// toolDir has this test's binary under the name of each tool: what it then does is
// a script on standard input, see act.
var toolDir string

// anyMemory is MaxMemory for this binary as a tool: the race detector allocates
// terabytes that it does not use.
const anyMemory = 1 << 60

// serveEnv makes the binary a sidecar: SOCKET:WORKDIR:TOOLDIR.
const serveEnv = "SIDECAR_TEST_SERVE"

func TestMain(m *testing.M) {
	if slices.Contains(sidecar.Tools(), filepath.Base(os.Args[0])) {
		syscall.Exit(script(os.Stdin)) // os.Exit would wait a second for the race detector
	}
	if v := os.Getenv(serveEnv); v != "" {
		f := strings.Split(v, ":")
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if err := sidecar.Serve(ctx, sidecar.ServerOptions{Socket: f[0], WorkDir: f[1], ToolDir: f[2], MaxMemory: anyMemory}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(withTools(m))
}

func withTools(m *testing.M) int {
	dir, err := os.MkdirTemp("", "sidecar-tools-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	toolDir = dir
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		panic(err)
	}
	first := filepath.Join(dir, "ytt")
	if err := os.WriteFile(first, self, 0o755); err != nil {
		panic(err)
	}
	for _, name := range sidecar.Tools() {
		if name != "ytt" {
			if err := os.Link(first, filepath.Join(dir, name)); err != nil {
				panic(err)
			}
		}
	}
	return m.Run()
}

// script does one line after the other; the first failure is printed and ends it.
func script(r io.Reader) int {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if f[0] == "exit" {
			return number(f[1])
		}
		if err := act(f[0], append(f[1:], "", "")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return 0
}

// held is what a script allocated.
var held []byte

func act(verb string, arg []string) error {
	switch verb {
	case "cat":
		b, err := os.ReadFile(arg[0])
		os.Stdout.Write(b)
		return err
	case "ls":
		entries, err := os.ReadDir(arg[0])
		for _, e := range entries {
			fmt.Println(e.Name())
		}
		return err
	case "write":
		return os.WriteFile(arg[0], []byte(arg[1]), 0o644)
	case "mkdir":
		return os.Mkdir(arg[0], fsMode(arg[1]))
	case "chmod":
		return os.Chmod(arg[0], fsMode(arg[1]))
	case "link":
		return os.Symlink(arg[0], arg[1])
	case "hardlink":
		return os.Link(arg[0], arg[1])
	case "fifo":
		return syscall.Mkfifo(arg[0], 0o600)
	case "dial":
		return dial(arg[0], arg[1])
	case "env":
		env := os.Environ()
		slices.Sort(env)
		fmt.Println(strings.Join(env, "\n"))
		return nil
	case "allocate":
		held = make([]byte, number(arg[0]))
		for i := range held {
			held[i] = 1
		}
		return nil
	case "pwd":
		dir, err := os.Getwd()
		fmt.Println(dir)
		return err
	case "get":
		return get(arg[0])
	case "lscache":
		return act("ls", []string{os.Getenv("VENDIR_CACHE_DIR")})
	case "addcache":
		return act("write", []string{os.Getenv("VENDIR_CACHE_DIR") + "/f" + arg[0], strings.Repeat("x", number(arg[0]))})
	case "signal":
		return syscall.Kill(number(arg[0]), 0)
	case "grow", "many":
		return grow(verb)
	case "spew":
		return spew(os.Stdout, number(arg[0]))
	case "grumble":
		return spew(os.Stderr, number(arg[0]))
	case "hang":
		signal.Ignore(syscall.SIGTERM)
		if err := os.WriteFile(arg[0], []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
			return err
		}
		select {}
	case "orphan":
		return orphan(arg[0])
	}
	return fmt.Errorf("no verb %q", verb)
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

func fsMode(s string) os.FileMode {
	n, err := strconv.ParseUint(s, 8, 32)
	if err != nil {
		panic(err)
	}
	return os.FileMode(n)
}

func dial(network, addr string) error {
	c, err := net.DialTimeout(network, addr, 5*time.Second)
	if err != nil {
		return err
	}
	_, err = c.Write([]byte("x"))
	return errors.Join(err, c.Close())
}

// grow writes one file, or makes files, until somebody ends it.
func grow(verb string) error {
	if verb == "many" {
		for i := 0; ; i++ {
			if err := os.WriteFile(strconv.Itoa(i), nil, 0o600); err != nil {
				return err
			}
		}
	}
	f, err := os.Create("big")
	if err != nil {
		return err
	}
	for chunk := make([]byte, 1<<20); ; {
		if _, err := f.Write(chunk); err != nil {
			return err
		}
	}
}

func spew(w io.Writer, n int) error {
	_, err := w.Write(append([]byte(strings.Repeat("y", n-1)), 'z'))
	return err
}

// orphan leaves a process of another session that hangs after it has written its
// id to file.
func orphan(file string) error {
	cmd := exec.Command(os.Args[0])
	cmd.Stdin = strings.NewReader("hang " + file)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for range ticker.C {
		if b, err := os.ReadFile(file); err == nil && len(b) > 0 {
			break
		}
	}
	return nil
}
