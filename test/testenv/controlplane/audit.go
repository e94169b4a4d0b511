package controlplane

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// Audit reads the API server's audit log. It is safe for concurrent use.
type Audit struct {
	path string

	mu     sync.Mutex // guards what follows
	offset int64
	seen   map[string]bool
	events []Request
}

// Request is one request to the API server, as far as tests ask about it.
type Request struct {
	User      string
	UserAgent string
	// Verb is the Kubernetes verb: get, list, watch, create, update, patch, delete, deletecollection.
	Verb        string
	APIGroup    string
	Resource    string
	Subresource string
	Namespace   string
	Name        string
	URI         string
	// Code is the HTTP status of the answer; 0 when there was none yet.
	Code int
	Time time.Time
}

// Filter selects requests: empty fields select all.
type Filter struct {
	User, Verb, Resource, Subresource, Namespace, Name string
	// NoSubresource leaves out requests for any subresource.
	NoSubresource bool
	// Since leaves out what was received before.
	Since time.Time
}

// Matches says whether the filter selects the request.
func (f Filter) Matches(r Request) bool {
	same := func(want, got string) bool { return want == "" || want == got }
	return same(f.User, r.User) && same(f.Verb, r.Verb) && same(f.Resource, r.Resource) &&
		same(f.Subresource, r.Subresource) && same(f.Namespace, r.Namespace) && same(f.Name, r.Name) &&
		!(f.NoSubresource && r.Subresource != "") && !r.Time.Before(f.Since)
}

// NewAudit returns a reader of the log at path, which need not exist yet.
func NewAudit(path string) *Audit { return &Audit{path: path, seen: map[string]bool{}} }

// Requests returns the selected requests in the order in which they were logged.
// A request is logged when it has been answered, a watch when it starts. The
// control plane's own requests are not on record.
func (a *Audit) Requests(f Filter) ([]Request, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.read(); err != nil {
		return nil, fmt.Errorf("read audit log: %w", err)
	}
	var found []Request
	for _, r := range a.events {
		if f.Matches(r) {
			found = append(found, r)
		}
	}
	return found, nil
}

// Count returns how many requests the filter selects.
func (a *Audit) Count(f Filter) (int, error) {
	found, err := a.Requests(f)
	return len(found), err
}

// read takes what was logged since the last call.
func (a *Audit) read() error {
	f, err := os.Open(a.path)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Seek(a.offset, io.SeekStart); err != nil {
		return err
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	for {
		line, rest, whole := bytes.Cut(text, []byte("\n"))
		if !whole { // the server is in the middle of writing it
			return nil
		}
		a.offset += int64(len(line)) + 1
		text = rest
		if err := a.add(line); err != nil {
			return err
		}
	}
}

func (a *Audit) add(line []byte) error {
	var e struct {
		AuditID                  string
		Verb, UserAgent          string
		RequestURI               string
		RequestReceivedTimestamp time.Time
		User                     struct{ Username string }
		ObjectRef                struct{ APIGroup, Resource, Subresource, Namespace, Name string }
		ResponseStatus           struct{ Code int }
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return err
	}
	if a.seen[e.AuditID] { // a watch is logged at its start and at its end
		return nil
	}
	a.seen[e.AuditID] = true
	a.events = append(a.events, Request{
		User: e.User.Username, UserAgent: e.UserAgent, Verb: e.Verb, URI: e.RequestURI,
		APIGroup: e.ObjectRef.APIGroup, Resource: e.ObjectRef.Resource, Subresource: e.ObjectRef.Subresource,
		Namespace: e.ObjectRef.Namespace, Name: e.ObjectRef.Name,
		Code: e.ResponseStatus.Code, Time: e.RequestReceivedTimestamp,
	})
	return nil
}
