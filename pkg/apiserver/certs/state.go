package certs

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// How long certificates are good for, and how long before their end they are
// renewed. Clocks may differ by skew. A CA that was replaced stays in the bundle for
// overlap, in which every instance takes up the new certificate.
const (
	caLife     = 10 * 365 * 24 * time.Hour
	leafLife   = 365 * 24 * time.Hour
	renewLeaf  = 30 * 24 * time.Hour
	renewCA    = leafLife + renewLeaf
	skew       = time.Hour
	overlap    = 24 * time.Hour
	maxCAs     = 4
	caName     = "garboard-packaging-api-ca"
	serverName = "garboard-packaging-api"
)

// State is what the Secret holds, all in PEM.
type State struct {
	// CAs are the certificates to trust. The first has signed Cert, or will sign the next.
	CAs []byte
	// CAKey is the key of the first CA.
	CAKey []byte
	// Cert and Key are what to serve with.
	Cert, Key []byte
}

// Keys of the Secret's data.
const (
	keyCAs, keyCAKey = "ca.crt", "ca.key"
	keyCert, keyKey  = "tls.crt", "tls.key"
)

func fromData(data map[string][]byte) State {
	return State{CAs: data[keyCAs], CAKey: data[keyCAKey], Cert: data[keyCert], Key: data[keyKey]}
}

func (s State) data() map[string][]byte {
	return map[string][]byte{keyCAs: s.CAs, keyCAKey: s.CAKey, keyCert: s.Cert, keyKey: s.Key}
}

// Next returns what the Secret has to hold, and why if that is not what it holds.
// published is the bundle that is trusted now: the CAs in it that are of this
// package stay trusted when a new one is made. names are those to serve under.
func Next(now time.Time, s State, published []byte, names []string) (next State, reason string, err error) {
	var reasons []string
	cas := parse(s.CAs)
	signer, problem := usableCA(now, cas, s.CAKey)
	if problem != nil {
		old := append(slices.Clip(cas), parse(published)...)
		if signer, s.CAKey, err = newCA(now); err != nil {
			return s, "", fmt.Errorf("make a CA: %w", err)
		}
		s.CAs = encode(append([]*x509.Certificate{signer}, ours(now, old)...))
		reasons = append(reasons, "new CA: "+problem.Error())
	} else if kept := ours(now, trusted(now, cas)); len(kept) != len(cas) {
		s.CAs = encode(kept)
		reasons = append(reasons, "CAs that were replaced are not needed any more")
	}
	if problem := usableLeaf(now, s, signer, names); problem != nil {
		if s.Cert, s.Key, err = newLeaf(now, signer, s.CAKey, names); err != nil {
			return s, "", fmt.Errorf("make a serving certificate: %w", err)
		}
		reasons = append(reasons, "new serving certificate: "+problem.Error())
	}
	return s, strings.Join(reasons, ", "), nil
}

// trusted leaves out what was replaced long ago.
func trusted(now time.Time, cas []*x509.Certificate) []*x509.Certificate {
	if now.Sub(cas[0].NotBefore) > skew+overlap {
		return cas[:1]
	}
	return cas
}

// ours returns the CAs of this package that are valid, each once and not too many.
func ours(now time.Time, cas []*x509.Certificate) (out []*x509.Certificate) {
	for _, c := range cas {
		if c.IsCA && c.Subject.CommonName == caName && now.Before(c.NotAfter) && !contains(out, c) && len(out) < maxCAs {
			out = append(out, c)
		}
	}
	return out
}

func contains(list []*x509.Certificate, c *x509.Certificate) bool {
	for _, other := range list {
		if other.Equal(c) {
			return true
		}
	}
	return false
}

func usableCA(now time.Time, cas []*x509.Certificate, key []byte) (*x509.Certificate, error) {
	if len(cas) == 0 {
		return nil, errors.New("there is none")
	}
	ca := cas[0]
	if _, err := tls.X509KeyPair(encode(cas[:1]), key); err != nil {
		return nil, errors.New("its key is not there")
	}
	if now.Add(renewCA).After(ca.NotAfter) || now.Before(ca.NotBefore) || !ca.IsCA {
		return nil, fmt.Errorf("it is valid from %s to %s", ca.NotBefore.Format(time.DateOnly), ca.NotAfter.Format(time.DateOnly))
	}
	return ca, nil
}

func usableLeaf(now time.Time, s State, signer *x509.Certificate, names []string) error {
	pair, err := tls.X509KeyPair(s.Cert, s.Key)
	if err != nil {
		return errors.New("there is none")
	}
	leaf := pair.Leaf
	if !now.Before(leaf.NotAfter.Add(-renewLeaf)) || now.Before(leaf.NotBefore) {
		return fmt.Errorf("it is valid from %s to %s", leaf.NotBefore.Format(time.DateOnly), leaf.NotAfter.Format(time.DateOnly))
	}
	if err := leaf.CheckSignatureFrom(signer); err != nil {
		return errors.New("another CA has signed it")
	}
	for _, name := range names {
		if leaf.VerifyHostname(name) != nil {
			return fmt.Errorf("it is not for %s", name)
		}
	}
	return nil
}

func newCA(now time.Time) (*x509.Certificate, []byte, error) {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: caName}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	return issue(now, template, caLife, nil, nil)
}

func newLeaf(now time.Time, signer *x509.Certificate, signerKey []byte, names []string) (certPEM, keyPEM []byte, err error) {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: serverName}, DNSNames: names, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	leaf, keyPEM, err := issue(now, template, leafLife, signer, signerKey)
	if err != nil {
		return nil, nil, err
	}
	return encode([]*x509.Certificate{leaf}), keyPEM, nil
}

// issue makes a key and a certificate for it; without a signer it signs itself.
func issue(now time.Time, template *x509.Certificate, life time.Duration, signer *x509.Certificate, signerKey []byte) (*x509.Certificate, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, nil, err
	}
	template.SerialNumber, template.NotBefore, template.NotAfter = serial, now.Add(-skew), now.Add(life)
	var by any = key
	if signer == nil {
		signer = template
	} else if by, err = keyutil.ParsePrivateKeyPEM(signerKey); err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, signer, key.Public(), by)
	if err != nil {
		return nil, nil, err
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	return made, pem.EncodeToMemory(&pem.Block{Type: keyutil.ECPrivateKeyBlockType, Bytes: keyDER}), nil
}

// parse returns the certificates in PEM text; text that is none holds none.
func parse(text []byte) []*x509.Certificate {
	list, err := cert.ParseCertsPEM(text)
	if err != nil {
		return nil
	}
	return list
}

func encode(list []*x509.Certificate) []byte {
	var out bytes.Buffer
	for _, c := range list {
		_ = pem.Encode(&out, &pem.Block{Type: cert.CertificateBlockType, Bytes: c.Raw}) // a buffer takes everything
	}
	return out.Bytes()
}

// Trusts says whether a client that trusts the bundle accepts the certificate.
func Trusts(bundle, certPEM []byte) bool {
	leaf := parse(certPEM)
	if len(leaf) == 0 {
		return false
	}
	for _, ca := range parse(bundle) {
		if leaf[0].CheckSignatureFrom(ca) == nil {
			return true
		}
	}
	return false
}
