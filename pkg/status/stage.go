// Package status turns what happened, stage by stage, into what a user reads.
// It is pure: values in, values out.
package status

import (
	"errors"
	"time"

	"github.com/garboard-dev/garboard/pkg/tool"
)

// Stage is the outcome of one stage: fetch, template, deploy, delete or inspect.
type Stage struct {
	Stdout, Stderr string
	// ExitCode is 0 on success and -1 for a failure without an exit code.
	ExitCode int
	// Err is the whole error text with the stage's prefix; empty on success.
	Err string
	// StartedAt and EndedAt are set by the caller of the stage.
	StartedAt, EndedAt time.Time
}

// Failed says whether the stage failed.
func (s Stage) Failed() bool { return s.Err != "" }

// Took returns how long the stage ran; a stage that did not run, nil, took nothing.
func (s *Stage) Took() time.Duration {
	if s == nil {
		return 0
	}
	return s.EndedAt.Sub(s.StartedAt)
}

// seeUseful replaces an exit status 1, which says nothing by itself.
const seeUseful = "Error (see .status.usefulErrorMessage for details)"

// FromRun makes the outcome of a stage from its run. prefix is the stage's text up to
// and with the colon and space, such as "Templating dir: ". err is what kept the tool
// from running to its end, or nil.
func FromRun(prefix string, res tool.Result, err error) Stage {
	s := Stage{Stdout: string(res.Stdout), Stderr: string(res.Stderr)}
	if err == nil {
		err = res.Err()
	}
	return s.Fail(prefix, err)
}

// Fail returns s with err attached; a nil err leaves it a success.
func (s Stage) Fail(prefix string, err error) Stage {
	if err == nil {
		return s
	}
	text := err.Error()
	if text == "exit status 1" {
		text = seeUseful
	}
	s.Err, s.ExitCode = prefix+text, -1
	if exit := (*tool.ExitError)(nil); errors.As(err, &exit) {
		s.ExitCode = exit.Code
	}
	return s
}

// Useful is the text for usefulErrorMessage: what the tool printed, else the error.
func (s Stage) Useful() string {
	if s.Stderr != "" {
		return s.Stderr
	}
	return s.Err
}
