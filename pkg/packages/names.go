// Package packages knows how Packages and PackageMetadatas are stored, which of them
// a namespace sees and what makes them valid. It sees values only: the API server
// of package apiserver and the controllers that read the store use it alike.
package packages

import (
	"encoding/base32"
	"fmt"
	"unicode/utf8"
)

// MaxNameLength is how many bytes the name of a Package may have: the store takes
// names of 253 characters, each of which holds 5 bits.
const MaxNameLength = 253 * 5 / 8

// A version may hold upper case and "+", which names of stored objects may not. The
// alphabet keeps the order of names.
var encoding = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// EncodeName returns the name under which the Package is stored.
func EncodeName(name string) string { return encoding.EncodeToString([]byte(name)) }

// DecodeName returns the name of the Package that is stored as encoded. Every other
// spelling than that of EncodeName is an error.
func DecodeName(encoded string) (string, error) {
	name, err := encoding.DecodeString(encoded)
	switch {
	case err != nil:
		return "", fmt.Errorf("decode the stored name %q: %w", encoded, err)
	case len(name) == 0 || !utf8.Valid(name) || EncodeName(string(name)) != encoded:
		return "", fmt.Errorf("decode the stored name %q: not the encoding of a name", encoded)
	}
	return string(name), nil
}
