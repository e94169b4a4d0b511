package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// lock is held by the one environment that the folder .dev describes.
type lock struct {
	home string
	file *os.File
}

var errTaken = errors.New("one is running already: make down ends it")

// take makes the folder and takes its lock, which the kernel releases when the
// process ends.
func take(home string) (*lock, error) {
	if err := os.MkdirAll(home, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(home, "pid"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = errTaken
		}
		return nil, err
	}
	l := &lock{home: home, file: f}
	l.forget()
	if err = f.Truncate(0); err == nil {
		_, err = f.WriteString(strconv.Itoa(os.Getpid()))
	}
	if err != nil {
		l.release()
		return nil, err
	}
	return l, nil
}

// release removes what describes the environment, all but its logs.
func (l *lock) release() {
	l.forget()
	l.file.Close()
}

func (l *lock) forget() {
	for _, name := range []string{"kubeconfig", "registry", "ready"} {
		_ = os.Remove(filepath.Join(l.home, name)) // not there, or about to be written anew
	}
}

func (l *lock) write(name, content string) error {
	return os.WriteFile(filepath.Join(l.home, name), []byte(content), 0o600)
}

// up starts `devenv run` in the background and returns when it is ready.
func up(ctx context.Context, home string, out io.Writer) error {
	l, err := take(home) // else the folder's files may be another's
	if err != nil {
		return err
	}
	l.release()
	output, err := os.Create(filepath.Join(home, "output"))
	if err != nil {
		return err
	}
	defer output.Close()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, "run")
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if _, err := os.Stat(filepath.Join(home, "ready")); err == nil {
				return show(output.Name(), out)
			}
		case err := <-ended:
			return errors.Join(fmt.Errorf("it ended at once: %w", err), show(output.Name(), out))
		case <-ctx.Done():
			return errors.Join(ctx.Err(), cmd.Process.Signal(syscall.SIGTERM))
		}
	}
}

func show(name string, out io.Writer) error {
	content, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	_, err = out.Write(content)
	return err
}

// down ends what up or run started and returns when it has ended. That nothing
// runs is no error.
func down(ctx context.Context, home string, out io.Writer) error {
	for asked := false; ; asked = true {
		l, err := take(home)
		if err == nil {
			l.release()
			if !asked {
				fmt.Fprintln(out, "nothing is running")
			}
			return nil
		}
		if !errors.Is(err, errTaken) {
			return err
		}
		if !asked {
			if err := terminate(filepath.Join(home, "pid")); err != nil {
				return err
			}
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// terminate asks the process that holds the lock to end.
func terminate(pidFile string) error {
	content, err := os.ReadFile(pidFile)
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return fmt.Errorf("%s: %w", pidFile, err)
	}
	return syscall.Kill(pid, syscall.SIGTERM)
}
