package resolve

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/carvel-dev/semver/v4"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
)

// maxName is the longest name that Similar looks at: its time grows with the square,
// and no Package has a longer one.
const maxName = 253

// maxListed bounds how many versions an error tells about.
const maxListed = 10

var errNoSelection = errors.New("Expected non-empty version selection")

// nothing is the error of a choice that no version is left of.
func (f *filters) nothing() error {
	var b strings.Builder
	fmt.Fprintf(&b, "Expected to find at least one version, but did not (details: %s)", strings.Join(f.details, " -> "))
	slices.SortStableFunc(f.list, func(x, y candidate) int { return y.parsed.Compare(x.parsed) })
	lines := make([]string, 0, len(f.list)+len(f.broken))
	for _, c := range f.list {
		lines = append(lines, fmt.Sprintf("- %s: %s", shortened(c.Version), shortened(c.dropped)))
	}
	for _, v := range f.broken {
		lines = append(lines, fmt.Sprintf("- %s: not a semantic version", shortened(v)))
	}
	more := len(lines) - maxListed
	for _, line := range lines[:min(len(lines), maxListed)] {
		b.WriteString("\n" + line)
	}
	if more > 0 {
		fmt.Fprintf(&b, "\n- and %d more", more)
	}
	return errors.New(b.String())
}

// shortened bounds what others wrote, on a rune border.
func shortened(text string) string {
	const limit = 200
	if len(text) <= limit {
		return text
	}
	cut := 0
	for i := range text {
		if i > limit {
			break
		}
		cut = i
	}
	return text[:cut] + "..."
}

func quoted(list []string) string {
	var b strings.Builder
	for i, s := range list {
		if i == maxListed {
			b.WriteString(", ...")
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "'%s'", s)
	}
	return b.String()
}

// Downgrade returns what a user reads when chosen is lower than the version that
// was installed or tried last; empty when it is not, or when last is empty. A last
// version that cannot be read forbids nothing.
func Downgrade(chosen, last string) string {
	from, errFrom := semver.Parse(strings.TrimPrefix(last, "v"))
	to, errTo := semver.Parse(strings.TrimPrefix(chosen, "v"))
	if last == "" || errFrom != nil || errTo != nil || to.Compare(from) >= 0 {
		return ""
	}
	return fmt.Sprintf("Stopped installing matched version '%s' since last attempted version '%s' is higher.\n"+
		"hint: Add annotation packaging.carvel.dev/downgradable: \"\" to PackageInstall to proceed with downgrade", chosen, last)
}

// Accepts says whether the user's selection, and nothing else, lets version in.
func Accepts(s *v1alpha1.VersionSelectionSemver, version string) bool {
	_, err := Choose(Request{Candidates: []Candidate{{Version: version}}, Selection: s})
	return err == nil
}

// Similar returns the names that name may be a misspelling of, the closest first,
// three at most.
func Similar(name string, names []string) []string {
	const most = 3
	type match struct {
		name     string
		distance int
	}
	var found []match
	if len(name) > maxName {
		return nil
	}
	limit := max(2, len(name)/5)
	for _, n := range names {
		d := limit + 1
		if abs(len(n)-len(name)) <= limit {
			d = distance(name, n, limit)
		}
		// The same name in another domain is a frequent mistake, and so is a part of it.
		if first, _, _ := strings.Cut(n, "."); d > limit && len(first) > 2 && first == firstPart(name) {
			d = limit
		}
		if d <= limit {
			found = append(found, match{n, d})
		}
	}
	slices.SortFunc(found, func(x, y match) int {
		if x.distance != y.distance {
			return x.distance - y.distance
		}
		return strings.Compare(x.name, y.name)
	})
	var out []string
	for _, m := range found {
		if !slices.Contains(out, m.name) && len(out) < most {
			out = append(out, m.name)
		}
	}
	return out
}

func firstPart(name string) string {
	first, _, _ := strings.Cut(name, ".")
	return first
}

func abs(n int) int { return max(n, -n) }

// distance is the number of bytes to insert, delete or replace, or more than limit.
func distance(a, b string, limit int) int {
	prev, cur := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := range len(a) {
		cur[0] = i + 1
		least := cur[0]
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			cur[j+1] = min(prev[j]+cost, prev[j+1]+1, cur[j]+1)
			least = min(least, cur[j+1])
		}
		if least > limit {
			return limit + 1
		}
		prev, cur = cur, prev
	}
	return prev[len(b)]
}
