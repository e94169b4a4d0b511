package sidecar

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/rpc"
	"sync/atomic"
	"syscall"
	"time"
)

// dialPatience is how long a call waits for a sidecar that is not there: both
// containers start together, and a killed one is back within seconds.
const dialPatience = 5 * time.Second

// Client talks to a sidecar. It connects with the first call, and anew after the
// connection broke. It is safe for concurrent use; all share one connection.
//
// Each error has the text "Internal run comm: " and what happened, except for
// context.Cause of a context that ended and for a tool that passed a limit.
type Client struct {
	socket string
	runs   atomic.Uint64

	// lock is held by whoever reads or changes the fields below. It is a channel
	// so that waiting for it ends with a context.
	lock chan struct{}
	link *link
	// pem and proxy are what was applied last, for a sidecar that lost it.
	pem   *string
	proxy *Proxy
	// applied is the instance that has pem and proxy.
	applied string
}

// link is one connection.
type link struct {
	*rpc.Client
}

// NewClient makes a client for the sidecar at socket. It does not connect yet.
func NewClient(socket string) *Client {
	return &Client{socket: socket, lock: make(chan struct{}, 1)}
}

// Shutdown closes the connection, which ends all runs and removes all workspaces.
// A later call connects again.
func (c *Client) Shutdown() error {
	c.lock <- struct{}{}
	defer func() { <-c.lock }()
	if c.link == nil {
		return nil
	}
	l := c.link
	c.link = nil
	return l.Close()
}

// Instance connects and returns the name of the server process. It also shows that
// the sidecar answers.
func (c *Client) Instance(ctx context.Context) (string, error) {
	var reply HelloReply
	err := c.again(ctx, "Hello", &HelloRequest{Version}, &reply)
	return reply.Instance, err
}

// Open makes a workspace for owner, an opaque id. It lasts until Close or until
// the connection ends.
func (c *Client) Open(ctx context.Context, owner string) (*Workspace, error) {
	var w *Workspace
	err := c.retry(ctx, func(l *link) error {
		reply := &OpenReply{}
		err := l.callOr(ctx, "Open", &OpenRequest{owner}, reply, func() {
			// Nobody knows this workspace, so nobody else would close it.
			l.Go(service+".Close", &CloseRequest{reply.Handle}, &Empty{}, nil)
		})
		if err == nil {
			w = &Workspace{client: c, link: l, handle: reply.Handle}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return w, nil
}

// Forget drops what is cached for owner.
func (c *Client) Forget(ctx context.Context, owner string) error {
	return c.again(ctx, "Forget", &ForgetRequest{owner}, &Empty{})
}

// ApplyCACerts makes tools trust the certificates in pem besides the system's, for
// as long as this client lives: a restarted sidecar gets them again. An empty pem
// goes back to the system's.
func (c *Client) ApplyCACerts(ctx context.Context, pem string) error {
	if err := c.remember(ctx, func() { c.pem = &pem }); err != nil {
		return err
	}
	return c.again(ctx, "ApplyCACerts", &CACertsRequest{pem}, &Empty{})
}

// ApplyProxy sets the proxy variables of tools, for as long as this client lives.
func (c *Client) ApplyProxy(ctx context.Context, p Proxy) error {
	if err := c.remember(ctx, func() { c.proxy = &p }); err != nil {
		return err
	}
	return c.again(ctx, "ApplyProxy", &p, &Empty{})
}

// Stats returns what the sidecar counted.
func (c *Client) Stats(ctx context.Context) (Stats, error) {
	var reply Stats
	err := c.again(ctx, "Stats", &Empty{}, &reply)
	return reply, err
}

func (c *Client) acquire(ctx context.Context) error {
	select {
	case c.lock <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *Client) remember(ctx context.Context, set func()) error {
	if err := c.acquire(ctx); err != nil {
		return err
	}
	set()
	<-c.lock
	return nil
}

// again calls a method that may be repeated.
func (c *Client) again(ctx context.Context, method string, req, reply any) error {
	return c.retry(ctx, func(l *link) error { return l.call(ctx, method, req, reply) })
}

// retry calls fn, and once more on a new connection when the old one was broken.
func (c *Client) retry(ctx context.Context, fn func(*link) error) error {
	for second := false; ; second = true {
		l, err := c.connect(ctx)
		if err != nil {
			return err
		}
		if err = fn(l); !errors.Is(err, ErrLost) {
			return err
		}
		c.drop(l)
		if second {
			return err
		}
	}
}

// drop forgets a broken connection.
func (c *Client) drop(l *link) {
	c.lock <- struct{}{}
	defer func() { <-c.lock }()
	if c.link == l {
		c.link = nil
	}
	_ = l.Close() // it is broken
}

// connect returns the connection, a new one where there is none.
func (c *Client) connect(ctx context.Context) (*link, error) {
	if err := c.acquire(ctx); err != nil {
		return nil, err
	}
	defer func() { <-c.lock }()
	if c.link != nil {
		return c.link, nil
	}
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	l := &link{Client: rpc.NewClient(conn)}
	if err := c.greet(ctx, l); err != nil {
		_ = l.Close() // err says more
		return nil, err
	}
	c.link = l
	return l, nil
}

// dial waits for a sidecar that is not there yet.
func (c *Client) dial(ctx context.Context) (net.Conn, error) {
	patience, cancel := context.WithTimeout(ctx, dialPatience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", c.socket)
		if err == nil {
			return conn, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if !errors.Is(err, syscall.ENOENT) && !errors.Is(err, syscall.ECONNREFUSED) {
			return nil, internal(fmt.Errorf("cannot reach the sidecar: %w", err))
		}
		select {
		case <-tick.C:
		case <-patience.Done():
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			return nil, internal(fmt.Errorf("the sidecar does not run: %w", err))
		}
	}
}

// greet compares versions, and gives a sidecar that has lost it what it needs
// before anyone uses it.
func (c *Client) greet(ctx context.Context, l *link) error {
	var hello HelloReply
	if err := l.call(ctx, "Hello", &HelloRequest{Version}, &hello); err != nil {
		return err
	}
	if hello.Version != Version {
		return internal(fmt.Errorf("the controller speaks protocol version %d and the sidecar %d: both must run the same image", Version, hello.Version))
	}
	if hello.Instance != c.applied {
		if c.pem != nil {
			if err := l.call(ctx, "ApplyCACerts", &CACertsRequest{*c.pem}, &Empty{}); err != nil {
				return err
			}
		}
		if c.proxy != nil {
			if err := l.call(ctx, "ApplyProxy", c.proxy, &Empty{}); err != nil {
				return err
			}
		}
		c.applied = hello.Instance
	}
	return nil
}

// call returns as soon as ctx ends, with its cause; the request is sent in any
// case. reply must not be used after an error: it may still be written to.
func (l *link) call(ctx context.Context, method string, req, reply any) error {
	return l.callOr(ctx, method, req, reply, func() {})
}

// callOr is call, and calls late if the request succeeds after ctx ended.
func (l *link) callOr(ctx context.Context, method string, req, reply any, late func()) error {
	done := make(chan *rpc.Call, 1)
	go l.Go(service+"."+method, req, reply, done) // may block when the sidecar does not read
	var call *rpc.Call
	select {
	case call = <-done:
	case <-ctx.Done():
		go func() {
			if call := <-done; call.Error == nil {
				late()
			}
		}()
		return context.Cause(ctx)
	}
	var remote rpc.ServerError
	switch err := call.Error; {
	case err == nil:
		return nil
	case errors.As(err, &remote):
		return internal(errors.New(string(remote)))
	case errors.Is(err, rpc.ErrShutdown), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), errors.As(err, new(*net.OpError)):
		return internal(ErrLost)
	default:
		return internal(fmt.Errorf("%s: %w", method, err))
	}
}
