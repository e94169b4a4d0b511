package unpack

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/garboard-dev/garboard/pkg/workdir"
)

// tree is what is unpacked so far.
type tree struct {
	root *os.Root
	// kinds has each entry that was written, by path.
	kinds map[string]fs.FileMode
	// links are made last, so that no entry is written through one.
	links []link
}

type link struct{ name, target string }

func refuse(name, why string) error { return fmt.Errorf("entry %q %s", name, why) }

// clean returns a name in its shortest form, "." for the root itself.
func clean(name string) (string, error) {
	p, err := workdir.CleanPath(strings.TrimSuffix(name, "/"))
	if err == nil && p != "." {
		p, err = workdir.CleanFile(p)
	}
	if err != nil {
		return "", refuse(shorten(name), "has a name that is not allowed: "+err.Error())
	}
	return p, nil
}

func shorten(name string) string {
	const most = 100
	if len(name) > most {
		return name[:most] + "..."
	}
	return name
}

// add notes an entry. One that is there already must be of the same kind, and the
// later one counts, as tar has it.
func (t *tree) add(name string, kind fs.FileMode) (p string, known bool, err error) {
	if p, err = clean(name); err != nil {
		return "", false, err
	}
	if p == "." && kind != fs.ModeDir {
		return "", false, refuse(name, "has no name")
	}
	old, known := t.kinds[p]
	if known && old != kind {
		return "", false, refuse(name, "is there twice, as "+describe(old)+" and as "+describe(kind))
	}
	for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
		old, found := t.kinds[dir]
		if found && old != fs.ModeDir {
			return "", false, refuse(name, fmt.Sprintf("is below %q, which is %s", dir, describe(old)))
		}
		if found {
			break
		}
		t.kinds[dir] = fs.ModeDir
	}
	t.kinds[p] = kind
	return p, known, nil
}

func describe(kind fs.FileMode) string {
	switch kind {
	case fs.ModeDir:
		return "a folder"
	case fs.ModeSymlink:
		return "a link"
	default:
		return "a file"
	}
}

func (t *tree) folder(name string) error {
	p, known, err := t.add(name, fs.ModeDir)
	if err != nil || known {
		return err
	}
	if err := t.root.MkdirAll(p, 0o700); err != nil {
		return refuse(name, "cannot be made: "+reason(err).Error())
	}
	return nil
}

func (t *tree) file(name string, content io.Reader) error {
	p, _, err := t.add(name, 0)
	if err != nil {
		return err
	}
	if err := t.root.MkdirAll(path.Dir(p), 0o700); err != nil {
		return refuse(name, "cannot be written: "+reason(err).Error())
	}
	f, err := t.root.OpenFile(p, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return refuse(name, "cannot be written: "+reason(err).Error())
	}
	_, err = io.Copy(f, content)
	if err := errors.Join(err, f.Close()); err != nil {
		return refuse(name, "cannot be written: "+reason(err).Error())
	}
	return nil
}

func (t *tree) link(name, target string) error {
	p, known, err := t.add(name, fs.ModeSymlink)
	switch {
	case err != nil:
		return err
	case known:
		return refuse(name, "is there twice")
	case target == "" || len(target) > maxTarget || strings.ContainsRune(target, 0):
		return refuse(name, "is a link that leads nowhere")
	case path.IsAbs(target) || !inside(path.Join(path.Dir(p), target)):
		return leadsOut(name, target)
	}
	t.links = append(t.links, link{p, target})
	return nil
}

func inside(p string) bool { return p != ".." && !strings.HasPrefix(p, "../") }

func leadsOut(name, target string) error {
	return refuse(name, fmt.Sprintf("is a link to %q, which leads out of the archive", shorten(target)))
}

func (t *tree) makeLinks() error {
	for _, l := range t.links {
		err := t.root.MkdirAll(path.Dir(l.name), 0o700)
		if err == nil {
			err = t.root.Symlink(l.target, l.name)
		}
		if err != nil {
			return refuse(l.name, "cannot be made: "+reason(err).Error())
		}
	}
	return nil
}

// checkLinks refuses links that do not lead to something in what was kept: a link
// may pass through others, or lead to a part that was left out.
func (t *tree) checkLinks(root *os.Root, src Source) error {
	if len(t.links) == 0 {
		return nil
	}
	kept, err := root.OpenRoot(src.Dir)
	if err != nil {
		return err
	}
	defer kept.Close()
	sub := strings.Trim(path.Clean("/"+src.SubPath), "/")
	for _, l := range t.links {
		name := l.name
		if sub != "" {
			below, found := strings.CutPrefix(l.name, sub+"/")
			if !found {
				continue
			}
			name = below
		}
		switch _, err := kept.Stat(name); {
		case errors.Is(err, fs.ErrNotExist):
			return refuse(l.name, fmt.Sprintf("is a link to %q, which is not there", shorten(l.target)))
		case err != nil:
			return leadsOut(l.name, l.target)
		}
	}
	return nil
}
