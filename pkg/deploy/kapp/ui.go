package kapp

import (
	"io"
	"strings"
	"sync"

	"github.com/cppforlife/go-cli-ui/ui"
	uitable "github.com/cppforlife/go-cli-ui/ui/table"

	"github.com/garboard-dev/garboard/pkg/deploy"
)

// output collects what a run prints, cleaned. Safe for concurrent use.
type output struct {
	mu       sync.Mutex // guards all below
	out, err deploy.Cleaner
	applying bool
	version  int // grows with each change
}

type outWriter struct{ o *output }

func (w outWriter) Write(b []byte) (int, error) {
	w.o.mu.Lock()
	defer w.o.mu.Unlock()
	w.o.out.Write(string(b))
	w.o.version++
	return len(b), nil
}

type errWriter struct{ o *output }

func (w errWriter) Write(b []byte) (int, error) {
	w.o.mu.Lock()
	defer w.o.mu.Unlock()
	w.o.err.Write(string(b))
	w.o.version++
	return len(b), nil
}

func (o *output) setApplying() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.applying = true
	o.version++
}

// progress returns the output so far and its version.
func (o *output) progress() (deploy.Progress, int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return deploy.Progress{
		Stdout:   stdinOrigin.Replace(o.out.String()),
		Stderr:   stdinOrigin.Replace(o.err.String()),
		Applying: o.applying,
	}, o.version
}

// stdinOrigin undoes the one difference that a manifest in memory makes to one
// on standard input: how kapp names where an object comes from.
var stdinOrigin = strings.NewReplacer("(file '"+manifestName+"' doc ", "(stdin doc ")

// runUI is kapp's user interface for one run. kapp's own is not made for
// several goroutines, yet warnings and logs come from goroutines of their own.
type runUI struct {
	out, err io.Writer
	phases   *phases
	mu       sync.Mutex
	conf     *ui.ConfUI // used with mu held
}

func newRunUI(out, err io.Writer, phases *phases) *runUI {
	u := &runUI{out: out, err: err, phases: phases}
	u.conf = ui.NewWrappingConfUI(u.base(), ui.NewNoopLogger())
	return u
}

func (u *runUI) base() ui.UI {
	return ui.NewPaddingUI(ui.NewWriterUI(u.out, u.err, ui.NewNoopLogger()))
}

// plain makes the output that of a pipe: data without decoration.
func (u *runUI) plain() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.conf = ui.NewWrappingConfUI(ui.NewNonTTYUI(u.base()), ui.NewNoopLogger())
}

func (u *runUI) ErrorLinef(pattern string, args ...any) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.conf.ErrorLinef(pattern, args...)
}

func (u *runUI) PrintLinef(pattern string, args ...any) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.conf.PrintLinef(pattern, args...)
}

func (u *runUI) BeginLinef(pattern string, args ...any) {
	u.phases.line(pattern)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.conf.BeginLinef(pattern, args...)
}

func (u *runUI) EndLinef(pattern string, args ...any) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.conf.EndLinef(pattern, args...)
}

func (u *runUI) PrintBlock(block []byte) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.conf.PrintBlock(block)
}

func (u *runUI) PrintErrorBlock(block string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.conf.PrintErrorBlock(block)
}

func (u *runUI) PrintTable(table uitable.Table) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.conf.PrintTable(table)
}

func (u *runUI) Flush() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.conf.Flush()
}

// Nobody is there to answer; every run says --yes.

func (u *runUI) AskForText(label string) (string, error) { return u.conf.AskForText(label) }
func (u *runUI) AskForChoice(label string, options []string) (int, error) {
	return u.conf.AskForChoice(label, options)
}
func (u *runUI) AskForPassword(label string) (string, error) { return u.conf.AskForPassword(label) }
func (u *runUI) AskForConfirmation() error                   { return u.conf.AskForConfirmation() }
func (u *runUI) IsInteractive() bool                         { return u.conf.IsInteractive() }
