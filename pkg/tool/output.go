package tool

import (
	"bytes"
	"fmt"
	"io"
)

// capped keeps up to max bytes and calls over once, at the first byte too many.
// One goroutine writes.
type capped struct {
	buf  bytes.Buffer
	max  int
	full bool
	over func()
}

var _ io.Writer = (*capped)(nil)

func (c *capped) Write(p []byte) (int, error) {
	if c.full {
		return 0, ErrTooMuchOutput
	}
	if c.buf.Len()+len(p) > c.max {
		c.buf.Write(p[:c.max-c.buf.Len()])
		c.full = true
		c.over()
		// The error ends the copying, so that the tool cannot go on printing.
		return 0, ErrTooMuchOutput
	}
	return c.buf.Write(p)
}

// tail keeps the last max bytes. One goroutine writes.
type tail struct {
	buf     []byte
	max     int
	dropped int
}

func (t *tail) Write(p []byte) (int, error) {
	t.buf = append(t.buf, p...)
	// Twice the size before cutting: each byte is moved once at most.
	if len(t.buf) > 2*t.max {
		t.cut()
	}
	return len(p), nil
}

func (t *tail) cut() {
	if n := len(t.buf) - t.max; n > 0 {
		t.dropped += n
		t.buf = append(t.buf[:0], t.buf[n:]...)
	}
}

// bytes is what is left, with a line in front when something was dropped.
func (t *tail) bytes() []byte {
	t.cut()
	if t.dropped == 0 {
		return t.buf
	}
	return append(fmt.Appendf(nil, "[%d bytes left out]\n", t.dropped), t.buf...)
}
