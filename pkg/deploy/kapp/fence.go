package kapp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// refusal answers a request of a run that was ended. Forbidden is what makes
// kapp give up: most other errors it tries again for a minute.
const (
	refusalMessage = "this run was canceled"
	refusal        = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",` +
		`"message":"` + refusalMessage + `","reason":"Forbidden","code":403}`
)

// isRefusal says whether err comes from a closed fence.
func isRefusal(err error) bool {
	s := apierrors.APIStatus(nil)
	return errors.As(err, &s) && s.Status().Message == refusalMessage
}

// fence stands between one run of kapp, which knows no cancellation, and the
// API server. Once closed it lets nothing pass, so the run has no effect any
// more, however long its goroutines take to notice.
type fence struct {
	next http.RoundTripper
	// ctx ends what only reads, such as a followed log. A write that was sent is
	// left to finish: its outcome would not be known otherwise.
	ctx  context.Context //nolint:containedctx // the fence is the life of a run
	stop context.CancelFunc

	mu     sync.Mutex // guards all below
	closed bool
	writes int
	idle   chan struct{} // closed when the fence is closed and no write is under way
}

func newFence(next http.RoundTripper) *fence {
	f := &fence{next: next, idle: make(chan struct{})}
	f.ctx, f.stop = context.WithCancel(context.Background())
	return f
}

// RoundTrip sends req if the fence is open.
func (f *fence) RoundTrip(req *http.Request) (*http.Response, error) {
	write := req.Method != http.MethodGet && req.Method != http.MethodHead
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return refuse(req), nil
	}
	if write {
		f.writes++
	}
	f.mu.Unlock()

	if !write {
		return f.next.RoundTrip(req.WithContext(f.ctx))
	}
	defer f.wrote()
	return f.next.RoundTrip(req)
}

func (f *fence) wrote() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writes--
	if f.closed && f.writes == 0 {
		close(f.idle)
	}
}

// Close refuses all further requests. Idle is closed once none is under way.
func (f *fence) Close() {
	f.stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	f.closed = true
	if f.writes == 0 {
		close(f.idle)
	}
}

// Idle is closed when the run can change nothing any more.
func (f *fence) Idle() <-chan struct{} { return f.idle }

func refuse(req *http.Request) *http.Response {
	return &http.Response{
		Status: "403 Forbidden", StatusCode: http.StatusForbidden,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        http.Header{"Content-Type": {"application/json"}, "Content-Length": {strconv.Itoa(len(refusal))}},
		Body:          io.NopCloser(bytes.NewReader([]byte(refusal))),
		ContentLength: int64(len(refusal)),
		Request:       req,
	}
}
