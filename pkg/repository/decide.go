package repository

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
)

// Action is what is done with one object.
type Action int

// The actions.
const (
	// Keep leaves the owner's object as it is: it is what the repository holds.
	Keep Action = iota
	// Leave leaves the object to another repository.
	Leave
	// Create writes an object that does not exist.
	Create
	// Update writes over the object that exists.
	Update
	// Delete removes an object that the repository no longer holds.
	Delete
	// Conflict leaves the object to another repository, which is a failure.
	Conflict
)

// String returns the action's name.
func (a Action) String() string {
	return [...]string{"Keep", "Leave", "Create", "Update", "Delete", "Conflict"}[a]
}

// Decide says what to do when a repository holds next and the object exists in its
// namespace already; reason tells why, for a conflict. The owner of next is that of
// its annotation.
func Decide(existing, next Object) (action Action, reason string) {
	owner, named := existing.GetAnnotations()[OwnerAnnotation]
	if !named || owner == next.GetAnnotations()[OwnerAnnotation] {
		if same(existing, next) {
			return Keep, ""
		}
		return Update, ""
	}
	reason = difference(existing, next)
	if reason == "" {
		return Leave, ""
	}
	have, err := revision(existing)
	if err != nil {
		return Conflict, fmt.Sprintf("%v, in the object of %s", err, owner)
	}
	want, err := revision(next)
	if err != nil {
		return Conflict, err.Error()
	}
	switch c := slices.Compare(have, want); {
	case c > 0:
		return Leave, ""
	case c < 0:
		return Update, ""
	}
	return Conflict, reason
}

// same says that writing next over existing would change nothing. What kbld writes
// where it replaces no image is not worth a write.
func same(existing, next Object) bool {
	annotations := existing.GetAnnotations()
	if _, has := next.GetAnnotations()[kbldAnnotation]; !has {
		annotations = without(annotations, kbldAnnotation)
	}
	return maps.Equal(existing.GetLabels(), next.GetLabels()) && maps.Equal(annotations, next.GetAnnotations()) && sameSpec(existing, next)
}

func without(m map[string]string, keys ...string) map[string]string {
	out := maps.Clone(m)
	for _, k := range keys {
		delete(out, k)
	}
	return out
}

// sameSpec compares values first, which is cheap, and then what would be on the
// wire: two ways to write one number are the same.
func sameSpec(a, b Object) bool {
	return equality.Semantic.DeepEqual(a.spec, b.spec) || reflect.DeepEqual(fields(a), fields(b))
}

// fields returns the spec as it is on the wire.
func fields(o Object) map[string]any {
	text, err := json.Marshal(o.spec)
	out := map[string]any{}
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		// Both are types of this API, which always can be written.
		return nil
	}
	return out
}

// difference returns how next differs from what another repository's object says,
// in kapp-controller's words, or "" if they are identical.
func difference(existing, next Object) string {
	if !sameSpec(existing, next) {
		return specDifference(fields(existing), fields(next))
	}
	of := func(m map[string]string, ignored ...string) map[string]string { return without(m, ignored...) }
	if !maps.Equal(of(existing.GetLabels(), appLabel, associationLabel), of(next.GetLabels(), appLabel, associationLabel)) {
		return "mismatch in metadata.labels"
	}
	ignored := []string{disableOriginal, disableWait, OwnerAnnotation, identityAnnotation, createStrategy}
	if !maps.Equal(of(existing.GetAnnotations(), ignored...), of(next.GetAnnotations(), ignored...)) {
		return "mismatch in metadata.annotations"
	}
	return ""
}

func specDifference(have, want map[string]any) string {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if _, ok := have[name]; !ok {
			return "adding spec." + name
		}
	}
	for _, name := range slices.Sorted(maps.Keys(have)) {
		if _, ok := want[name]; !ok {
			return "missing spec." + name
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if !reflect.DeepEqual(have[name], want[name]) {
			return "mismatch in spec." + name
		}
	}
	return "mismatch in unknown location"
}

// revision returns the numbers of an object's revision, which compare one by one,
// and then by their count. No revision is below every other.
func revision(o Object) ([]int, error) {
	text, ok := o.GetAnnotations()[RevisionAnnotation]
	if !ok {
		return []int{-1}, nil
	}
	parts := strings.Split(text, ".")
	out := make([]int, len(parts))
	for i, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil {
			return nil, fmt.Errorf("annotation %s is %q, expected whole numbers with dots between, such as 1.2", RevisionAnnotation, text)
		}
		out[i] = n
	}
	return out, nil
}
