package kapp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

const (
	// typesFor is how long the kinds of a cluster are taken as known. A kind that
	// is not among them is looked for at once; one that went is noticed on use.
	typesFor = 10 * time.Minute
	// partialFor is the same while some API of the cluster does not answer: long
	// enough to spare the cluster when many Apps run, short enough to see it heal.
	partialFor = 5 * time.Second
)

// clusterTypes is what one cluster serves, shared by all runs against it. It
// does not depend on the identity, which may be one of thousands.
type clusterTypes struct {
	used time.Time // guarded by the Runner

	mu     sync.Mutex // guards all below; held while asking, so that one asks for all
	groups []*metav1.APIGroup
	lists  []*metav1.APIResourceList
	failed error // why lists is not whole
	at     time.Time
}

// clusterKey names the cluster of cfg. Without a verified server only runs of
// the same target may share.
func clusterKey(cfg *rest.Config, targetKey string) string {
	if cfg.Insecure {
		return "insecure/" + targetKey
	}
	sum := sha256.Sum256(cfg.CAData)
	return fmt.Sprintf("%s/%s/%s/%s", cfg.Host, cfg.ServerName, cfg.CAFile, hex.EncodeToString(sum[:8]))
}

// get returns kinds that were read after notBefore, by ask if need be.
func (c *clusterTypes) get(ask discovery.DiscoveryInterfaces, notBefore time.Time) ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	oldest := now.Add(-typesFor)
	if c.failed != nil {
		oldest = now.Add(-partialFor)
	}
	if c.lists != nil && c.at.After(notBefore) && c.at.After(oldest) {
		return c.groups, c.lists, c.failed
	}
	groups, lists, err := ask.ServerGroupsAndResources()
	if err != nil && (!discovery.IsGroupDiscoveryFailedError(err) || len(lists) == 0) {
		return groups, lists, err
	}
	c.groups, c.lists, c.failed, c.at = groups, lists, err, time.Now()
	return groups, lists, err
}

// runTypes is one run's view: kapp asks again when it looks for a kind that it
// did not find, and then expects news.
type runTypes struct {
	cluster *clusterTypes
	// first returns the kinds that suffice for the first question, or false for all.
	// Nil: all.
	first func() (map[schema.GroupKind]bool, bool)
	mu    sync.Mutex // guards last
	last  time.Time
}

// get answers the first question with what the run is about, if that is known: a
// delete or inspect would list every kind of the cluster. kapp asks again to look
// for what it did not find, and to see that a delete left nothing.
func (t *runTypes) get(ask discovery.DiscoveryInterfaces) ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	t.mu.Lock()
	again := !t.last.IsZero()
	t.mu.Unlock()
	groups, lists, err := t.whole(ask)
	if again || t.first == nil {
		return groups, lists, err
	}
	if all, ok := t.first(); ok {
		if few := scoped(lists, all); len(few) > 0 {
			lists = few
		}
	}
	return groups, lists, err
}

func (t *runTypes) whole(ask discovery.DiscoveryInterfaces) ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	t.mu.Lock()
	notBefore := t.last
	t.last = time.Now()
	if !notBefore.IsZero() {
		// The kind may be newer than what another run read since this one began.
		notBefore = t.last
	}
	t.mu.Unlock()
	return t.cluster.get(ask, notBefore)
}

// gone says whether the cluster really does not serve gvr any more.
func (t *runTypes) gone(ask discovery.DiscoveryInterfaces, gvr schema.GroupVersionResource) bool {
	_, lists, err := t.cluster.get(ask, time.Now())
	if err != nil {
		// Of an API that does not answer nothing is known; the others are.
		failed, partly := discovery.GroupDiscoveryFailedErrorGroups(err)
		if _, own := failed[gvr.GroupVersion()]; own || !partly {
			return false
		}
	}
	for _, l := range lists {
		if l.GroupVersion != gvr.GroupVersion().String() {
			continue
		}
		for _, r := range l.APIResources {
			if r.Name == gvr.Resource {
				return false
			}
		}
	}
	return true
}

// sharedDiscovery answers kapp's one question about kinds from the shared state.
type sharedDiscovery struct {
	discovery.DiscoveryInterfaces
	types *runTypes
}

func (d *sharedDiscovery) ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	return d.types.get(d.DiscoveryInterfaces)
}

func (d *sharedDiscovery) ServerGroupsAndResourcesWithContext(context.Context) ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	return d.types.get(d.DiscoveryInterfaces)
}
