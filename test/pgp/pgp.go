// Package pgp makes PGP keys for tests, without the gpg program.
package pgp

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
)

// Key is a new key without a passphrase.
type Key struct {
	// Private is the armored private key, and ends with a line break.
	Private string
	// Fingerprint has upper case hexadecimal digits.
	Fingerprint string
	// Home is a GNUPGHOME with the public key, for `sops --encrypt`; it goes with the
	// test.
	Home string
}

// New makes a key.
func New(t testing.TB) Key {
	t.Helper()
	e, err := openpgp.NewEntity("test", "", "test@example.com", nil)
	if err != nil {
		t.Fatal(err)
	}
	var private, public bytes.Buffer
	w, err := armor.Encode(&private, openpgp.PrivateKeyType, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.SerializePrivate(w, nil); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := e.Serialize(&public); err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "pubring.gpg"), public.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return Key{private.String() + "\n", fmt.Sprintf("%X", e.PrimaryKey.Fingerprint), home}
}
