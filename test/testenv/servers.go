package testenv

import (
	"context"
	"fmt"

	"github.com/garboard-dev/garboard/test/testenv/files"
	"github.com/garboard-dev/garboard/test/testenv/gitserver"
	"github.com/garboard-dev/garboard/test/testenv/helmrepo"
	"github.com/garboard-dev/garboard/test/testenv/pki"
	"github.com/garboard-dev/garboard/test/testenv/registry"
	"github.com/garboard-dev/garboard/test/testenv/web"
)

// Credentials of the private servers.
const (
	ServerUser     = "garboard"
	ServerPassword = "s3cret-Passw0rd"
	// ServerToken is a bearer token for the private git and file servers.
	ServerToken = "t0ken-of-the-test"
)

// Servers are what content is fetched from, each open and with credentials.
type Servers struct {
	Registry, PrivateRegistry *registry.Server
	// TLSRegistry has a certificate of CA and asks for no credentials.
	TLSRegistry     *registry.Server
	Git, PrivateGit *gitserver.Server
	// TLSGit has a certificate of CA and asks for credentials.
	TLSGit            *gitserver.Server
	Files             *files.Server
	PrivateFiles      *files.Server
	TLSFiles          *files.Server
	Helm, PrivateHelm *helmrepo.Server
	// CA is trusted by nobody.
	CA *pki.CA
}

// StartServers starts all servers; Stop ends them. It is to be called once.
func (e *Env) StartServers(ctx context.Context) (*Servers, error) {
	s := &Servers{}
	if err := e.startServers(ctx, s); err != nil {
		return nil, fmt.Errorf("start content servers: %w", err)
	}
	return s, nil
}

func (e *Env) startServers(ctx context.Context, s *Servers) (err error) {
	if s.CA, err = pki.NewCA("garboard-test-servers"); err != nil {
		return err
	}
	private := web.Options{User: ServerUser, Password: ServerPassword, Token: ServerToken}
	privateTLS := private
	privateTLS.CA = s.CA
	for name, r := range map[string]struct {
		to   **registry.Server
		with registry.Options
	}{
		"registry":         {&s.Registry, registry.Options{}},
		"registry-private": {&s.PrivateRegistry, registry.Options{User: ServerUser, Password: ServerPassword}},
		"registry-tls":     {&s.TLSRegistry, registry.Options{CA: s.CA}},
	} {
		r.with.BinDir, r.with.ToolDir = e.BinDir("dev"), e.BinDir("tools")
		if r.with.Dir, err = e.Dir(name); err != nil {
			return err
		}
		if *r.to, err = registry.Start(ctx, r.with); err != nil {
			return err
		}
		e.onStop((*r.to).Close)
	}
	for name, g := range map[string]struct {
		to   **gitserver.Server
		with web.Options
	}{"git": {&s.Git, web.Options{}}, "git-private": {&s.PrivateGit, private}, "git-tls": {&s.TLSGit, privateTLS}} {
		dir, err := e.Dir(name)
		if err != nil {
			return err
		}
		if *g.to, err = gitserver.Start(dir, g.with); err != nil {
			return err
		}
		e.onStop((*g.to).Close)
	}
	for _, f := range []struct {
		to   **files.Server
		with web.Options
	}{{&s.Files, web.Options{}}, {&s.PrivateFiles, private}, {&s.TLSFiles, web.Options{CA: s.CA}}} {
		if *f.to, err = files.Start(f.with); err != nil {
			return err
		}
		e.onStop((*f.to).Close)
	}
	for name, h := range map[string]struct {
		to   **helmrepo.Server
		with web.Options
	}{"helm": {&s.Helm, web.Options{}}, "helm-private": {&s.PrivateHelm, private}} {
		dir, err := e.Dir(name)
		if err != nil {
			return err
		}
		if *h.to, err = helmrepo.Start(dir, e.BinDir("tools"), h.with); err != nil {
			return err
		}
		e.onStop((*h.to).Close)
	}
	return nil
}
