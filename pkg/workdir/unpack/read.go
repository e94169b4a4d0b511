package unpack

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// maxTarget bounds where a link leads, in bytes, as file systems do.
const maxTarget = 4096

// read puts the entries of the archive into t. It says false for a file that is no
// archive; then t is empty. As vendir, it goes by content and not by name.
func read(root *os.Root, name string, t *tree) (bool, error) {
	f, err := root.Open(name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	if z, err := zip.NewReader(f, info.Size()); err == nil {
		return true, readZip(z, t)
	}
	if z, err := gzip.NewReader(bufio.NewReader(f)); err == nil {
		unpacked, err := readTar(z, t, true)
		if err == nil && unpacked {
			err = drain(z)
		}
		return unpacked, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return false, err
	}
	return readTar(bufio.NewReader(f), t, info.Size() > 0)
}

// drain reads the rest, which has a checksum of all at its end.
func drain(r io.Reader) error {
	const most = 1 << 20
	if _, err := io.CopyN(io.Discard, r, most); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("is damaged behind its last entry: %w", err)
	}
	return nil
}

// readTar reads a tar archive. empty says whether one without entries counts.
func readTar(from io.Reader, t *tree, empty bool) (bool, error) {
	r := tar.NewReader(from)
	for n := 0; ; n++ {
		h, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return n > 0 || empty, nil
		case err != nil && n == 0:
			return false, nil
		case err != nil:
			return true, fmt.Errorf("after %d entries: %w", n, err)
		}
		switch h.Typeflag {
		case tar.TypeXGlobalHeader:
			continue
		case tar.TypeDir:
			err = t.folder(h.Name)
		case tar.TypeReg:
			err = t.file(h.Name, r)
		case tar.TypeSymlink:
			err = t.link(h.Name, h.Linkname)
		case tar.TypeLink:
			err = refuse(h.Name, "is a hard link")
		case tar.TypeChar, tar.TypeBlock:
			err = refuse(h.Name, "is a device")
		case tar.TypeFifo:
			err = refuse(h.Name, "is a named pipe")
		default:
			err = refuse(h.Name, fmt.Sprintf("is of the unknown kind %q", h.Typeflag))
		}
		if err != nil {
			return true, err
		}
	}
}

func readZip(z *zip.Reader, t *tree) error {
	for _, f := range z.File {
		if err := readZipped(f, t); err != nil {
			return err
		}
	}
	return nil
}

func readZipped(f *zip.File, t *tree) error {
	mode := f.Mode()
	switch {
	case mode.IsDir():
		return t.folder(f.Name)
	case !mode.IsRegular() && mode.Type() != fs.ModeSymlink:
		return refuse(f.Name, "is a device, a socket or a named pipe")
	}
	r, err := f.Open()
	if err != nil {
		return refuse(f.Name, err.Error())
	}
	defer r.Close()
	if mode.IsRegular() {
		return t.file(f.Name, r)
	}
	target, err := io.ReadAll(io.LimitReader(r, maxTarget+1))
	if err != nil {
		return refuse(f.Name, err.Error())
	}
	return t.link(f.Name, string(target))
}
