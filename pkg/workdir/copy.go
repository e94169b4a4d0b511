package workdir

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
)

// CopyTo copies the folder p to dst, an absolute path that does not exist and that no
// tool may write to. p must have passed Check; links are copied as links.
func (d *Dir) CopyTo(p, dst string) error {
	clean, err := CleanPath(p)
	if err != nil {
		return err
	}
	root, err := d.root.OpenRoot(clean)
	if err != nil {
		return fmt.Errorf("open %q: %w", p, reason(err))
	}
	defer root.Close()
	if err := os.CopyFS(dst, root.FS()); err != nil {
		return fmt.Errorf("copy %q: %w", p, reason(err))
	}
	return nil
}

// Fill replaces the folder p by a copy of src, the absolute path of what CopyTo made.
// No tool may run meanwhile.
func (d *Dir) Fill(p, src string) error {
	clean, err := CleanPath(p)
	if err != nil {
		return err
	}
	if clean == "." {
		return errors.New("cannot replace the whole folder")
	}
	if err := errors.Join(d.Remove(clean), d.MkdirAll(path.Dir(clean))); err != nil {
		return err
	}
	root, err := os.OpenRoot(src)
	if err != nil {
		return fmt.Errorf("open copy: %w", err)
	}
	defer root.Close()
	if err := os.CopyFS(filepath.Join(d.Path(), filepath.FromSlash(clean)), root.FS()); err != nil {
		return errors.Join(fmt.Errorf("copy to %q: %w", p, reason(err)), d.Remove(clean), d.MkdirAll(clean))
	}
	return nil
}
