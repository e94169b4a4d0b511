package status

import (
	"strings"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	packaging "github.com/garboard-dev/garboard/pkg/apis/packaging/v1alpha1"
)

// maxConflicts bounds the conflicts that a status lists. The text of the failure
// names all of them, as far as it has room.
const maxConflicts = 100

// descRepositoryPaused is what clients match on; unlike an App's.
const descRepositoryPaused = "Paused"

// RepositoryAsApp returns the part of a PackageRepository's status that Apps have
// as well, so that both are decided and told by the same rules.
func RepositoryAsApp(s packaging.PackageRepositoryStatus) v1alpha1.AppStatus {
	return v1alpha1.AppStatus{
		Fetch: s.Fetch, Template: s.Template, Deploy: s.Deploy,
		ConsecutiveReconcileSuccesses: s.ConsecutiveReconcileSuccesses,
		ConsecutiveReconcileFailures:  s.ConsecutiveReconcileFailures,
		GenericStatus:                 s.GenericStatus,
	}
}

func repositoryOf(s v1alpha1.AppStatus, conflicts []packaging.PackageConflict) packaging.PackageRepositoryStatus {
	return packaging.PackageRepositoryStatus{
		Fetch: s.Fetch, Template: s.Template, Deploy: s.Deploy,
		ConsecutiveReconcileSuccesses: s.ConsecutiveReconcileSuccesses,
		ConsecutiveReconcileFailures:  s.ConsecutiveReconcileFailures,
		GenericStatus:                 s.GenericStatus,
		Conflicts:                     conflicts,
	}
}

// ProjectRepository is ProjectApp for a PackageRepository. conflicts are those that
// the deploy stage found; while it was not reached, what is known stays.
func ProjectRepository(old packaging.PackageRepositoryStatus, o Outcome, conflicts []packaging.PackageConflict) packaging.PackageRepositoryStatus {
	s := ProjectApp(RepositoryAsApp(old), o)
	if o.Paused {
		s.FriendlyDescription = descRepositoryPaused
	}
	if o.Deploy == nil || o.Deleting || !o.Done {
		conflicts = old.Conflicts
	}
	return repositoryOf(s, conflicts[:min(len(conflicts), maxConflicts)])
}

// FitRepository is FitApp for a PackageRepository. Conflicts take at most half of
// the budget.
func FitRepository(s packaging.PackageRepositoryStatus, budget int) packaging.PackageRepositoryStatus {
	room := budget / 2
	var conflicts []packaging.PackageConflict
	for _, c := range s.Conflicts {
		texts := []*string{&c.Kind, &c.Name, &c.Repository, &c.Reason}
		for _, p := range texts {
			*p = head(strings.ToValidUTF8(*p, "\uFFFD"), maxMessage/8)
		}
		if room -= sizes(texts) + 64; room < 0 {
			break
		}
		conflicts = append(conflicts, c)
	}
	return repositoryOf(FitApp(RepositoryAsApp(s), budget-(budget/2-max(room, 0))), conflicts)
}
