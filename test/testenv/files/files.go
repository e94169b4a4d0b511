// Package files serves content that is set at run time, such as archives and
// the index of a Helm repository.
package files

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/garboard-dev/garboard/test/testenv/web"
)

// Server serves files. Its methods may be called from several goroutines.
type Server struct {
	*web.Server

	mu      sync.Mutex // guards content
	content map[string][]byte
}

// Start starts a server without files.
func Start(o web.Options) (*Server, error) {
	s := &Server{content: map[string][]byte{}}
	var err error
	s.Server, err = web.Start(http.HandlerFunc(s.serve), o)
	return s, err
}

// Put sets the content of a file, replaces what it was, and returns its URL.
func (s *Server) Put(name string, content []byte) (url string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.content[name] = content
	return s.URL() + "/" + name
}

// Delete removes a file.
func (s *Server) Delete(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.content, name)
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	s.mu.Lock()
	content, ok := s.content[name]
	s.mu.Unlock()
	if !ok {
		http.NotFound(w, r)
		return
	}
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(content))
}

// TarGz packs files, and entries without content after them. The same files give the
// same bytes.
func TarGz(files fs.FS, entries ...tar.Header) ([]byte, error) {
	var buf bytes.Buffer
	zw := gzip.NewWriter(&buf)
	tw := tar.NewWriter(zw)
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		if err := tw.WriteHeader(&tar.Header{Name: path, Mode: 0o644, Size: int64(len(content))}); err != nil {
			return err
		}
		_, err = tw.Write(content)
		return err
	})
	for _, h := range entries {
		err = errors.Join(err, tw.WriteHeader(&h))
	}
	if err != nil {
		return nil, fmt.Errorf("pack files: %w", err)
	}
	if err := tw.Close(); err != nil {
		return nil, err
	}
	if err := zw.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// SHA256 returns the digest in hex.
func SHA256(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
