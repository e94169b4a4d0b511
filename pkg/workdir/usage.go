package workdir

import (
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"
)

// Usage is what a folder takes.
type Usage struct {
	// Bytes is the sum of file sizes, or of allocated blocks where a file is
	// sparse and takes less.
	Bytes int64
	// Entries counts files, folders and links, without the folder itself.
	Entries int64
	// Closed says that there is a folder whose content cannot be seen, because a
	// tool took the rights away.
	Closed bool
}

// Over says whether u is past limit; a limit of 0 is none.
func (u Usage) Over(limit Usage) bool {
	return limit.Bytes > 0 && u.Bytes > limit.Bytes || limit.Entries > 0 && u.Entries > limit.Entries
}

// Measure adds up folders, given as absolute paths. It stops early once the sum is
// past limit, so a folder that grows without end cannot keep it busy. It
// may run while tools write: what vanishes under it is not counted.
func Measure(limit Usage, dirs ...string) Usage {
	var u Usage
	for _, dir := range dirs {
		u.add(dir, limit)
	}
	return u
}

func (u *Usage) add(dir string, limit Usage) {
	// Plain paths and not os.Root: this only counts, and os.Root opens each parent
	// anew for each entry, which is slow for hundreds of thousands of them.
	_ = filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if p == dir || e == nil {
			return nil
		}
		if err != nil {
			u.Closed = u.Closed || errors.Is(err, fs.ErrPermission)
			return nil // else it vanished
		}
		u.Entries++
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			u.Bytes += size(info)
		}
		if u.Over(limit) {
			return errStop
		}
		return nil
	})
}

var errStop = errors.New("stop")

func size(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return min(info.Size(), st.Blocks*512)
	}
	return info.Size()
}
