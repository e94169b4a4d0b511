package track

import (
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Versions knows the resource version of the latest write to each object, so that
// a cache that does not have it yet is not believed: deciding on the old status
// would do everything again. The zero value knows nothing. It is safe for
// concurrent use.
type Versions struct {
	mu     sync.Mutex // guards latest
	latest map[types.NamespacedName]int64
}

// Wrote notes a write, as the API server answered it.
func (v *Versions) Wrote(obj client.Object) {
	version, err := strconv.ParseInt(obj.GetResourceVersion(), 10, 64)
	if err != nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.latest == nil {
		v.latest = map[types.NamespacedName]int64{}
	}
	v.latest[client.ObjectKeyFromObject(obj)] = version
}

// Stale says whether obj is older than our latest write to it.
func (v *Versions) Stale(obj client.Object) bool {
	version, err := strconv.ParseInt(obj.GetResourceVersion(), 10, 64)
	v.mu.Lock()
	defer v.mu.Unlock()
	return err == nil && version < v.latest[client.ObjectKeyFromObject(obj)]
}

// Forget drops what is known of an object that is gone.
func (v *Versions) Forget(key types.NamespacedName) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.latest, key)
}

// Len returns how many objects are known.
func (v *Versions) Len() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.latest)
}
