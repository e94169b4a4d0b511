package bench

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/garboard-dev/garboard/test/testenv"
)

// units are the two processes: the controller, then the sidecar.
func units() [2]*testenv.Unit { return [2]*testenv.Unit{garboard.Controller, garboard.Sidecar} }

func memory(b *testing.B) Memory {
	b.Helper()
	var peak [2]int64
	for i, u := range units() {
		var err error
		if peak[i], err = u.PeakRSS(); err != nil {
			b.Fatal(err)
		}
	}
	return Memory{Controller: peak[0], Sidecar: peak[1]}
}

// ticksPerSecond is the unit of times in /proc, the same on all platforms of Go.
const ticksPerSecond = 100

// ticks is the processor time of the controller, the sidecar and the control
// plane, with that of their ended children.
func ticks(b *testing.B) (out [3]int64) {
	b.Helper()
	for i, u := range units() {
		out[i] = ticksOf(b, u.PID())
	}
	for _, p := range env.Processes() {
		out[2] += ticksOf(b, p.PID())
	}
	return out
}

func ticksOf(b *testing.B, pid int) (sum int64) {
	b.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	// proc(5): utime, stime, cutime and cstime are fields 14 to 17, and state,
	// field 3, is the first here.
	for _, field := range strings.Fields(rest)[11:15] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		sum += n
	}
	return sum
}

// processorSeconds is what all of ticks have used in all. Unlike time it does not
// depend on what else the machine does.
func processorSeconds(b *testing.B) float64 {
	b.Helper()
	t := ticks(b)
	return float64(t[0]+t[1]+t[2]) / ticksPerSecond
}

func (m *meter) cpu(per float64) CPU {
	now := ticks(m.B)
	spent := func(i int) float64 { return float64(now[i]-m.ticked[i]) / ticksPerSecond / per }
	return CPU{Controller: spent(0), Sidecar: spent(1), ControlPlane: spent(2)}
}

// starting is how often each tool was started so far.
func starting(b *testing.B) map[string]int64 {
	b.Helper()
	s, err := tools.Stats(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return s.Starts
}

func (m *meter) starts(per float64) map[string]float64 {
	out := map[string]float64{}
	for name, n := range starting(m.B) {
		if more := n - m.ran[name]; more > 0 {
			out[name] = float64(more) / per
		}
	}
	return out
}
