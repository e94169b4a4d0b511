package workdir

import (
	"fmt"
	"path"
	"path/filepath"
	"strings"
)

// Limits of names, as file systems have them. A longer name is refused before
// anything is written, so that the error names the path and not a system call.
const (
	maxComponent = 255
	maxPath      = 4096
)

// CleanPath returns p in its shortest form, or an error that names it. p must be
// slash-separated, relative, stay inside, and have no NUL and no component over
// 255 bytes. "." and "" are the folder itself.
func CleanPath(p string) (string, error) {
	if p == "" {
		return ".", nil
	}
	switch {
	case strings.ContainsRune(p, 0):
		return "", fmt.Errorf("invalid path %q: has a NUL byte", p)
	case len(p) > maxPath:
		return "", fmt.Errorf("invalid path %q: longer than %d bytes", p[:64]+"...", maxPath)
	case path.IsAbs(p):
		return "", fmt.Errorf("invalid path %q: must be relative", p)
	case !filepath.IsLocal(p):
		return "", fmt.Errorf("invalid path %q: leads out of its folder", p)
	}
	for part := range strings.SplitSeq(p, "/") {
		if len(part) > maxComponent {
			return "", fmt.Errorf("invalid path %q: a name is longer than %d bytes", p, maxComponent)
		}
	}
	return path.Clean(p), nil
}

// CleanFile is CleanPath for a file to be written: besides, it must name
// something inside the folder, not end with a slash and have no backslash, which
// other systems take for a separator.
func CleanFile(p string) (string, error) {
	clean, err := CleanPath(p)
	switch {
	case err != nil:
		return "", err
	case clean == "." || strings.HasSuffix(p, "/"):
		return "", fmt.Errorf("invalid path %q: does not name a file", p)
	case strings.Contains(p, `\`):
		return "", fmt.Errorf("invalid path %q: has a backslash", p)
	}
	return clean, nil
}
