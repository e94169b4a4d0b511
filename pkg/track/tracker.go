// Package track tells a controller when a Secret or ConfigMap that one of its
// objects names changed after the latest run of that object read it, what update of
// an object is an edit, and whether a cache already has the controller's own writes.
package track

import (
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard-dev/garboard/pkg/refs"
)

// Tracker knows which owners, objects of one kind such as Apps, name which
// Secrets and ConfigMaps, what version of each an owner's latest run read, and
// what version exists as far as watch events told. An owner whose run read an
// older one has to run again. It is safe for concurrent use.
//
// Versions are resource versions, which the API server hands out in ascending
// order for all objects of a kind.
type Tracker struct {
	// OnOvertaken is told of an owner whose run is going on or has ended, when what
	// the run read has changed since. It may be nil, is set before the first event,
	// and must not block.
	OnOvertaken func(owner types.NamespacedName)

	mu sync.Mutex // guards all below
	// owners holds what each names, and what is known about its having read that.
	owners map[types.NamespacedName]map[refs.Key]use
	// users and latest are about objects that at least one owner names.
	users  map[object]map[types.NamespacedName]struct{}
	latest map[object]int64
}

// use is an owner's relation to an object that it names.
type use struct {
	// version is the one that counts as read.
	version int64
	// read says that the latest run has read it, asked that Baseline was told.
	read, asked bool
}

// object is a Secret or a ConfigMap in a namespace.
type object struct {
	namespace string
	key       refs.Key
}

// NewTracker returns a Tracker that knows nothing yet.
func NewTracker() *Tracker {
	return &Tracker{
		owners: map[types.NamespacedName]map[refs.Key]use{},
		users:  map[object]map[types.NamespacedName]struct{}{},
		latest: map[object]int64{},
	}
}

// Track sets what owner names now. What it named before and still does keeps its
// version. No keys forget the owner.
func (t *Tracker) Track(owner types.NamespacedName, keys []refs.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.owners[owner]
	now := make(map[refs.Key]use, len(keys))
	for _, k := range keys {
		now[k] = old[k]
		o := object{owner.Namespace, k}
		if t.users[o] == nil {
			t.users[o] = map[types.NamespacedName]struct{}{}
		}
		t.users[o][owner] = struct{}{}
	}
	for k := range old {
		if _, keep := now[k]; keep {
			continue
		}
		o := object{owner.Namespace, k}
		if delete(t.users[o], owner); len(t.users[o]) == 0 {
			delete(t.users, o)
			delete(t.latest, o)
		}
	}
	if len(now) == 0 {
		delete(t.owners, owner)
		return
	}
	t.owners[owner] = now
}

// Changed says whether an object that owner names is newer than what its latest
// run read.
func (t *Tracker) Changed(owner types.NamespacedName) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for k, u := range t.owners[owner] {
		if t.latest[object{owner.Namespace, k}] > u.version {
			return true
		}
	}
	return false
}

// Overtaken says whether the latest run of owner read an object that is newer by
// now. What the run has not read yet, it reads as it is.
func (t *Tracker) Overtaken(owner types.NamespacedName) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for k, u := range t.owners[owner] {
		if u.read && t.latest[object{owner.Namespace, k}] > u.version {
			return true
		}
	}
	return false
}

// Baseline asks known once about each object that owner names: which version a
// cache has, and which of it an earlier run read, also one before this process was
// started; 0 is none. Without that, what changed meanwhile would go unnoticed.
func (t *Tracker) Baseline(owner types.NamespacedName, known func(refs.Key) (latest, read int64)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for k, u := range t.owners[owner] {
		if u.asked {
			continue
		}
		latest, read := known(k)
		o := object{owner.Namespace, k}
		t.latest[o] = max(t.latest[o], latest)
		u.version, u.asked = max(u.version, read), true
		t.owners[owner][k] = u
	}
}

// Event notes that an object has a version, or was deleted at it, and returns
// the owners that name it.
func (t *Tracker) Event(namespace string, key refs.Key, version string) []types.NamespacedName {
	v, err := strconv.ParseInt(version, 10, 64)
	t.mu.Lock()
	defer t.mu.Unlock()
	o := object{namespace, key}
	if err != nil || len(t.users[o]) == 0 {
		return nil
	}
	t.latest[o] = max(t.latest[o], v)
	found := make([]types.NamespacedName, 0, len(t.users[o]))
	for owner := range t.users[o] {
		found = append(found, owner)
	}
	return found
}

// Begin notes that a run of owner starts: it reads what exists now or later.
func (t *Tracker) Begin(owner types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for k, u := range t.owners[owner] {
		u.version, u.read = max(u.version, t.latest[object{owner.Namespace, k}]), false
		t.owners[owner][k] = u
	}
}

// Read notes that the run of an owner read an object at a version.
func (t *Tracker) Read(owner types.NamespacedName, key refs.Key, version int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if u, ok := t.owners[owner][key]; ok {
		u.version, u.read = max(u.version, version), true
		t.owners[owner][key] = u
	}
}

// Len returns how many owners and objects are known; 0 after all were forgotten.
func (t *Tracker) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.owners) + len(t.users) + len(t.latest)
}
