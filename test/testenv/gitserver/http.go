// Package gitserver serves git repositories with the real git: over smart HTTP
// and over SSH, with and without credentials, and large files in the way of git-lfs.
// It is read-only to clients.
package gitserver

import (
	"fmt"
	"io"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/garboard-dev/garboard/test/testenv/web"
)

// Server serves all repositories over HTTP, and over SSH to one key. Close it
// when done. Its methods may be called from several goroutines as long as these
// do not change one repository at the same time.
type Server struct {
	*web.Server
	dir   string
	ssh   *sshServer
	keys  keys
	large large
}

// Start serves the repositories below dir, which exists and is the caller's to
// remove. The options are those of the HTTP side.
func Start(dir string, o web.Options) (*Server, error) {
	exec, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		return nil, fmt.Errorf("start git server: %w", err)
	}
	s := &Server{dir: dir}
	if s.keys, err = newKeys(); err != nil {
		return nil, err
	}
	if s.ssh, err = startSSH(dir, s.keys); err != nil {
		return nil, err
	}
	s.Server, err = web.Start(s.large.serve(&cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(exec)), "git-http-backend"),
		Dir:  dir,
		Env:  append(gitEnv(dir), "GIT_PROJECT_ROOT="+dir, "GIT_HTTP_EXPORT_ALL=1"),
		// What git says about a client that went away is of no use.
		Stderr: io.Discard,
	}), o)
	if err != nil {
		s.ssh.close()
		return nil, err
	}
	return s, nil
}

// Close drops all connections.
func (s *Server) Close() {
	s.Server.Close()
	s.ssh.close()
}

// RepoURL returns the HTTP address of a repository.
func (s *Server) RepoURL(repo string) string { return s.URL() + "/" + repo + ".git" }

// PutLarge stores a large file for all repositories and returns what a repository
// has in its place, a pointer of git-lfs.
func (s *Server) PutLarge(content []byte) (pointer string) { return s.large.put(content) }

// SSHURL returns the SSH address of a repository.
func (s *Server) SSHURL(repo string) string {
	return "ssh://git@" + s.ssh.addr() + "/" + repo + ".git"
}

// KnownHosts returns a line for OpenSSH's known_hosts file.
func (s *Server) KnownHosts() string { return s.ssh.knownHosts(s.keys.host.PublicKey()) }

// WrongKnownHosts is KnownHosts with a key that the server does not have.
func (s *Server) WrongKnownHosts() string { return s.ssh.knownHosts(s.keys.client.PublicKey()) }

// PrivateKey returns the key, in PEM, that SSH lets in.
func (s *Server) PrivateKey() []byte { return s.keys.clientPEM }

// gitEnv keeps the configuration of the machine and its user out of play.
func gitEnv(home string) []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home,
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0",
	}
}
