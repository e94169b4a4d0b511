// Package scratch gives temporary folders that do not pile up: all are in one
// place, and taking one removes those whose owner has died.
package scratch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Dir is a temporary folder, readable by all users. It is held by an open lock
// file, which the kernel releases when the process ends in whatever way.
type Dir struct {
	path string
	lock *os.File
}

const lockSuffix = ".lock"

// Base returns the folder that holds all folders of this user. Its path is short
// because sockets are made below it, and their paths are limited to 107 bytes.
func Base() string {
	return filepath.Join(os.TempDir(), "garboard-testenv-"+strconv.Itoa(os.Getuid()))
}

// New sweeps and then returns a new empty folder, which is the caller's to Remove.
func New() (*Dir, error) {
	var d *Dir
	err := exclusively(func(base string) error {
		if err := sweep(base); err != nil {
			return err
		}
		path, err := os.MkdirTemp(base, "")
		if err != nil {
			return err
		}
		if err := os.Chmod(path, 0o755); err != nil {
			return err
		}
		lock, err := tryLock(path + lockSuffix)
		if err != nil {
			return err
		}
		d = &Dir{path: path, lock: lock}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("take a temporary folder: %w", err)
	}
	return d, nil
}

// Sweep removes the folders whose owner has died.
func Sweep() error {
	if err := exclusively(sweep); err != nil {
		return fmt.Errorf("sweep temporary folders: %w", err)
	}
	return nil
}

// Path returns the absolute path of the folder.
func (d *Dir) Path() string { return d.path }

// Sub makes a folder in the folder and returns its path.
func (d *Dir) Sub(name string) (string, error) {
	path := filepath.Join(d.path, name)
	if err := os.MkdirAll(path, 0o755); err != nil {
		return "", err
	}
	return path, os.Chmod(path, 0o755) // whatever the umask is
}

// Remove removes the folder and all in it.
func (d *Dir) Remove() error {
	err := os.RemoveAll(d.path)
	return errors.Join(err, os.Remove(d.path+lockSuffix), d.lock.Close())
}

// exclusively runs f while no other process of this user makes or sweeps folders.
func exclusively(f func(base string) error) error {
	base := Base()
	if err := os.MkdirAll(base, 0o755); err != nil {
		return err
	}
	if err := os.Chmod(base, 0o755); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(base, "sweep"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	return f(base)
}

// sweep finds the folders by their lock files, and removes these last, so that
// what a sweep leaves behind when it is killed is found by the next.
func sweep(base string) error {
	locks, err := filepath.Glob(filepath.Join(base, "*"+lockSuffix))
	if err != nil {
		return err
	}
	for _, name := range locks {
		lock, err := tryLock(name)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			continue
		}
		if err != nil {
			return err
		}
		err = errors.Join(os.RemoveAll(strings.TrimSuffix(name, lockSuffix)), os.Remove(name), lock.Close())
		if err != nil {
			return err
		}
	}
	return nil
}

func tryLock(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
