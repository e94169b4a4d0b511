//go:build linux

package sidecar

import (
	"bytes"
	"regexp"
)

// temporary finds the random part in the names of temporary folders.
var temporary = regexp.MustCompile(`(\.vendir-tmp-|\btmp/[A-Za-z._-]*)[0-9]{5,}`)

// relative takes the workspace's place on this machine out of what a tool says:
// it tells users nothing, and as it is random it would make the same failure
// another text with each try.
func (r *run) relative(text []byte) []byte {
	root := []byte(r.dir.Path())
	if !bytes.Contains(text, root) {
		return text
	}
	text = bytes.ReplaceAll(text, append(root, '/'), nil)
	text = bytes.ReplaceAll(text, root[:len(root):len(root)], []byte("."))
	return temporary.ReplaceAll(text, []byte("${1}*"))
}
