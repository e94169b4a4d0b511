package kapp

import (
	"strings"
	"sync"
)

// kapp's sections, as they are in the patterns of the lines that begin them. Text
// of users and Pods is an argument, never a pattern.
const (
	applyingSection = "M: ---- applying "
	waitingSection  = "M: ---- waiting on "
)

// phases follows what kapp is about: it compares, applies what may be applied now,
// waits for some of that, and so on.
type phases struct {
	// applying is called when kapp begins to change the cluster. May repeat.
	applying func()
	// waiting is called with false before kapp first changes the cluster, and then
	// with whether it only waits, when that changes. May be nil.
	waiting func(bool)

	mu    sync.Mutex // guards all below; held while calling, so that no call is late
	told  bool       // waiting was called
	now   bool       // what with, the last time
	ended bool
}

// line takes the pattern of a line that kapp prints.
func (p *phases) line(pattern string) {
	switch {
	case strings.Contains(pattern, applyingSection):
		p.applying()
		p.set(false)
	case strings.Contains(pattern, waitingSection):
		p.set(true)
	}
}

func (p *phases) set(waiting bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting == nil || p.ended || p.told && p.now == waiting {
		return
	}
	p.told, p.now = true, waiting
	p.waiting(waiting)
}

// end keeps a run that nobody waits for from telling anything.
func (p *phases) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
}
