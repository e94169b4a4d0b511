package kapp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/rest"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/tool"
)

// File descriptors that a child is given besides the usual three.
const (
	apiFD    = 3 // HTTP/2 requests to the API server; the parent adds credentials
	eventsFD = 4 // childEvents, one JSON document a line
)

// childRequest is a child's standard input. It holds no credentials.
type childRequest struct {
	Command         string
	Args            []string
	Host            string
	UserAgent       string
	App             string
	Namespace       string
	RecordNamespace string
	Manifest        []byte
}

// childEvent is what a child tells beside kapp's own output.
type childEvent struct {
	Applying bool                       `json:"applying,omitempty"`
	Waiting  *bool                      `json:"waiting,omitempty"`
	Change   *string                    `json:"change,omitempty"` // kapp recorded that it begins
	Ended    bool                       `json:"ended,omitempty"`
	ExitCode int                        `json:"exitCode,omitempty"`
	Kapp     *v1alpha1.KappDeployStatus `json:"kapp,omitempty"`
}

var errNoEnd = errors.New("kapp's process ended without a result")

// executeChild runs the command in a process of its own and returns what that
// reports. All its requests come back through this process, and so through the
// fence.
func (r *run) executeChild() (int, *v1alpha1.KappDeployStatus) {
	end, err := r.superviseChild()
	if err != nil {
		r.print(err)
		return 1, nil
	}
	return end.ExitCode, end.Kapp
}

func (r *run) superviseChild() (childEvent, error) {
	input, err := json.Marshal(childRequest{
		Command: r.job.command, Args: r.job.args, Host: r.deps.config.Host, UserAgent: r.deps.config.UserAgent,
		App: r.name, Namespace: r.deps.namespace, RecordNamespace: r.deps.records.namespace, Manifest: r.manifest,
	})
	if err != nil {
		return childEvent{}, err
	}
	proxy, err := r.proxy()
	if err != nil {
		return childEvent{}, err
	}
	defer proxy.Close()
	ours, theirs, err := socketPair()
	if err != nil {
		return childEvent{}, err
	}
	defer ours.Close()
	events, eventsEnd, err := os.Pipe()
	if err != nil {
		return childEvent{}, errors.Join(err, theirs.Close())
	}
	defer events.Close()

	cmd := exec.CommandContext(r.fence.ctx, r.child[0], r.child[1:]...)
	cmd.Env = []string{qualifiedNames + "=" + os.Getenv(qualifiedNames)}
	cmd.Stdin = bytes.NewReader(input)
	cmd.Stdout, cmd.Stderr = outWriter{r.out}, errWriter{r.out}
	cmd.ExtraFiles = []*os.File{theirs, eventsEnd}
	// The signal comes when the thread that started the child ends, so this
	// goroutine keeps its thread until the child is gone.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err = cmd.Start()
	err = errors.Join(err, theirs.Close(), eventsEnd.Close())
	if err != nil {
		return childEvent{}, fmt.Errorf("start kapp's process: %w", err)
	}
	go func() { _ = proxy.Serve(newOneConn(ours)) }()
	end := r.follow(events)
	if err := cmd.Wait(); err != nil || !end.Ended {
		return childEvent{}, errors.Join(errNoEnd, err)
	}
	return end, nil
}

// proxy passes the child's requests on to the API server.
func (r *run) proxy() (*http.Server, error) {
	target, err := url.Parse(r.deps.config.Host)
	if err != nil {
		return nil, err
	}
	// What fails here the child reports as what its run met.
	silent := log.New(io.Discard, "", 0)
	return &http.Server{
		Handler: &httputil.ReverseProxy{
			ErrorLog: silent,
			Rewrite: func(p *httputil.ProxyRequest) {
				p.Out.URL.Scheme, p.Out.URL.Host, p.Out.Host = target.Scheme, target.Host, ""
			},
			Transport:     r.fence,
			FlushInterval: -1,
		},
		ErrorLog:          silent,
		ReadHeaderTimeout: time.Minute,
		Protocols:         multiplexed(),
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
	}, nil
}

// maxStreams is more than kapp has requests under way.
const maxStreams = 1000

// multiplexed is the protocol for many requests over one plain connection.
func multiplexed() *http.Protocols {
	p := &http.Protocols{}
	p.SetUnencryptedHTTP2(true)
	return p
}

// oneConn is a listener that yields one connection.
type oneConn struct {
	conn   chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newOneConn(conn net.Conn) *oneConn {
	l := &oneConn{conn: make(chan net.Conn, 1), closed: make(chan struct{})}
	l.conn <- conn
	return l
}

func (l *oneConn) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *oneConn) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *oneConn) Addr() net.Addr { return &net.UnixAddr{Net: "unix"} }

// follow reads events to the last one.
func (r *run) follow(events io.Reader) childEvent {
	var last childEvent
	for lines := bufio.NewReader(events); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return last
		}
		var e childEvent
		if json.Unmarshal(line, &e) != nil {
			continue
		}
		switch {
		case e.Applying:
			r.out.setApplying()
		case e.Waiting != nil:
			r.ui.phases.set(*e.Waiting)
		case e.Change != nil:
			r.deps.records.beganIn(*e.Change)
		}
		last = e
	}
}

func socketPair() (net.Conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make socket pair: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "kapp"), os.NewFile(uintptr(fds[1]), "kapp child")
	defer ours.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	return conn, theirs, nil
}

// ChildMain runs kapp once, as the parent asks on standard input, and returns the
// exit code of this process: 0 also when kapp failed, which the parent is told.
func ChildMain(stdin io.Reader, stdout, stderr io.Writer) int {
	setVersion()
	if err := limitChild(); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	events := os.NewFile(eventsFD, "events")
	var mu sync.Mutex // kapp prints from several goroutines
	tell := func(e childEvent) {
		mu.Lock()
		defer mu.Unlock()
		_ = json.NewEncoder(events).Encode(e)
	}
	end, err := runChild(stdin, stdout, stderr, tell)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	end.Ended = true
	tell(end)
	return 0
}

// maxCPU is how many seconds a child may compute. Waiting is not counted.
const maxCPU = 600

// limitChild bounds what the code in a manifest's rules may take from others.
func limitChild() error {
	limits := map[int]uint64{unix.RLIMIT_CPU: maxCPU, unix.RLIMIT_DATA: uint64(tool.MemoryShare())}
	if raceEnabled {
		delete(limits, unix.RLIMIT_DATA) // the detector reserves terabytes
	}
	for resource, n := range limits {
		var old unix.Rlimit
		if err := unix.Getrlimit(resource, &old); err != nil {
			return fmt.Errorf("read limits: %w", err)
		}
		n = min(n, old.Max)
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: n, Max: n}); err != nil {
			return fmt.Errorf("set limits: %w", err)
		}
	}
	return nil
}

func runChild(stdin io.Reader, stdout, stderr io.Writer, tell func(childEvent)) (childEvent, error) {
	var req childRequest
	if err := json.NewDecoder(stdin).Decode(&req); err != nil {
		return childEvent{}, fmt.Errorf("read request: %w", err)
	}
	file := os.NewFile(apiFD, "api")
	conn, err := net.FileConn(file)
	if err != nil {
		return childEvent{}, fmt.Errorf("take connection: %w", err)
	}
	_ = file.Close()
	transport := &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil },
		Protocols:   multiplexed(),
	}
	api, err := transport.NewClientConn(context.Background(), "http", "parent:80")
	if err != nil {
		return childEvent{}, fmt.Errorf("use connection: %w", err)
	}
	u := newRunUI(stdout, stderr, &phases{
		applying: func() { tell(childEvent{Applying: true}) },
		waiting:  func(waiting bool) { tell(childEvent{Waiting: &waiting}) },
	})
	records := newRecords(req.RecordNamespace, req.App, newRecordMemo(), true)
	records.onBegin = func(change string) { tell(childEvent{Change: &change}) }
	deps := &depsFactory{
		config:    &rest.Config{Host: req.Host, UserAgent: req.UserAgent, QPS: -1},
		http:      &http.Client{Transport: childTransport{api, req.UserAgent}},
		namespace: req.Namespace,
		ui:        u,
		records:   records,
		types:     &runTypes{cluster: &clusterTypes{}},
		objects:   &objects{off: true},
		denied:    &denied{},
	}
	code := runCommand(job{command: req.Command, args: req.Args}, u, deps, req.Manifest)
	return childEvent{ExitCode: code, Kapp: records.status(code == 0)}, nil
}

// childTransport sends requests over the one connection to the parent.
type childTransport struct {
	conn  *http.ClientConn
	agent string
}

func (t childTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.URL.Scheme = "http" // the parent speaks TLS to the API server
	req.Header.Set("User-Agent", t.agent)
	return t.conn.RoundTrip(req)
}
