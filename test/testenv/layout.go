package testenv

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/garboard-dev/garboard/test/testenv/proc"
)

// layout is the folder tree of the two Garboard processes:
//
//	bin/         garboard and tools/, readable by all
//	run/         the socket; the sidecar makes it, their shared group may connect
//	sidecar/     the sidecar's alone
//	controller/  the controller's alone
type layout struct{ root string }

func (l layout) path(name string) string { return filepath.Join(l.root, name) }

// layOut makes the tree. The binaries are put into it because the processes'
// users may have no way into the folder of the repository.
func (e *Env) layOut() (layout, error) {
	root, err := e.Dir("g")
	if err != nil {
		return layout{}, err
	}
	l := layout{root}
	bin, err := e.Dir("g/bin")
	if err != nil {
		return l, err
	}
	tools, err := e.Dir("g/bin/tools")
	if err != nil {
		return l, err
	}
	names, err := filepath.Glob(filepath.Join(e.BinDir("tools"), "*"))
	if err != nil {
		return l, err
	}
	for _, name := range names {
		if err := link(name, filepath.Join(tools, filepath.Base(name))); err != nil {
			return l, err
		}
	}
	return l, errors.Join(
		link(filepath.Join(e.BinDir(""), "garboard"), filepath.Join(bin, "garboard")),
		l.mkdir("run", sidecarUID, 0o770),
		l.mkdir("sidecar", sidecarUID, 0o700),
		l.mkdir("controller", controllerUID, 0o700),
	)
}

// mkdir makes a folder that belongs to one of the two users and their group.
func (l layout) mkdir(name string, uid int, mode os.FileMode) error {
	path := l.path(name)
	if err := os.MkdirAll(path, mode); err != nil {
		return err
	}
	return errors.Join(chown(path, uid), os.Chmod(path, mode))
}

// write writes a file that only the user may read.
func (l layout) write(uid int, name string, content []byte) error {
	if err := os.WriteFile(l.path(name), content, 0o600); err != nil {
		return err
	}
	return chown(l.path(name), uid)
}

func chown(path string, uid int) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return os.Chown(path, uid, sharedGID)
}

// user returns the identity of a Garboard process, nil when this process cannot
// give it one. Its primary group is the shared one, so that the socket belongs to it.
func user(uid uint32) *proc.User {
	if os.Geteuid() != 0 {
		return nil
	}
	return &proc.User{UID: uid, GID: sharedGID}
}

// link gives a file a second name, or copies it to another file system.
func link(from, to string) error {
	if err := os.Remove(to); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if os.Link(from, to) == nil {
		return nil
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
