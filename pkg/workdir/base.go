// Package workdir gives temporary folders that a hostile tool cannot lead out of.
//
// A Base owns one folder on disk and holds a lock on it; a Dir is one temporary
// folder in it. All file operations of a Dir go through os.Root: a link that a
// tool made is followed inside the folder or not at all.
package workdir

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// lockName is the file in a base whose flock says that the base is in use.
const lockName = ".lock"

// Base is a folder that holds temporary folders. It is safe for concurrent use.
type Base struct {
	path string
	root *os.Root
	lock *os.File
}

// OpenBase creates path with mode 0700 where it is missing, locks it, and removes
// all that an earlier process left in it: path must hold nothing else. It fails
// when another process has the lock. Close it after use.
func OpenBase(path string) (*Base, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("create work folder: %w", err)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, fmt.Errorf("open work folder: %w", err)
	}
	if err := unused(root, path); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	lock, err := root.OpenFile(lockName, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock work folder: %w", err), root.Close())
	}
	b := &Base{path: path, root: root, lock: lock}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("work folder %s is in use by another process: %w", path, err), b.Close())
	}
	if err := b.sweep(); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// unused refuses a folder with content that has never been a base: a wrong setting
// must not sweep somebody's files away.
func unused(root *os.Root, path string) error {
	if _, err := root.Lstat(lockName); err == nil {
		return nil
	}
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return fmt.Errorf("read work folder: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("work folder %s has content that is not ours, such as %q", path, entries[0].Name())
	}
	return nil
}

// sweep removes what an earlier process left.
func (b *Base) sweep() error {
	entries, err := fs.ReadDir(b.root.FS(), ".")
	if err != nil {
		return fmt.Errorf("sweep work folder: %w", err)
	}
	for _, e := range entries {
		if e.Name() == lockName {
			continue
		}
		if err := b.Remove(e.Name()); err != nil {
			return fmt.Errorf("sweep work folder: %w", err)
		}
	}
	return nil
}

// Path is the absolute path of the base.
func (b *Base) Path() string { return b.path }

// New makes an empty folder with mode 0700 and an unguessable name.
func (b *Base) New() (*Dir, error) {
	return b.Open(rand.Text())
}

// Open returns the folder called name, made with mode 0700 where it is missing.
func (b *Base) Open(name string) (*Dir, error) {
	if name != filepath.Base(name) || name == "." || name == lockName || !filepath.IsLocal(name) {
		return nil, fmt.Errorf("invalid folder name %q", name)
	}
	if err := b.root.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("create folder: %w", err)
	}
	root, err := b.root.OpenRoot(name)
	if err != nil {
		return nil, fmt.Errorf("open folder: %w", err)
	}
	return &Dir{base: b, name: name, root: root}, nil
}

// Remove removes the folder called name with all that it holds, also when a tool
// took away the rights on its own folders. A missing one is no error.
func (b *Base) Remove(name string) error {
	return removeAll(b.root, name)
}

// Close gives up the lock. It removes nothing but what its Dirs have removed.
func (b *Base) Close() error {
	return errors.Join(b.lock.Close(), b.root.Close())
}

// removeAll is root.RemoveAll that gives itself the rights it lacks.
func removeAll(root *os.Root, name string) error {
	err := root.RemoveAll(name)
	if err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	// WalkDir reads a folder after it has called the function for it, so rights
	// given there are in time.
	walk := fs.WalkDir(root.FS(), filepath.ToSlash(name), func(p string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && err == nil {
			return root.Chmod(p, 0o700)
		}
		return nil
	})
	return errors.Join(walk, root.RemoveAll(name))
}
