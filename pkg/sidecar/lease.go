package sidecar

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/garboard-dev/garboard/pkg/tool"
	"github.com/garboard-dev/garboard/pkg/workdir"
)

// What is in an owner's folder: the tool itself sees partsDir alone, so that it
// cannot change what is kept of whole runs.
const (
	partsDir  = "parts"
	resultDir = "result"
	treeName  = "tree"
	outName   = "stdout"
)

// lease is the use of one cached folder.
type lease struct {
	caches *caches
	entry  *cacheEntry
	// same says that nothing was stored.
	same bool
}

func (l *lease) release() { l.caches.release(l.entry, l.same) }

func (l *lease) path(parts ...string) string {
	return filepath.Join(append([]string{l.caches.dir.Path(), l.entry.owner, l.entry.key}, parts...)...)
}

// parts is the absolute path of the folder for the tool itself.
func (l *lease) parts() string { return l.path(partsDir) }

// restore puts the result of an earlier run into dir of a workspace. It says
// whether there was one.
func (l *lease) restore(into *workdir.Dir, dir string) (tool.Result, bool) {
	stdout, err := os.ReadFile(l.path(resultDir, outName))
	if err == nil {
		err = into.Fill(dir, l.path(resultDir, treeName))
	}
	if err != nil {
		return tool.Result{}, false
	}
	l.same = true
	return tool.Result{Stdout: stdout}, true
}

// keep stores what a run printed and left in dir. What is larger than the cache is
// not kept, which is no error.
func (l *lease) keep(from *workdir.Dir, dir string, res tool.Result) error {
	limit := workdir.Usage{Bytes: l.caches.max}
	if workdir.Measure(limit, filepath.Join(from.Path(), filepath.FromSlash(dir))).Over(limit) {
		return nil
	}
	// Another run for the same owner may have stored the same.
	if _, err := os.Stat(l.path(resultDir)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	next, err := os.MkdirTemp(l.path(), "next-")
	if err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	if err := from.CopyTo(dir, filepath.Join(next, treeName)); err != nil {
		return errors.Join(err, os.RemoveAll(next))
	}
	err = os.WriteFile(filepath.Join(next, outName), res.Stdout, 0o600)
	if err == nil {
		err = os.Rename(next, l.path(resultDir))
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(next))
	}
	return nil
}
