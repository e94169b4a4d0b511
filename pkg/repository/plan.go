package repository

import (
	"cmp"
	"fmt"
	"slices"
)

// Change is what is done with one object.
type Change struct {
	Action Action
	// Next is what is written, Existing what is there; each is zero where there is none.
	Next, Existing Object
	// Reason tells why, for a Conflict.
	Reason string
}

// Key returns the object's key.
func (c Change) Key() Key {
	if c.Next.Stored != nil {
		return c.Next.Key
	}
	return c.Existing.Key
}

// Owner returns the repository that the existing object names, or "".
func (c Change) Owner() string {
	if c.Existing.Stored == nil {
		return ""
	}
	return c.Existing.GetAnnotations()[OwnerAnnotation]
}

// String returns a conflict as kapp-controller words it.
func (c Change) String() string {
	return fmt.Sprintf("Error: Conflicting resources: %s is already present but not identical (%s) (hint: it is of PackageRepository %s; only one of both is offered, and the higher annotation %s wins)",
		c.Key(), c.Reason, c.Owner(), RevisionAnnotation)
}

// Plan returns what is to be done, sorted by kind and name, so that a namespace in
// which exists what existing lists offers next for owner. What problems name stays:
// a document that cannot be read any more is no reason to withdraw what it was; and
// if one does not even tell its name, nothing is withdrawn.
func Plan(owner Owner, existing, next []Object, problems []Problem) []Change {
	have := make(map[Key]Object, len(existing))
	for _, o := range existing {
		have[o.Key] = o
	}
	changes := make([]Change, 0, len(next))
	stays := make(map[Key]bool, len(next)+len(problems))
	for _, o := range next {
		stays[o.Key] = true
		c := Change{Action: Create, Next: o}
		if old, ok := have[o.Key]; ok {
			c.Existing = old
			c.Action, c.Reason = Decide(old, o)
		}
		changes = append(changes, c)
	}
	withdraw := true
	for _, p := range problems {
		stays[p.Key] = true
		withdraw = withdraw && p.Kind != "" && p.Name != ""
	}
	for _, o := range existing {
		if withdraw && !stays[o.Key] && owner.Owns(o) {
			changes = append(changes, Change{Action: Delete, Existing: o})
		}
	}
	slices.SortFunc(changes, func(a, b Change) int {
		x, y := a.Key(), b.Key()
		return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Name, y.Name))
	})
	return changes
}
