package app

import (
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard-dev/garboard/pkg/refs"
)

// tracker knows which Apps name which Secrets and ConfigMaps, what version of
// each an App's latest run read, and what version exists as far as watch events
// told. An App whose run read an older one has to run again.
//
// Versions are resource versions, which the API server hands out in ascending
// order for all objects of a kind.
type tracker struct {
	mu sync.Mutex
	// apps holds what each App names, and the version that counts as read.
	apps map[types.NamespacedName]map[refs.Key]int64
	// users and latest are about objects that at least one App names.
	users  map[object]map[types.NamespacedName]struct{}
	latest map[object]int64
}

// object is a Secret or a ConfigMap in a namespace.
type object struct {
	namespace string
	key       refs.Key
}

func newTracker() *tracker {
	return &tracker{
		apps:   map[types.NamespacedName]map[refs.Key]int64{},
		users:  map[object]map[types.NamespacedName]struct{}{},
		latest: map[object]int64{},
	}
}

// track sets what app names now. What it named before and still does keeps its
// version. No keys forget the app.
func (t *tracker) track(app types.NamespacedName, keys []refs.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.apps[app]
	now := make(map[refs.Key]int64, len(keys))
	for _, k := range keys {
		now[k] = old[k]
		o := object{app.Namespace, k}
		if t.users[o] == nil {
			t.users[o] = map[types.NamespacedName]struct{}{}
		}
		t.users[o][app] = struct{}{}
	}
	for k := range old {
		if _, keep := now[k]; keep {
			continue
		}
		o := object{app.Namespace, k}
		if delete(t.users[o], app); len(t.users[o]) == 0 {
			delete(t.users, o)
			delete(t.latest, o)
		}
	}
	if len(now) == 0 {
		delete(t.apps, app)
		return
	}
	t.apps[app] = now
}

// changed says whether an object that app names is newer than what its latest
// run read.
func (t *tracker) changed(app types.NamespacedName) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for k, read := range t.apps[app] {
		if t.latest[object{app.Namespace, k}] > read {
			return true
		}
	}
	return false
}

// event notes that an object has a version, or was deleted at it, and returns
// the Apps that name it.
func (t *tracker) event(namespace string, key refs.Key, version string) []types.NamespacedName {
	v, err := strconv.ParseInt(version, 10, 64)
	t.mu.Lock()
	defer t.mu.Unlock()
	o := object{namespace, key}
	if err != nil || len(t.users[o]) == 0 {
		return nil
	}
	t.latest[o] = max(t.latest[o], v)
	apps := make([]types.NamespacedName, 0, len(t.users[o]))
	for app := range t.users[o] {
		apps = append(apps, app)
	}
	return apps
}

// begin notes that a run of app starts: it reads what exists now or later.
func (t *tracker) begin(app types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for k, v := range t.apps[app] {
		t.apps[app][k] = max(v, t.latest[object{app.Namespace, k}])
	}
}

// read notes that the run of an app read an object at a version.
func (t *tracker) read(app types.NamespacedName, key refs.Key, version int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if have, ok := t.apps[app][key]; ok {
		t.apps[app][key] = max(have, version)
	}
}
