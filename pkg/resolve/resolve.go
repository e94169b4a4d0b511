// Package resolve chooses which version of a Package is installed, and says why
// none is. It sees values only.
package resolve

import (
	"fmt"
	"slices"
	"strings"

	"github.com/carvel-dev/semver/v4"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
)

// Candidate is one version of a Package, and where it may be installed.
type Candidate struct {
	// Version is a semantic version; one with a leading v is taken as well.
	Version string
	// Kubernetes and Controller are ranges such as ">=1.25.0"; empty is every version.
	Kubernetes, Controller string
}

// Request says what to choose from and how.
type Request struct {
	// Candidates are the versions that there are. Among several of the same
	// precedence the last one wins.
	Candidates []Candidate
	// Selection is the user's; nil is an error.
	Selection *v1alpha1.VersionSelectionSemver
	// Kubernetes is the cluster's version, such as 1.37.2. It is looked at only if
	// NeedsKubernetes says so.
	Kubernetes string
	// Controller is the controller's version, such as 0.54.0.
	Controller string
	// IgnoreKubernetes and IgnoreController make those ranges fit every version.
	IgnoreKubernetes, IgnoreController bool
}

// NeedsKubernetes says whether the choice depends on the cluster's version.
func (r Request) NeedsKubernetes() bool { return !r.IgnoreKubernetes && r.constrainsKubernetes() }

func (r Request) constrainsKubernetes() bool {
	return slices.ContainsFunc(r.Candidates, func(c Candidate) bool { return c.Kubernetes != "" })
}

// candidate is a Candidate on its way through the filters.
type candidate struct {
	Candidate
	parsed semver.Version
	// dropped says by which filter and why; empty is still in the race.
	dropped string
}

// Choose returns the highest version that fits. The first line of an error is
// what kapp-controller says, which clients match on; further lines say about each
// version why it was dropped. Ranges of Candidates that cannot be read fit nothing.
func Choose(r Request) (string, error) {
	if r.Selection == nil {
		return "", errNoSelection
	}
	f := filters{}
	f.parse(r.Candidates)
	f.count("all")
	f.prereleases(*r.Selection)
	f.count("after-prereleases-filter")
	if r.constrainsKubernetes() {
		f.environment(r.IgnoreKubernetes, r.Kubernetes, "Kubernetes", func(c Candidate) string { return c.Kubernetes })
		f.count("after-kubernetes-version-check")
	}
	f.environment(r.IgnoreController, r.Controller, "controller", func(c Candidate) string { return c.Controller })
	f.count("after-kapp-controller-version-check")
	if text := r.Selection.Constraints; text != "" {
		fits, err := parseRange(text)
		if err != nil {
			return "", fmt.Errorf("Selecting versions: Parsing version constraint '%s': %w", text, err)
		}
		f.drop(func(c candidate) string { return unless(fits(c.parsed), "does not fit constraints '%s'", text) })
		f.count("after-constraints-filter")
	}
	if best := f.highest(); best != nil {
		return best.Version, nil
	}
	return "", f.nothing()
}

// parseRange is semver's, with an error for the ranges that it makes nothing of and
// for those that would make it panic when they are used.
func parseRange(text string) (semver.Range, error) {
	fits, err := semver.ParseRange(text)
	if err != nil {
		return nil, err
	}
	if fits == nil || strings.Contains(strings.ReplaceAll(text, " ", ""), "||||") {
		return nil, fmt.Errorf("no version in %q", text)
	}
	return func(v semver.Version) (fit bool) {
		// An alternative that the parser dropped for being short is called as well.
		defer func() {
			if recover() != nil {
				fit = false
			}
		}()
		return fits(v)
	}, nil
}

// filters are applied one after the other.
type filters struct {
	list    []candidate
	broken  []string // versions that cannot be read
	details []string
}

func (f *filters) parse(list []Candidate) {
	for _, c := range list {
		parsed, err := semver.Parse(strings.TrimPrefix(c.Version, "v"))
		if err != nil {
			f.broken = append(f.broken, c.Version)
			continue
		}
		f.list = append(f.list, candidate{Candidate: c, parsed: parsed})
	}
}

func (f *filters) count(name string) {
	n := 0
	for _, c := range f.list {
		if c.dropped == "" {
			n++
		}
	}
	f.details = append(f.details, fmt.Sprintf("%s=%d", name, n))
}

// drop drops each candidate for which why is not empty.
func (f *filters) drop(why func(candidate) string) {
	for i, c := range f.list {
		if c.dropped == "" {
			f.list[i].dropped = why(c)
		}
	}
}

func (f *filters) prereleases(s v1alpha1.VersionSelectionSemver) {
	if s.Prereleases == nil && exactPrerelease(s.Constraints) {
		return
	}
	f.drop(func(c candidate) string {
		switch {
		case len(c.parsed.Pre) == 0:
			return ""
		case s.Prereleases == nil:
			return "a pre-release, which only prereleases: {} lets in"
		case len(s.Prereleases.Identifiers) == 0:
			return ""
		}
		for _, part := range c.parsed.Pre {
			if part.VersionStr != "" && slices.Contains(s.Prereleases.Identifiers, part.VersionStr) {
				return ""
			}
		}
		return fmt.Sprintf("a pre-release without an identifier of %s", quoted(s.Prereleases.Identifiers))
	})
}

// exactPrerelease says whether constraints name one pre-release and nothing else:
// who writes that wants it. A sign of equality may stand before it.
func exactPrerelease(constraints string) bool {
	text := strings.TrimSpace(constraints)
	text = strings.TrimSpace(strings.TrimPrefix(strings.TrimPrefix(text, "="), "="))
	v, err := semver.Parse(text)
	return err == nil && len(v.Pre) > 0
}

// environment drops what the cluster or the controller has the wrong version for.
func (f *filters) environment(ignore bool, version, what string, constraints func(Candidate) string) {
	if ignore {
		return
	}
	v, err := semver.ParseTolerant(version)
	v.Pre, v.Build = nil, nil
	f.drop(func(c candidate) string {
		text := constraints(c.Candidate)
		if text == "" {
			return ""
		}
		fits, rangeErr := parseRange(text)
		switch {
		case err != nil:
			return fmt.Sprintf("for %s '%s', but the %s version '%s' cannot be read", what, text, what, version)
		case rangeErr != nil:
			return fmt.Sprintf("its %s constraints '%s' cannot be read: %v", what, text, rangeErr)
		}
		return unless(fits(v), "for %s '%s', this is %s", what, text, v)
	})
}

func unless(ok bool, format string, args ...any) string {
	if ok {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

// highest returns the highest candidate left; of equals the last.
func (f *filters) highest() *candidate {
	var best *candidate
	for i := range f.list {
		c := &f.list[i]
		if c.dropped == "" && (best == nil || c.parsed.Compare(best.parsed) >= 0) {
			best = c
		}
	}
	return best
}
