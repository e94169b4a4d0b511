package workdir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
)

// Dir is one temporary folder. Its methods take slash-separated paths relative to
// it and are safe for concurrent use.
type Dir struct {
	base *Base
	name string
	root *os.Root
}

// Path is the absolute path of the folder, for tools to run in.
func (d *Dir) Path() string { return filepath.Join(d.base.path, d.name) }

// MkdirAll makes the folder p with its parents, mode 0700.
func (d *Dir) MkdirAll(p string) error {
	clean, err := CleanPath(p)
	if err != nil {
		return err
	}
	return d.root.MkdirAll(clean, 0o700)
}

// Put writes a file with mode 0600 and makes its parents with mode 0700. What was
// there is replaced, a link itself and never what it points to; a folder is not.
func (d *Dir) Put(p string, content []byte) error {
	clean, err := CleanFile(p)
	if err != nil {
		return err
	}
	if err := d.put(clean, content); err != nil {
		return fmt.Errorf("write %q: %w", p, reason(err))
	}
	return nil
}

func (d *Dir) put(clean string, content []byte) error {
	if err := d.root.MkdirAll(path.Dir(clean), 0o700); err != nil {
		return err
	}
	// An existing entry may be a link or a pipe that a tool made: opening it would
	// write elsewhere or block.
	switch info, err := d.root.Lstat(clean); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case info.IsDir():
		return errors.New("is a folder")
	default:
		if err := d.root.Remove(clean); err != nil {
			return err
		}
	}
	f, err := d.root.OpenFile(clean, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}

// List returns the regular files at and below dir whose names end with one of
// suffixes, sorted. No suffixes mean all files. Links are neither listed nor
// followed.
func (d *Dir) List(dir string, suffixes []string) ([]string, error) {
	clean, err := CleanPath(dir)
	if err != nil {
		return nil, err
	}
	if info, err := d.root.Lstat(clean); err != nil {
		return nil, fmt.Errorf("list %q: %w", dir, reason(err))
	} else if info.Mode()&fs.ModeSymlink != 0 {
		return nil, nil
	}
	var files []string
	err = fs.WalkDir(d.root.FS(), clean, func(p string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		ends := func(s string) bool { return strings.HasSuffix(p, s) }
		if len(suffixes) == 0 || slices.ContainsFunc(suffixes, ends) {
			files = append(files, p)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list %q: %w", dir, reason(err))
	}
	slices.Sort(files)
	return files, nil
}

// mostRead is how much of a file Find looks at.
const mostRead = 1 << 20

// Find returns those files of List in whose first MiB pattern matches.
func (d *Dir) Find(dir string, suffixes []string, pattern *regexp.Regexp) ([]string, error) {
	files, err := d.List(dir, suffixes)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, p := range files {
		f, err := d.root.Open(p)
		if err != nil {
			return nil, fmt.Errorf("open %q: %w", p, reason(err))
		}
		text, err := io.ReadAll(io.LimitReader(f, mostRead))
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("read %q: %w", p, reason(err))
		}
		if pattern.Match(text) {
			found = append(found, p)
		}
	}
	return found, nil
}

// Remove removes each path with all that is below it; a missing one is no error.
func (d *Dir) Remove(paths ...string) error {
	for _, p := range paths {
		clean, err := CleanPath(p)
		if err != nil {
			return err
		}
		if clean == "." {
			return fmt.Errorf("invalid path %q: names the whole folder", p)
		}
		if err := removeAll(d.root, clean); err != nil {
			return fmt.Errorf("remove %q: %w", p, reason(err))
		}
	}
	return nil
}

// IsDir says whether p is a folder; a link to one inside counts.
func (d *Dir) IsDir(p string) (bool, error) {
	clean, err := CleanPath(p)
	if err != nil {
		return false, err
	}
	info, err := d.root.Stat(clean)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("open %q: %w", p, reason(err))
	}
	return info.IsDir(), nil
}

// Close removes the folder with all that it holds.
func (d *Dir) Close() error {
	return errors.Join(d.root.Close(), d.base.Remove(d.name))
}

// reason drops operation and path, which the caller words for the user.
func reason(err error) error {
	for pe := (*fs.PathError)(nil); errors.As(err, &pe); {
		err = pe.Err
	}
	if errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EEXIST) {
		return errors.New("a file is where a folder is needed")
	}
	return err
}

// Replace is Put in one step: who reads meanwhile sees the old content or the new.
func (d *Dir) Replace(p string, content []byte) error {
	clean, err := CleanFile(p)
	if err != nil {
		return err
	}
	next := clean + ".new"
	if err := d.Put(next, content); err != nil {
		return err
	}
	if err := d.root.Rename(next, clean); err != nil {
		return fmt.Errorf("write %q: %w", p, reason(err))
	}
	return nil
}
