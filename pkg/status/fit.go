package status

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
)

// DefaultBudget is how many bytes the texts of one status may take on the wire.
// etcd refuses objects above about 1.5 MiB; a status that cannot be written
// would lose the outcome, so it stays far below.
const DefaultBudget = 256 << 10

// maxMessage bounds the texts that clients show in one line or column.
const maxMessage = 8 << 10

// FitApp returns s with its texts cut to budget bytes in all. Long outputs lose
// their beginning, as the end tells how a tool ended; short ones stay whole.
// What is cut is said in the text. Everything is valid UTF-8 afterwards.
func FitApp(s v1alpha1.AppStatus, budget int) v1alpha1.AppStatus {
	s = *s.DeepCopy()
	for _, p := range messages(&s) {
		*p = head(strings.ToValidUTF8(*p, "\uFFFD"), min(maxMessage, budget/8))
	}
	outputs := outputs(&s)
	for _, p := range outputs {
		*p = strings.ToValidUTF8(*p, "\uFFFD")
	}
	limit := share(outputs, budget-sizes(messages(&s)))
	for _, p := range outputs {
		*p = tail(*p, limit)
	}
	return s
}

func messages(s *v1alpha1.AppStatus) []*string {
	ps := []*string{&s.FriendlyDescription}
	for i := range s.Conditions {
		ps = append(ps, &s.Conditions[i].Message)
	}
	if s.Fetch != nil {
		ps = append(ps, &s.Fetch.Error)
	}
	if s.Template != nil {
		ps = append(ps, &s.Template.Error)
	}
	if s.Deploy != nil {
		ps = append(ps, &s.Deploy.Error)
	}
	if s.Inspect != nil {
		ps = append(ps, &s.Inspect.Error)
	}
	return ps
}

func outputs(s *v1alpha1.AppStatus) []*string {
	ps := []*string{&s.UsefulErrorMessage}
	if s.Fetch != nil {
		ps = append(ps, &s.Fetch.Stdout, &s.Fetch.Stderr)
	}
	if s.Template != nil {
		ps = append(ps, &s.Template.Stderr)
	}
	if s.Deploy != nil {
		ps = append(ps, &s.Deploy.Stdout, &s.Deploy.Stderr)
	}
	if s.Inspect != nil {
		ps = append(ps, &s.Inspect.Stdout, &s.Inspect.Stderr)
	}
	return ps
}

// share returns the largest limit for which the texts, each cut to it, fit into budget.
func share(texts []*string, budget int) int {
	lens := make([]int, 0, len(texts))
	for _, p := range texts {
		lens = append(lens, encoded(*p))
	}
	slices.Sort(lens)
	for i, n := range lens {
		rest := len(lens) - i
		if n*rest > budget {
			return max(budget/rest, 0)
		}
		budget -= n
	}
	return math.MaxInt
}

func sizes(texts []*string) (n int) {
	for _, p := range texts {
		n += encoded(*p)
	}
	return n
}

// encoded is the length of s as a JSON string, which is what the API server and
// etcd count.
func encoded(s string) int {
	n := 2
	for _, r := range s {
		n += encodedRune(r)
	}
	return n
}

// encodedRune is the length of r inside a JSON string as encoding/json writes it.
func encodedRune(r rune) int {
	switch {
	case r == '"', r == '\\', r == '\n', r == '\r', r == '\t', r == '\b', r == '\f':
		return 2
	case r < 0x20, r == '<', r == '>', r == '&', r == '\u2028', r == '\u2029', r == utf8.RuneError:
		return 6
	default:
		return utf8.RuneLen(r)
	}
}

const tailMarker = "[output truncated: %d bytes]\n"

// tail returns the end of s in at most limit encoded bytes, beginning with a
// whole line if there is one, behind a line that says how much is missing.
func tail(s string, limit int) string {
	if s == "" || len(s) < limit/6 || encoded(s) <= limit {
		return s
	}
	room := limit - len(tailMarker) - 24 // the number, quotes and the escaped line end
	start := suffix(s, room)
	if line := strings.IndexByte(s[start:], '\n'); start > 0 && s[start-1] != '\n' && line >= 0 && start+line+1 < len(s) {
		start += line + 1
	}
	return fmt.Sprintf(tailMarker, start) + s[start:]
}

// suffix returns the start of the longest suffix of s that takes at most room
// encoded bytes and begins on a rune.
func suffix(s string, room int) int {
	start := len(s)
	for start > 0 {
		r, size := utf8.DecodeLastRuneInString(s[:start])
		if room -= encodedRune(r); room < 0 {
			break
		}
		start -= size
	}
	return start
}

// head returns the beginning of s in at most about limit encoded bytes.
func head(s string, limit int) string {
	room := limit
	for end, r := range s {
		if room -= encodedRune(r); room < 0 {
			return s[:end] + fmt.Sprintf("... (%d bytes more)", len(s)-end)
		}
	}
	return s
}
