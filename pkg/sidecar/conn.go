//go:build linux

package sidecar

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"runtime/debug"
	"sync"

	"github.com/garboard-dev/garboard/pkg/tool"
)

// conn is one connection; its exported methods are what the client can call.
type conn struct {
	server *server
	ctx    context.Context //nolint:containedctx // ends with the connection; net/rpc passes none

	mu         sync.Mutex // guards all below
	workspaces map[string]*workspace
	closed     bool
}

// recovered turns a panic in a call into that call's error.
func (c *conn) recovered(err *error) {
	if r := recover(); r != nil {
		c.server.log.Error("Panic in a call", "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
		*err = errors.New("the sidecar had an internal error, see its log")
	}
}

func (c *conn) find(handle string) (*workspace, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w := c.workspaces[handle]; w != nil {
		return w, nil
	}
	return nil, errors.New("unknown workspace: it was closed or belongs to an earlier connection")
}

// Hello compares protocol versions.
func (c *conn) Hello(req *HelloRequest, reply *HelloReply) error {
	if req.Version != Version {
		return fmt.Errorf("the controller speaks protocol version %d and the sidecar %d: both must run the same image", req.Version, Version)
	}
	*reply = HelloReply{Version: Version, Instance: c.server.instance}
	return nil
}

// Open makes a workspace.
func (c *conn) Open(req *OpenRequest, reply *OpenReply) (err error) {
	defer c.recovered(&err)
	w, err := c.server.newWorkspace(req.Owner)
	if err != nil {
		return err
	}
	reply.Handle = rand.Text()
	c.mu.Lock()
	closed := c.closed
	if !closed {
		c.workspaces[reply.Handle] = w
	}
	c.mu.Unlock()
	if closed {
		return errors.Join(errGone, w.close(errGone))
	}
	return nil
}

// Put writes files.
func (c *conn) Put(req *PutRequest, _ *Empty) (err error) {
	defer c.recovered(&err)
	w, err := c.find(req.Handle)
	if err != nil {
		return err
	}
	for _, f := range req.Files {
		if err := w.dir.Put(f.Path, f.Content); err != nil {
			return err
		}
	}
	return nil
}

// Run runs a tool to its end.
func (c *conn) Run(req *RunRequest, reply *RunReply) (err error) {
	defer c.recovered(&err)
	w, err := c.find(req.Handle)
	if err != nil {
		return err
	}
	ctx, done, err := w.begin(c.ctx, req.ID)
	if err != nil {
		return err
	}
	defer done()
	res, err := w.run(ctx, req.Command)
	if req.Keep && len(res.Stdout) > tool.LargeOutput {
		reply.Kept = len(res.Stdout)
		w.keep(req.ID, res.Stdout)
		res.Stdout = nil
	}
	reply.Result, reply.Failure = res, failure(err)
	return nil
}

// Output returns what stayed of a run, and forgets it.
func (c *conn) Output(req *OutputRequest, reply *OutputReply) (err error) {
	defer c.recovered(&err)
	w, err := c.find(req.Handle)
	if err != nil {
		return err
	}
	reply.Stdout = w.take(req.ID)
	return nil
}

// Cancel ends a run, also one whose request is still on its way.
func (c *conn) Cancel(req *CancelRequest, _ *Empty) error {
	if w, err := c.find(req.Handle); err == nil {
		w.cancel(req.ID)
	}
	return nil
}

// List lists regular files.
func (c *conn) List(req *ListRequest, reply *ListReply) (err error) {
	defer c.recovered(&err)
	w, err := c.find(req.Handle)
	if err != nil {
		return err
	}
	reply.Files, err = w.dir.List(req.Dir, req.Suffixes)
	return err
}

// Find lists regular files by their content.
func (c *conn) Find(req *FindRequest, reply *ListReply) (err error) {
	defer c.recovered(&err)
	w, err := c.find(req.Handle)
	if err != nil {
		return err
	}
	pattern, err := regexp.Compile(req.Pattern)
	if err != nil {
		return err
	}
	reply.Files, err = w.dir.Find(req.Dir, req.Suffixes, pattern)
	return err
}

// Remove removes files and folders.
func (c *conn) Remove(req *RemoveRequest, _ *Empty) (err error) {
	defer c.recovered(&err)
	w, err := c.find(req.Handle)
	if err != nil {
		return err
	}
	return w.dir.Remove(req.Paths...)
}

// Close ends the runs of a workspace and removes it. An unknown one is no error.
func (c *conn) Close(req *CloseRequest, _ *Empty) (err error) {
	defer c.recovered(&err)
	c.mu.Lock()
	w := c.workspaces[req.Handle]
	delete(c.workspaces, req.Handle)
	c.mu.Unlock()
	if w == nil {
		return nil
	}
	return w.close(errors.New("the workspace was closed"))
}

// Forget drops an owner's cache.
func (c *conn) Forget(req *ForgetRequest, _ *Empty) (err error) {
	defer c.recovered(&err)
	c.server.caches.forget(req.Owner)
	return nil
}

// ApplyCACerts replaces the certificates that tools trust besides the system's.
func (c *conn) ApplyCACerts(req *CACertsRequest, _ *Empty) (err error) {
	defer c.recovered(&err)
	return c.server.os.applyCACerts(req.PEM)
}

// ApplyProxy replaces the proxy variables of tools.
func (c *conn) ApplyProxy(req *Proxy, _ *Empty) (err error) {
	defer c.recovered(&err)
	c.server.os.applyProxy(*req)
	return nil
}

// Stats counts.
func (c *conn) Stats(_ *Empty, reply *Stats) error {
	*reply = c.server.stats()
	return nil
}

func (s *server) stats() Stats {
	st := Stats{
		Starts:     map[string]int64{},
		Workspaces: int(s.workspaces.Load()), Running: int(s.running.Load()), CacheBytes: s.caches.bytes(),
	}
	for name, n := range s.starts {
		if n := n.Load(); n > 0 {
			st.Starts[name] = n
		}
	}
	return st
}

// closeAll closes what the client left open.
func (c *conn) closeAll() {
	c.mu.Lock()
	c.closed = true
	left := c.workspaces
	c.workspaces = nil
	c.mu.Unlock()
	cause := context.Cause(c.ctx)
	var wg sync.WaitGroup
	for _, w := range left {
		wg.Go(func() {
			if err := w.close(cause); err != nil {
				c.server.log.Error("Cannot remove a workspace", "error", err)
			}
		})
	}
	wg.Wait()
}
