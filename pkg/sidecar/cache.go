package sidecar

import (
	"crypto/sha256"
	"encoding/hex"
	"path"
	"path/filepath"
	"sync"

	"github.com/garboard-dev/garboard/pkg/workdir"
)

// caches holds a folder for each owner in which fetched content is kept for its
// next fetch. A folder serves one exact configuration with its credentials: with
// another one the owner starts with an empty folder, so that a cache never gives
// what the present credentials may not read.
type caches struct {
	dir *workdir.Dir
	max int64

	mu     sync.Mutex // guards all below
	owners map[string]map[string]*cacheEntry
	total  int64
	clock  int64 // counts uses
}

type cacheEntry struct {
	owner, key string
	size, used int64
	leases     int
	stale      bool // to be removed when its last lease ends
}

func newCaches(dir *workdir.Dir, max int64) *caches {
	return &caches{dir: dir, max: max, owners: map[string]map[string]*cacheEntry{}}
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

func (e *cacheEntry) path() string { return path.Join(e.owner, e.key) }

// lease returns the owner's folder for config. release must be called when nothing
// uses the folder any more.
func (c *caches) lease(owner string, config []byte) (*lease, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o, k := digest([]byte(owner)), digest(config)
	for key, e := range c.owners[o] {
		if key != k {
			c.retire(e)
		}
	}
	e := c.owners[o][k]
	if e == nil {
		e = &cacheEntry{owner: o, key: k}
		if err := c.dir.MkdirAll(path.Join(e.path(), partsDir)); err != nil {
			return nil, err
		}
		if c.owners[o] == nil {
			c.owners[o] = map[string]*cacheEntry{}
		}
		c.owners[o][k] = e
	}
	// It may have been retired and asked for again while a run still used it.
	e.stale = false
	e.leases++
	return &lease{caches: c, entry: e}, nil
}

func (c *caches) release(e *cacheEntry, same bool) {
	var size int64
	if !same {
		size = workdir.Measure(workdir.Usage{}, filepath.Join(c.dir.Path(), e.owner, e.key)).Bytes
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e.leases--
	c.clock++
	e.used = c.clock
	if !same {
		c.total += size - e.size
		e.size = size
	}
	if e.stale {
		c.retire(e)
	}
	for c.total > c.max && c.evict() {
	}
}

// forget drops all folders of owner.
func (c *caches) forget(owner string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.owners[digest([]byte(owner))] {
		c.retire(e)
	}
}

// retire removes e, at once or when its last lease ends.
func (c *caches) retire(e *cacheEntry) {
	e.stale = true
	if e.leases > 0 {
		return
	}
	c.total -= e.size
	delete(c.owners[e.owner], e.key)
	gone := e.path()
	if len(c.owners[e.owner]) == 0 {
		delete(c.owners, e.owner)
		gone = e.owner
	}
	// What cannot be removed goes with the next start's sweep.
	_ = c.dir.Remove(gone)
}

// evict removes the folder that has not been used for longest. It says whether
// there was one.
func (c *caches) evict() bool {
	var oldest *cacheEntry
	for _, entries := range c.owners {
		for _, e := range entries {
			if e.leases == 0 && (oldest == nil || e.used < oldest.used) {
				oldest = e
			}
		}
	}
	if oldest != nil {
		c.retire(oldest)
	}
	return oldest != nil
}

func (c *caches) bytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total
}
