package certs_test

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/garboard-dev/garboard/pkg/apiserver/certs"
)

var (
	begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	names = []string{"packaging-api.kapp-controller.svc", "localhost"}
)

const day = 24 * time.Hour

func next(t *testing.T, now time.Time, s certs.State, published []byte) (certs.State, string) {
	t.Helper()
	s, reason, err := certs.Next(now, s, published, names)
	if err != nil {
		t.Fatal(err)
	}
	return s, reason
}

func count(text []byte) int { return bytes.Count(text, []byte("BEGIN CERTIFICATE")) }

func TestNext(t *testing.T) {
	first, _ := next(t, begin, certs.State{}, nil)
	second, _ := next(t, begin.Add(day), certs.State{}, first.CAs)
	cases := map[string]struct {
		reason    string
		at        time.Time
		state     certs.State
		published []byte
		want      string // the reason that is given
		cas       int
	}{
		"Nothing":     {"the first start", begin, certs.State{}, nil, "new CA: there is none, new serving certificate: there is none", 1},
		"Junk":        {"neither Secret nor bundle are readable", begin, certs.State{CAs: []byte("x"), Cert: []byte("y")}, []byte("random-data"), "new CA: there is none, new serving certificate: there is none", 1},
		"Good":        {"nothing to do", begin.Add(day), first, first.CAs, "", 1},
		"BundleLost":  {"what is published is no reason to make anything", begin.Add(day), first, nil, "", 1},
		"DayBefore":   {"the leaf has more than 30 days left", begin.Add(335*day - time.Second), first, first.CAs, "", 1},
		"LeafEnds":    {"30 days before its end", begin.Add(335 * day), first, first.CAs, "new serving certificate: it is valid from 2025-12-31 to 2027-01-01", 1},
		"LeafOver":    {"the controller was off for a long time", begin.Add(500 * day), first, first.CAs, "new serving certificate: it is valid", 1},
		"LeafLost":    {"somebody emptied it", begin, certs.State{CAs: first.CAs, CAKey: first.CAKey}, first.CAs, "new serving certificate: there is none", 1},
		"OtherLeaf":   {"of another CA", begin, certs.State{CAs: first.CAs, CAKey: first.CAKey, Cert: second.Cert, Key: second.Key}, first.CAs, "new serving certificate: ", 1},
		"SecretGone":  {"what was trusted stays so", begin.Add(2 * day), certs.State{}, first.CAs, "new CA: there is none, ", 2},
		"CAKeyLost":   {"it can sign nothing", begin, certs.State{CAs: first.CAs, Cert: first.Cert, Key: first.Key}, first.CAs, "new CA: its key is not there, new serving certificate: another CA has signed it", 2},
		"CAEnds":      {"it must outlive the leaf", begin.Add(3300 * day), first, first.CAs, "new CA: it is valid from ", 2},
		"Overlap":     {"both are trusted for a day", begin.Add(day + 23*time.Hour), second, second.CAs, "", 2},
		"AfterIt":     {"then only the new one", begin.Add(day + 25*time.Hour), second, second.CAs, "CAs that were replaced are not needed any more", 1},
		"ClockBehind": {"the certificate is of the future", begin.Add(-day), first, first.CAs, "new CA: it is valid from 2025-12-31", 2},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, why := next(t, c.at, c.state, c.published)
			if !strings.HasPrefix(why, c.want) || (c.want == "") != (why == "") {
				t.Errorf("%s: done because of %q, want %q", c.reason, why, c.want)
			}
			if n := count(got.CAs); n != c.cas {
				t.Errorf("%s: %d CAs, want %d", c.reason, n, c.cas)
			}
			check(t, c.at, got)
			if again, why := next(t, c.at, got, got.CAs); why != "" || !bytes.Equal(again.Cert, got.Cert) {
				t.Errorf("%s: a second look changes something: %s", c.reason, why)
			}
		})
	}
}

// check verifies the certificate as kube-apiserver does.
func check(t *testing.T, now time.Time, s certs.State) {
	t.Helper()
	block, _ := pem.Decode(s.Cert)
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.CAs)
	for _, name := range names {
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: now}); err != nil {
			t.Error(err)
		}
	}
	if !certs.Trusts(s.CAs, s.Cert) {
		t.Error("the bundle does not have the CA")
	}
}

// TestManyDeletions: the bundle does not grow for ever.
func TestManyDeletions(t *testing.T) {
	var s certs.State
	for range 10 {
		s, _ = next(t, begin, certs.State{}, s.CAs)
	}
	if n := count(s.CAs); n > 5 {
		t.Errorf("%d CAs", n)
	}
}

// FuzzNext: whatever the Secret holds, what comes out serves.
func FuzzNext(f *testing.F) {
	good, _, err := certs.Next(begin, certs.State{}, nil, names)
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(nil), []byte(nil), []byte(nil), []byte(nil), []byte(nil))
	f.Add(good.CAs, good.CAKey, good.Cert, good.Key, good.CAs)
	f.Add(good.Cert, good.Key, good.CAs, good.CAKey, []byte("x"))
	f.Fuzz(func(t *testing.T, cas, caKey, leaf, key, published []byte) {
		s, _ := next(t, begin, certs.State{CAs: cas, CAKey: caKey, Cert: leaf, Key: key}, published)
		check(t, begin, s)
	})
}

func ExampleNext() {
	state, reason, err := certs.Next(begin, certs.State{}, nil, []string{"packaging-api.kapp-controller.svc"})
	fmt.Println(reason, err, certs.Trusts(state.CAs, state.Cert))
	// Output: new CA: there is none, new serving certificate: there is none <nil> true
}
