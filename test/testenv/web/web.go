// Package web is the HTTP server that the content servers are built on: it
// listens on a loopback port, asks for credentials and counts requests.
package web

import (
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/garboard-dev/garboard/test/testenv/pki"
)

// Options say who is let in and how.
type Options struct {
	// User and Password are asked for when User is not empty.
	User, Password string
	// Token, when not empty, is let in as a bearer token too.
	Token string
	// CA, when not nil, signs the certificate of an HTTPS server.
	CA *pki.CA
}

// Server is a running server. Close it when done.
type Server struct {
	url    string
	server *http.Server
	done   chan struct{}

	mu       sync.Mutex // guards requests
	requests []string
}

// Start serves handler on a free loopback port.
func Start(handler http.Handler, o Options) (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start web server: %w", err)
	}
	s := &Server{url: "http://" + l.Addr().String(), done: make(chan struct{})}
	if o.CA != nil {
		pair, err := o.CA.Server("127.0.0.1", "localhost")
		if err != nil {
			return nil, errors.Join(err, l.Close())
		}
		cert, err := tls.X509KeyPair(pair.CertPEM, pair.KeyPEM)
		if err != nil {
			return nil, errors.Join(err, l.Close())
		}
		l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12})
		s.url = "https://" + l.Addr().String()
	}
	s.server = &http.Server{Handler: s.record(o.guard(handler)), ReadHeaderTimeout: time.Minute}
	go func() {
		defer close(s.done)
		_ = s.server.Serve(l) // always an error: Close was called
	}()
	return s, nil
}

// URL returns the server's address without a slash at its end.
func (s *Server) URL() string { return s.url }

// Host returns the server's host and port.
func (s *Server) Host() string { _, host, _ := strings.Cut(s.url, "://"); return host }

// Close drops all connections and returns when the server has ended.
func (s *Server) Close() {
	_ = s.server.Close()
	<-s.done
}

// Requests returns each request as "METHOD PATH STATUS", in the order of their ends.
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.requests...)
}

// Count returns how many requests were for paths that start with prefix.
func (s *Server) Count(prefix string) int {
	n := 0
	for _, r := range s.Requests() {
		if strings.HasPrefix(strings.Fields(r)[1], prefix) {
			n++
		}
	}
	return n
}

func (s *Server) record(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sw := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		method, path := r.Method, r.URL.Path
		defer func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.requests = append(s.requests, fmt.Sprintf("%s %s %d", method, path, sw.status))
		}()
		next.ServeHTTP(sw, r)
	})
}

// guard lets in who knows the password or the token.
func (o Options) guard(next http.Handler) http.Handler {
	if o.User == "" && o.Token == "" {
		return next
	}
	same := func(want, got string) bool {
		return want != "" && subtle.ConstantTimeCompare([]byte(want), []byte(got)) == 1
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if same(o.Token, token) || same(o.User, user) && same(o.Password, password) {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="garboard-test"`)
		http.Error(w, "credentials are wrong or missing", http.StatusUnauthorized)
	})
}

type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController find Flush.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
