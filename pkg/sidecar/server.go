//go:build linux

package sidecar

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/rpc"
	"os"
	"sync"
	"sync/atomic"

	"github.com/garboard-dev/garboard/pkg/tool"
	"github.com/garboard-dev/garboard/pkg/workdir"
)

// errShutdown is the cause with which tools end when the sidecar does.
var errShutdown = errors.New("the sidecar is shutting down")

// errGone is the cause with which tools end when their controller does.
var errGone = errors.New("the connection of the controller ended")

// server is one running sidecar.
type server struct {
	opts     ServerOptions
	log      *slog.Logger
	instance string
	kernel   containment
	base     *workdir.Base
	caches   *caches
	os       *osConfig
	reaper   *tool.Reaper

	starts              map[string]*atomic.Int64
	workspaces, running atomic.Int64
}

// Serve runs the sidecar until ctx ends. Then it ends all tools, removes all
// workspaces and returns nil. Any other return is an error at the start.
//
// It makes this process adopt orphans, so that nothing that a tool left behind
// outlives it. So other children of this process must stay in its session.
func Serve(ctx context.Context, o ServerOptions) error {
	if err := o.Validate(); err != nil {
		return err
	}
	s, err := newServer(o.withDefaults())
	if err != nil {
		return err
	}
	defer s.close()
	l, err := listen(ctx, o.Socket)
	if err != nil {
		return err
	}
	if err := s.reaper.Adopt(); err != nil {
		return errors.Join(fmt.Errorf("adopt orphans: %w", err), l.Close())
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	reaping, stopReaping := context.WithCancel(context.WithoutCancel(ctx))
	wg.Go(func() { s.reaper.Run(reaping) })
	defer stopReaping()
	s.log.Info("Serving", "socket", o.Socket, "landlock", s.kernel.abi, "seccomp", s.kernel.seccomp)
	return s.accept(ctx, l)
}

func newServer(o ServerOptions) (*server, error) {
	s := &server{
		opts: o, log: o.Log, instance: rand.Text(), kernel: probe(), reaper: tool.NewReaper(),
		starts: map[string]*atomic.Int64{},
	}
	for _, name := range Tools() {
		s.starts[name] = new(atomic.Int64)
	}
	if full := s.kernel.abi >= 4 && s.kernel.seccomp; !full && o.RequireContainment {
		return nil, fmt.Errorf("the kernel cannot contain tools: it has Landlock version %d of 4, system call filter: %t", s.kernel.abi, s.kernel.seccomp)
	} else if !full {
		s.log.Warn("Tools are not fully contained: the kernel lacks Landlock version 4 or system call filters",
			"landlock", s.kernel.abi, "seccomp", s.kernel.seccomp)
	}
	// The first look-up of a process makes the runtime try out what the kernel
	// offers for it; in a contained thread it would find too little.
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		_ = p.Release()
	}
	base, err := workdir.OpenBase(o.WorkDir)
	if err != nil {
		return nil, err
	}
	s.base = base
	cacheDir, err := base.Open("cache")
	if err != nil {
		return nil, errors.Join(err, base.Close())
	}
	osDir, err := base.Open("os")
	if err != nil {
		return nil, errors.Join(err, base.Close())
	}
	s.caches, s.os = newCaches(cacheDir, o.CacheBytes), newOSConfig(osDir, o.Log)
	return s, nil
}

// close removes what is not a workspace and gives up the work folder.
func (s *server) close() {
	if err := errors.Join(s.caches.dir.Close(), s.os.dir.Close(), s.base.Close()); err != nil {
		s.log.Error("Cannot clean up", "error", err)
	}
}

// accept serves connections until ctx ends, and waits for them.
func (s *server) accept(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(errShutdown)
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	for {
		c, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return errors.Join(fmt.Errorf("accept: %w", err), l.Close())
		}
		wg.Go(func() { s.serveConn(ctx, c) })
	}
}

// serveConn serves one connection. At its end its tools are ended and its
// workspaces removed.
func (s *server) serveConn(ctx context.Context, nc net.Conn) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c := &conn{server: s, ctx: ctx, workspaces: map[string]*workspace{}}
	defer c.closeAll()
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	defer stop()
	r := rpc.NewServer()
	if err := r.RegisterName(service, c); err != nil {
		s.log.Error("Cannot serve", "error", err)
		return
	}
	// ServeConn returns only after all calls have ended, so a client that is gone
	// is noticed where its requests are read.
	r.ServeConn(hangup{nc, func() { cancel(errGone) }})
}

// hangup calls gone when nothing more can be read.
type hangup struct {
	net.Conn
	gone func()
}

func (h hangup) Read(p []byte) (int, error) {
	n, err := h.Conn.Read(p)
	if err != nil {
		h.gone()
	}
	return n, err
}
