//go:build linux

package sidecar

import (
	"bytes"
	"regexp"
)

// temporary finds the random part in the names of temporary files and folders.
var temporary = regexp.MustCompile(`(\.vendir-tmp-|\bvendir-[a-z-]*|\btmp/[A-Za-z._-]*)[0-9]{5,}`)

// relative takes the workspace's place on this machine out of what a tool says:
// it tells users nothing, and as it is random it would make the same failure
// another text with each try.
func (r *run) relative(text []byte) []byte {
	root := r.dir.Path()
	text = bytes.ReplaceAll(text, []byte(root+"/"), nil)
	text = bytes.ReplaceAll(text, []byte(root), []byte("."))
	return temporary.ReplaceAll(text, []byte("${1}*"))
}
