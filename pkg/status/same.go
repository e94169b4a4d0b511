package status

import (
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
)

// Unchanged says that a run that succeeded found everything as the status old has
// it: next differs from it in nothing but times and the number of successes. Such
// a status is not worth a write. A failure always is: the time of its next attempt
// counts from it.
func Unchanged(old, next v1alpha1.AppStatus) bool {
	return Has(next.GenericStatus, v1alpha1.ReconcileSucceeded) &&
		equality.Semantic.DeepEqual(timeless(FitApp(old, DefaultBudget)), timeless(FitApp(next, DefaultBudget)))
}

// timeless changes s, which is the caller's own.
func timeless(s v1alpha1.AppStatus) v1alpha1.AppStatus {
	s.ConsecutiveReconcileSuccesses = 0
	none := metav1.Time{}
	if s.Fetch != nil {
		s.Fetch.StartedAt, s.Fetch.UpdatedAt = none, none
	}
	if s.Template != nil {
		s.Template.UpdatedAt = none
	}
	if s.Deploy != nil {
		s.Deploy.StartedAt, s.Deploy.UpdatedAt = none, none
	}
	if s.Inspect != nil {
		s.Inspect.UpdatedAt = none
		s.Inspect.Stdout = ageless(s.Inspect.Stdout)
	}
	return s
}

// age is the last column of kapp's table of objects.
var age = regexp.MustCompile(`^(\d+[smhdwy])+$`)

// ageless returns a table without the ages, and without the spaces by which
// columns are lined up, since an age that grows moves them.
func ageless(table string) string {
	lines := strings.Split(table, "\n")
	for i, line := range lines {
		words := strings.Fields(line)
		if n := len(words); n > 1 && age.MatchString(words[n-1]) {
			words = words[:n-1]
		}
		lines[i] = strings.Join(words, " ")
	}
	return strings.Join(lines, "\n")
}
