package status

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
)

// Event is what is told about an object when its outcome changes.
type Event struct {
	Warning bool
	Reason  string
	// Text is one line of at most maxEventText bytes, without times: the same
	// outcome has the same text.
	Text string
	// Known says that another outcome is known to have been before. Otherwise the
	// run before was cut off, and this event may have been told already.
	Known bool
}

// maxEventText is below the 1024 bytes that the API takes.
const maxEventText = 1000

// Transition returns the event for an App whose status was old before a run and
// is next after it. There is none while the outcome stays what it was: not for a
// failure with the same cause, and not for another success of one generation.
func Transition(old, next v1alpha1.AppStatus) (Event, bool) {
	was, is := outcomeOf(old), outcomeOf(next)
	same := was == is && old.ObservedGeneration == next.ObservedGeneration
	e := Event{Reason: string(is), Known: was != ""}
	switch is {
	case v1alpha1.ReconcileSucceeded:
		e.Text = descSucceeded
		return e, !same
	case v1alpha1.ReconcileFailed, v1alpha1.DeleteFailed:
		e.Warning, e.Text = true, cause(next)
		return e, !same || digits(cause(old)) != digits(e.Text)
	}
	return Event{}, false
}

// outcomeOf returns the condition type that a run ended with, "" if none has.
func outcomeOf(s v1alpha1.AppStatus) v1alpha1.ConditionType {
	for _, t := range []v1alpha1.ConditionType{v1alpha1.ReconcileSucceeded, v1alpha1.ReconcileFailed, v1alpha1.DeleteFailed} {
		if Has(s.GenericStatus, t) {
			return t
		}
	}
	return ""
}

// cause is why a run failed, in one line: the condition's message, with the
// tool's own words in place of the hint to look for them.
func cause(s v1alpha1.AppStatus) string {
	text := ""
	for _, c := range s.Conditions {
		text = c.Message
	}
	if prefix, ok := strings.CutSuffix(text, seeUseful); ok {
		text = prefix + lastError(s.UsefulErrorMessage)
	}
	text = withoutTimes(strings.Join(strings.Fields(text), " "))
	if len(text) <= maxEventText {
		return text
	}
	end := maxEventText - len("...")
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "..."
}

// lastError returns what a tool printed from its last line that begins an error,
// or all of it.
func lastError(output string) string {
	at := strings.LastIndex(output, ": Error:")
	if at < 0 {
		return output
	}
	return output[strings.LastIndexByte(output[:at], '\n')+1:]
}

var (
	// times are points in time and durations as Go and kapp print them.
	times = regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?|\b\d{1,2}:\d\d:\d\d(?:AM|PM)?\b|\b(?:\d+(?:\.\d+)?(?:h|m|s|ms|µs|us|ns))+\b`)
	// quantity is what looks like minutes and is thousandths, as in cpu: 100m.
	quantity = regexp.MustCompile(`^\d+m$`)
	number   = regexp.MustCompile(`\d+`)
)

func withoutTimes(text string) string {
	return times.ReplaceAllStringFunc(text, func(found string) string {
		if quantity.MatchString(found) {
			return found
		}
		return "(time)"
	})
}

// digits makes texts equal that differ only in numbers, such as the port of a
// connection or the number of a try: these are no other cause.
func digits(text string) string { return number.ReplaceAllString(text, "#") }
