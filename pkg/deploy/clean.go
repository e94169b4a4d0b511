package deploy

import (
	"bytes"
	"fmt"
	"strings"
)

// maxOutput is how many bytes of output are kept, from its end. A deploy may follow
// the logs of a Pod that never stops printing.
const maxOutput = 1 << 20

// Cleaner drops blank lines and the blanks at the ends of lines from output as it
// comes, and keeps the last MiB of it. The zero value is ready.
type Cleaner struct {
	done    []byte
	open    []byte // the last line, not ended yet
	dropped int    // bytes that were in front of done
}

const blank = " \t\n\f\r"

// Write adds output.
func (c *Cleaner) Write(output string) {
	for {
		i := strings.IndexByte(output, '\n')
		if i < 0 {
			c.open = append(c.open, output...)
			c.open = c.last(c.open)
			return
		}
		c.line(append(c.open, output[:i]...))
		c.open, output = c.open[:0], output[i+1:]
	}
}

func (c *Cleaner) line(b []byte) {
	b = bytes.TrimRight(b, blank)
	if len(c.done) == 0 {
		b = bytes.TrimSpace(b)
	}
	if len(b) == 0 {
		return
	}
	if len(c.done) > 0 {
		c.done = append(c.done, '\n')
	}
	c.done = append(c.done, b...)
	c.done = c.last(c.done)
}

// last cuts b to the lines in its last MiB, once it is twice as long: so each byte
// is moved once at most.
func (c *Cleaner) last(b []byte) []byte {
	if len(b) <= 2*maxOutput {
		return b
	}
	start := len(b) - maxOutput
	if i := bytes.IndexByte(b[start:], '\n'); i >= 0 && start+i+1 < len(b) {
		start += i + 1
	}
	c.dropped += start
	return append(b[:0], b[start:]...)
}

// String is all output so far that was kept, behind a line that says how much was not.
func (c *Cleaner) String() string {
	var out strings.Builder
	if c.dropped > 0 {
		fmt.Fprintf(&out, "[output truncated: %d bytes]\n", c.dropped)
	}
	out.Write(c.done)
	switch {
	case len(bytes.TrimSpace(c.open)) == 0:
	case len(c.done) == 0:
		out.Write(bytes.TrimSpace(c.open))
	default:
		out.WriteByte('\n')
		out.Write(bytes.TrimRight(c.open, blank))
	}
	return out.String()
}
