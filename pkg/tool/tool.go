// Package tool holds the values that say which tool to run and what came of it.
// They cross the wire to the sidecar, so they are plain data.
package tool

import (
	"context"
	"fmt"
)

// Command is one run of a tool.
type Command struct {
	// Name is the tool's base name, such as ytt; never a path.
	Name string
	Args []string
	// Stdin is all of standard input; nil is empty.
	Stdin []byte
	// Env is added to the fixed environment that the runner gives, as KEY=value.
	Env []string
	// Dir is the working directory, slash-separated and relative to the
	// workspace; empty is the workspace itself.
	Dir string
	// Cache says what of an earlier run for the same owner with the same input may
	// be used again.
	Cache Cache
	// Admit, if set, is called with the length of a standard output of more than
	// LargeOutput bytes before that is received, and may wait for room for it. An
	// error gives the output up. It stays on this side of the wire.
	Admit func(ctx context.Context, n int) error
}

// LargeOutput is the length of a standard output from which on Admit is asked.
const LargeOutput = 1 << 20

// Cache says what may be kept of a run.
type Cache int

const (
	// CacheNothing is for input that may give something else next time.
	CacheNothing Cache = iota
	// CacheParts lets the tool itself keep what it knows to be immutable.
	CacheParts
	// CacheAll is for input that always gives the same: what the run printed and
	// left in Dir is given again, and the tool does not run.
	CacheAll
)

// Result is what a tool printed and how it ended. A tool that exits non-zero has
// a Result like any other; an error beside it means that it did not run to its end.
type Result struct {
	Stdout, Stderr []byte
	// ExitCode is 0 on success and -1 when a signal ended the tool.
	ExitCode int
}

// Err returns nil for exit code 0 and an *ExitError otherwise.
func (r Result) Err() error {
	if r.ExitCode == 0 {
		return nil
	}
	return &ExitError{Code: r.ExitCode}
}

// ExitError is a non-zero exit code.
type ExitError struct{ Code int }

// Error has the text of os/exec, which status texts are built on.
func (e *ExitError) Error() string {
	if e.Code < 0 {
		return "signal: killed"
	}
	return fmt.Sprintf("exit status %d", e.Code)
}

// File is a file to write into a workspace.
type File struct {
	// Path is slash-separated and relative to the workspace.
	Path    string
	Content []byte
}
