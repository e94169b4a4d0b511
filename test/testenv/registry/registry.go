// Package registry runs the real distribution registry, in plain, with basic
// authentication or with TLS, and puts content into it.
package registry

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/crypto/bcrypt"

	"github.com/garboard-dev/garboard/test/testenv/pki"
	"github.com/garboard-dev/garboard/test/testenv/proc"
)

// Options say what to start. BinDir, ToolDir and Dir are required.
type Options struct {
	// BinDir holds registry and imgpkg, ToolDir helm.
	BinDir, ToolDir string
	// Dir is an empty folder for data and logs; the caller removes it.
	Dir string
	// User and Password are asked for when User is not empty.
	User, Password string
	// CA, when not nil, signs the certificate of an HTTPS server.
	CA *pki.CA
}

// Server is a running registry. Close it when done.
type Server struct {
	o    Options
	host string
	proc *proc.Process
}

// config is distribution's configuration file: address, data folder, and the
// sections for TLS and authentication.
const config = `version: 0.1
log: {level: warn, accesslog: {disabled: false}}
storage:
  filesystem: {rootdirectory: %q}
  delete: {enabled: true}
http:
  addr: %q
  secret: garboard-test
%s%s`

// Start returns when the registry answers.
func Start(ctx context.Context, o Options) (*Server, error) {
	s := &Server{o: o}
	if err := s.start(ctx); err != nil {
		s.Close()
		return nil, fmt.Errorf("start registry: %w", err)
	}
	return s, nil
}

func (s *Server) start(ctx context.Context) error {
	port, err := proc.FreePort()
	if err != nil {
		return err
	}
	s.host = fmt.Sprintf("127.0.0.1:%d", port)
	var tlsPart, authPart string
	if s.o.CA != nil {
		pair, err := s.o.CA.Server("127.0.0.1", "localhost")
		if err != nil {
			return err
		}
		tlsPart = fmt.Sprintf("  tls: {certificate: %q, key: %q}\n", s.path("tls.crt"), s.path("tls.key"))
		err = errors.Join(os.WriteFile(s.path("tls.crt"), pair.CertPEM, 0o600),
			os.WriteFile(s.path("tls.key"), pair.KeyPEM, 0o600),
			os.WriteFile(s.path("ca.crt"), s.o.CA.CertPEM, 0o600))
		if err != nil {
			return err
		}
	}
	if s.o.User != "" {
		hash, err := bcrypt.GenerateFromPassword([]byte(s.o.Password), bcrypt.MinCost)
		if err != nil {
			return err
		}
		authPart = fmt.Sprintf("auth: {htpasswd: {realm: garboard-test, path: %q}}\n", s.path("htpasswd"))
		if err := os.WriteFile(s.path("htpasswd"), fmt.Appendf(nil, "%s:%s\n", s.o.User, hash), 0o600); err != nil {
			return err
		}
	}
	content := fmt.Sprintf(config, s.path("data"), s.host, tlsPart, authPart)
	if err := os.WriteFile(s.path("config.yml"), []byte(content), 0o600); err != nil {
		return err
	}
	s.proc, err = proc.Start(proc.Spec{
		Name: "registry", Path: filepath.Join(s.o.BinDir, "registry"), Args: []string{"serve", s.path("config.yml")},
		Env: []string{"OTEL_TRACES_EXPORTER=none"}, LogFile: s.path("registry.log"),
	})
	if err != nil {
		return err
	}
	return s.proc.WaitFor(ctx, s.ready)
}

func (s *Server) ready(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL()+"/", nil)
	if err != nil {
		return err
	}
	res, err := (&http.Client{Transport: s.transport()}).Do(req)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

// transport trusts the registry's CA.
func (s *Server) transport() *http.Transport {
	t := &http.Transport{DisableKeepAlives: true}
	if s.o.CA != nil {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(s.o.CA.CertPEM)
		t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return t
}

// Close ends the registry.
func (s *Server) Close() {
	if s.proc != nil {
		s.proc.Kill()
	}
}

// Host returns the registry's host and port, which image references start with.
func (s *Server) Host() string { return s.host }

// URL returns the registry's address.
func (s *Server) URL() string {
	if s.o.CA != nil {
		return "https://" + s.host
	}
	return "http://" + s.host
}

func (s *Server) path(name string) string { return filepath.Join(s.o.Dir, name) }

// accessLine is a line of the access log, without the health checks of Start.
var accessLine = regexp.MustCompile(`"([A-Z]+) (/v2/[^ ]*) HTTP/[0-9.]+" ([0-9]+)`)

// Requests returns each request as "METHOD PATH STATUS".
func (s *Server) Requests() ([]string, error) {
	log, err := os.ReadFile(s.proc.LogFile())
	if err != nil {
		return nil, err
	}
	var found []string
	for _, m := range accessLine.FindAllSubmatch(log, -1) {
		found = append(found, string(bytes.Join(m[1:], []byte(" "))))
	}
	return found, nil
}

// Count returns how many requests were for a repository, such as "charts/app".
func (s *Server) Count(repository string) (int, error) {
	requests, err := s.Requests()
	n := 0
	for _, r := range requests {
		if strings.Contains(r, " /v2/"+repository+"/") {
			n++
		}
	}
	return n, err
}
