package workdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// Check looks at what a tool left below dir and returns an error that names the
// first entry that is not a folder, a regular file or a link that stays below dir,
// or that is a second name of a file elsewhere. No tool may run meanwhile.
func (d *Dir) Check(dir string) error {
	clean, err := CleanPath(dir)
	if err != nil {
		return err
	}
	root, err := d.root.OpenRoot(clean)
	if err != nil {
		return fmt.Errorf("open %q: %w", dir, reason(err))
	}
	defer root.Close()
	links := map[uint64]*hardlink{}
	err = fs.WalkDir(root.FS(), ".", func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("read %q: %w", p, reason(err))
		}
		switch e.Type() {
		case fs.ModeDir:
			return nil
		case fs.ModeSymlink:
			return checkLink(root, p)
		case 0:
			return countLinks(links, p, e)
		default:
			return fmt.Errorf("entry %q is a %s, which is not allowed", p, kind(e.Type()))
		}
	})
	if err != nil {
		return err
	}
	for _, l := range links {
		if l.seen < l.names {
			return fmt.Errorf("entry %q is a hard link to a file outside of the folder", l.first)
		}
	}
	return nil
}

// checkLink refuses a link that leads out of root. One that leads to nothing
// inside is harmless.
func checkLink(root *os.Root, p string) error {
	_, err := root.Stat(p)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	target, _ := root.Readlink(p)
	if errors.Is(err, syscall.ELOOP) {
		return fmt.Errorf("entry %q is a link to %q, which never ends", p, target)
	}
	return fmt.Errorf("entry %q is a link to %q, which leads out of the folder", p, target)
}

// hardlink is a file with several names.
type hardlink struct {
	first       string
	seen, names uint64
}

func countLinks(links map[uint64]*hardlink, p string, e fs.DirEntry) error {
	info, err := e.Info()
	if err != nil {
		return fmt.Errorf("read %q: %w", p, reason(err))
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || st.Nlink < 2 {
		return nil
	}
	l := links[st.Ino]
	if l == nil {
		l = &hardlink{first: p, names: uint64(st.Nlink)}
		links[st.Ino] = l
	}
	l.seen++
	return nil
}

func kind(t fs.FileMode) string {
	switch {
	case t&fs.ModeNamedPipe != 0:
		return "named pipe"
	case t&fs.ModeSocket != 0:
		return "socket"
	case t&fs.ModeDevice != 0:
		return "device"
	default:
		return "special file"
	}
}
