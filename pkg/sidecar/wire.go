package sidecar

import (
	"errors"
	"fmt"

	"github.com/garboard-dev/garboard/pkg/tool"
)

// Version is the version of the protocol between controller and sidecar. Both are
// the same binary; another version means that two images are mixed in one Pod.
const Version = 1

// service is the name of the receiver on the wire.
const service = "Sidecar"

// Sentinels that a caller may branch on.
var (
	// ErrNotAllowed means that the gate refused a command. Repeating it is useless.
	ErrNotAllowed = errors.New("not allowed")
	// ErrLimit means that a tool was ended because it printed or wrote too much.
	ErrLimit = errors.New("limit passed")
	// ErrLost means that the sidecar or the connection to it ended, and with it
	// the workspaces. The next reconcile works again.
	ErrLost = errors.New("the sidecar stopped or restarted")
)

// HelloRequest opens each connection.
type HelloRequest struct{ Version int }

// HelloReply answers it. Instance names the server process: another one has lost
// CA certificates, proxy and workspaces.
type HelloReply struct {
	Version  int
	Instance string
}

// OpenRequest asks for a workspace.
type OpenRequest struct{ Owner string }

// OpenReply has the handle that names it in all further requests.
type OpenReply struct{ Handle string }

// PutRequest writes files.
type PutRequest struct {
	Handle string
	Files  []tool.File
}

// RunRequest runs a tool. ID is chosen by the client and names the run to Cancel.
type RunRequest struct {
	Handle  string
	ID      uint64
	Command tool.Command
	// Keep has a standard output of more than tool.LargeOutput bytes stay here until
	// it is asked for or the workspace is closed.
	Keep bool
}

// RunReply is the outcome of a run; Failure is nil when the tool ran to its end.
type RunReply struct {
	Result  tool.Result
	Failure *Failure
	// Kept is the length of the standard output if that stayed.
	Kept int
}

// OutputRequest asks for what stayed of a run, once.
type OutputRequest struct {
	Handle string
	ID     uint64
}

// OutputReply has it.
type OutputReply struct{ Stdout []byte }

// Failure carries an error and what a caller may branch on.
type Failure struct {
	Text                string
	NotAllowed, Limited bool
}

// CancelRequest ends a run.
type CancelRequest struct {
	Handle string
	ID     uint64
}

// ListRequest asks for regular files below Dir.
type ListRequest struct {
	Handle   string
	Dir      string
	Suffixes []string
}

// FindRequest asks for those of a ListRequest in whose content Pattern matches, a
// regular expression of Go.
type FindRequest struct {
	ListRequest
	Pattern string
}

// ListReply has their paths, relative to the workspace.
type ListReply struct{ Files []string }

// RemoveRequest removes files and folders.
type RemoveRequest struct {
	Handle string
	Paths  []string
}

// CloseRequest removes a workspace.
type CloseRequest struct{ Handle string }

// ForgetRequest drops what is cached for an owner.
type ForgetRequest struct{ Owner string }

// CACertsRequest replaces the certificates that tools trust besides the system's.
type CACertsRequest struct{ PEM string }

// Proxy is what tools find in the proxy variables; an empty field clears its
// variable.
type Proxy struct{ HTTPProxy, HTTPSProxy, NoProxy string }

// Empty is a reply or request without content.
type Empty struct{}

// Stats counts what the sidecar did since its start.
type Stats struct {
	// Starts is the number of processes started, by tool. What a tool starts
	// itself is not counted.
	Starts map[string]int64
	// Workspaces and Running are what is open at the moment.
	Workspaces, Running int
	// CacheBytes is the size of all caches as last measured.
	CacheBytes int64
}

// failure wraps err for the wire.
func failure(err error) *Failure {
	if err == nil {
		return nil
	}
	return &Failure{
		Text:       err.Error(),
		NotAllowed: errors.Is(err, ErrNotAllowed),
		Limited:    errors.Is(err, ErrLimit) || errors.Is(err, tool.ErrTooMuchOutput),
	}
}

// remoteError is an error that came over the wire.
type remoteError struct {
	text string
	kind error
}

func (e *remoteError) Error() string { return e.text }
func (e *remoteError) Unwrap() error { return e.kind }

// err is the other end of failure. What the gate says gets the prefix of every
// failed call; the end of a tool is no fault of the call.
func (f *Failure) err() error {
	switch {
	case f == nil:
		return nil
	case f.NotAllowed:
		return internal(&remoteError{f.Text, ErrNotAllowed})
	case f.Limited:
		return &remoteError{f.Text, ErrLimit}
	default:
		return &remoteError{text: f.Text}
	}
}

// internal gives err the prefix by which users know a failed call to the sidecar.
func internal(err error) error { return fmt.Errorf("Internal run comm: %w", err) }
