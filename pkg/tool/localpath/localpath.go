// Package localpath checks paths that users give before a tool or a file system
// sees them. It is lexical: links are the business of whoever opens the file.
package localpath

import (
	"fmt"
	"path"
	"strings"
	"unicode"
)

// Join returns p in its shortest form, relative to the root that it is meant to
// lie below: "." for the root itself. A leading slash stands for that root, as
// kapp-controller has it. It fails for a path that leads outside, and for one with
// control characters or a backslash, which only serve to confuse a reader or a tool.
//
// The result never begins with a slash or with "../"; it may begin with a dash,
// see Arg.
func Join(p string) (string, error) {
	clean := path.Clean(strings.TrimLeft(p, "/"))
	if clean == ".." || strings.HasPrefix(clean, "../") || strings.ContainsFunc(p, odd) {
		return "", fmt.Errorf("Invalid path: %s", printable(p))
	}
	return clean, nil
}

// Arg returns what Join does in a form that no tool takes for an option, a
// standard stream, an address or a package: it is "." or begins with "./".
func Arg(p string) (string, error) {
	clean, err := Join(p)
	if err != nil || clean == "." {
		return clean, err
	}
	return "./" + clean, nil
}

// Name checks that s can name one file in a folder, such as a key of a Secret.
func Name(s string) error {
	if s == "" || s == "." || s == ".." || strings.Contains(s, "/") || strings.ContainsFunc(s, odd) {
		return fmt.Errorf("Invalid file name: %q", s)
	}
	return nil
}

func odd(r rune) bool { return unicode.IsControl(r) || r == '\\' || r == unicode.ReplacementChar }

// printable keeps the path of an error readable and on one line.
func printable(p string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, p)
}
