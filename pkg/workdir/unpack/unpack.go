// Package unpack unpacks archives that nobody vouches for. An archive is unpacked
// as a whole or not at all: what cannot be kept as it is, such as a device or a
// link that leads outside, is an error that names the entry.
package unpack

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/garboard-dev/garboard/pkg/workdir"
)

// Source is one folder with one downloaded file.
type Source struct {
	// Dir is the folder, relative to the root. The file in it is replaced by what
	// it holds, or by itself under Name when it is no archive.
	Dir string
	// Name is the last part of the address that the file came from.
	Name string
	// SubPath is the folder inside the archive to keep; empty keeps all.
	SubPath string `json:",omitempty"`
}

// staging is the folder to unpack into. Sources cannot be called so: see package
// fetch.
const staging = ".vendir-tmp-unpack"

// suffixes are those of names that promise an archive.
var suffixes = []string{".tgz", ".tar.gz", ".tar", ".zip"}

// Unpack unpacks src below root. All that is written stays below root, whatever the
// archive says. The caller bounds time, memory and what may be written.
func Unpack(root *os.Root, src Source) error {
	if err := unpack(root, src); err != nil {
		return errors.Join(fmt.Errorf("Unpacking archive '%s': %w", src.Name, err), root.RemoveAll(staging))
	}
	return nil
}

func unpack(root *os.Root, src Source) error {
	archive, err := only(root, src.Dir)
	if err != nil {
		return err
	}
	if err := root.Mkdir(staging, 0o700); err != nil {
		return err
	}
	out, err := root.OpenRoot(staging)
	if err != nil {
		return err
	}
	defer out.Close()
	t := &tree{root: out, kinds: map[string]fs.FileMode{}}
	unpacked, err := read(root, archive, t)
	switch {
	case err != nil:
		return err
	case unpacked:
		if err := t.makeLinks(); err != nil {
			return err
		}
	case promises(src.Name):
		return errors.New("is no archive that can be unpacked (hint: it is damaged, or not what its name says)")
	default:
		if err := plain(root, archive, src.Name); err != nil {
			return err
		}
	}
	if err := take(root, out, src); err != nil {
		return err
	}
	return t.checkLinks(root, src)
}

// only returns the path of the one file in dir.
func only(root *os.Root, dir string) (string, error) {
	entries, err := fs.ReadDir(root.FS(), dir)
	if err != nil {
		return "", err
	}
	if len(entries) != 1 || !entries[0].Type().IsRegular() {
		return "", fmt.Errorf("expected one file in %q, but found %d entries", dir, len(entries))
	}
	return path.Join(dir, entries[0].Name()), nil
}

func promises(name string) bool {
	for _, suffix := range suffixes {
		if strings.HasSuffix(strings.ToLower(name), suffix) {
			return true
		}
	}
	return false
}

// plain keeps a file that is no archive.
func plain(root *os.Root, from, name string) error {
	if _, err := workdir.CleanFile(name); err != nil || strings.Contains(name, "/") {
		return errors.Join(errors.New("the address does not end with a name for a file"), err)
	}
	return root.Rename(from, path.Join(staging, name))
}

// take makes what is wanted of the staging folder the source's folder.
func take(root, out *os.Root, src Source) error {
	sub, err := workdir.CleanPath(strings.TrimLeft(src.SubPath, "/"))
	if err != nil {
		return err
	}
	info, err := out.Lstat(sub)
	if err != nil || !info.IsDir() {
		return fmt.Errorf("Expected directory '%s' (subpath) to exist%s", src.SubPath, folders(out))
	}
	if err := errors.Join(root.RemoveAll(src.Dir), root.MkdirAll(path.Dir(src.Dir), 0o700)); err != nil {
		return err
	}
	return errors.Join(root.Rename(path.Join(staging, sub), src.Dir), root.RemoveAll(staging))
}

// folders is a hint with the folders that an archive has at its top.
func folders(out *os.Root) string {
	const most = 10
	entries, err := fs.ReadDir(out.FS(), ".")
	if err != nil {
		return ""
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && len(names) < most {
			names = append(names, e.Name())
		}
	}
	if len(names) == 0 {
		return ""
	}
	return " (found other directories: " + strings.Join(names, ", ") + ")"
}

// reason drops operation and path of an error, which name the sidecar's folders.
func reason(err error) error {
	for {
		var pe *fs.PathError
		var le *os.LinkError
		switch {
		case errors.As(err, &pe):
			err = pe.Err
		case errors.As(err, &le):
			err = le.Err
		case errors.Is(err, syscall.ENOTDIR):
			return errors.New("a file is where a folder is needed")
		default:
			return err
		}
	}
}
