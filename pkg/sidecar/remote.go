package sidecar

import (
	"context"
	"errors"
	"fmt"

	"github.com/garboard-dev/garboard/pkg/tool"
)

// Workspace is a temporary folder in the sidecar with the folders src, home and
// tmp in it. Paths are slash-separated and relative to it. It is safe for
// concurrent use.
type Workspace struct {
	client *Client
	link   *link
	handle string
}

// call is without a second try: another sidecar does not have this workspace.
func (w *Workspace) call(ctx context.Context, method string, req, reply any) error {
	err := w.link.call(ctx, method, req, reply)
	if errors.Is(err, ErrLost) {
		w.client.drop(w.link)
	}
	return err
}

// Put writes files with mode 0600 and makes their folders. What was there is
// replaced.
func (w *Workspace) Put(ctx context.Context, files []tool.File) error {
	if len(files) == 0 {
		return nil
	}
	return w.call(ctx, "Put", &PutRequest{w.handle, files}, &Empty{})
}

// Run runs a tool to its end. When ctx ends, the tool is ended and Run returns
// context.Cause(ctx) at once. A non-zero exit code is no error. Errors are
// ErrNotAllowed, ErrLimit or ErrLost where a caller may branch.
//
// Values of environment variables that are paths are relative to the workspace,
// as all paths; the tool sees them absolute. Path arguments are relative to
// c.Dir, where the tool runs.
func (w *Workspace) Run(ctx context.Context, c tool.Command) (tool.Result, error) {
	failed := tool.Result{ExitCode: -1}
	if ctx.Err() != nil {
		return failed, context.Cause(ctx)
	}
	id := w.client.runs.Add(1)
	var reply RunReply
	err := w.call(ctx, "Run", &RunRequest{Handle: w.handle, ID: id, Command: c, Keep: c.Admit != nil}, &reply)
	switch {
	case errors.Is(err, ErrLost):
		return failed, internal(fmt.Errorf("%w while %s ran", ErrLost, c.Name))
	case err != nil && ctx.Err() != nil:
		go w.link.Go(service+".Cancel", &CancelRequest{w.handle, id}, &Empty{}, nil)
		return failed, err
	case err != nil:
		return failed, err
	}
	if reply.Kept > 0 {
		if reply.Result.Stdout, err = w.receive(ctx, id, c, reply.Kept); err != nil {
			return failed, err
		}
	}
	return reply.Result, reply.Failure.err()
}

// receive gets the output of a run that stayed in the sidecar. One that is given up
// stays there until Close.
func (w *Workspace) receive(ctx context.Context, id uint64, c tool.Command, size int) ([]byte, error) {
	if err := c.Admit(ctx, size); err != nil {
		return nil, err
	}
	var reply OutputReply
	err := w.call(ctx, "Output", &OutputRequest{w.handle, id}, &reply)
	if errors.Is(err, ErrLost) {
		return nil, internal(fmt.Errorf("%w before the output of %s was received", ErrLost, c.Name))
	}
	return reply.Stdout, err
}

// List returns the regular files at and below dir whose names end with one of
// suffixes, sorted; no suffixes mean all. Links are not followed.
func (w *Workspace) List(ctx context.Context, dir string, suffixes []string) ([]string, error) {
	var reply ListReply
	err := w.call(ctx, "List", &ListRequest{w.handle, dir, suffixes}, &reply)
	if err != nil {
		return nil, err
	}
	return reply.Files, nil
}

// Find is List for files in whose first MiB pattern matches, a regular expression
// of Go.
func (w *Workspace) Find(ctx context.Context, dir string, suffixes []string, pattern string) ([]string, error) {
	var reply ListReply
	err := w.call(ctx, "Find", &FindRequest{ListRequest{w.handle, dir, suffixes}, pattern}, &reply)
	if err != nil {
		return nil, err
	}
	return reply.Files, nil
}

// Remove removes files and folders; a missing one is no error.
func (w *Workspace) Remove(ctx context.Context, paths []string) error {
	return w.call(ctx, "Remove", &RemoveRequest{w.handle, paths}, &Empty{})
}

// Close ends the runs of the workspace and removes it. It is sent even when ctx
// has ended; then Close does not wait for it. One whose sidecar is gone is removed
// by that, so it is no error.
func (w *Workspace) Close(ctx context.Context) error {
	err := w.call(ctx, "Close", &CloseRequest{w.handle}, &Empty{})
	if errors.Is(err, ErrLost) {
		return nil
	}
	return err
}
