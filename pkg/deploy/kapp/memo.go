package kapp

import (
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// recordMemo is what runs leave for later runs of the same Apps on one target.
// All of it is checked on use or does no harm if wrong.
type recordMemo struct {
	mu   sync.Mutex // guards all below
	apps map[string]*appMemo
}

type appMemo struct {
	used time.Time
	// plainAt is when the record was last seen unmigrated; zero is never.
	plainAt time.Time
	// selector is the one that items answer; empty: items are those that were
	// made since reset, which is all of them only for a record made since.
	selector string
	complete bool
	items    map[string]corev1.ConfigMap
}

const (
	// memoFor bounds what others may do to records unseen.
	memoFor = 10 * time.Minute
	// memoItems bounds the memory for one App's changes.
	memoItems = 20
)

func newRecordMemo() *recordMemo { return &recordMemo{apps: map[string]*appMemo{}} }

// app returns the memo of key, and lets go of those that were not used for long.
func (m *recordMemo) app(key string) *appMemo {
	now := time.Now()
	a, ok := m.apps[key]
	if !ok {
		for k, old := range m.apps {
			if now.Sub(old.used) > 6*memoFor {
				delete(m.apps, k)
			}
		}
		a = &appMemo{items: map[string]corev1.ConfigMap{}}
		m.apps[key] = a
	}
	a.used = now
	return a
}

func (m *recordMemo) plain(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Since(m.app(key).plainAt) < memoFor
}

func (m *recordMemo) setPlain(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a := m.app(key); time.Since(a.plainAt) >= memoFor {
		a.plainAt = time.Now()
	}
}

func (m *recordMemo) reset(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.apps, key)
}

func (m *recordMemo) add(key string, cm *corev1.ConfigMap) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.app(key)
	if _, isChange := cm.Labels[changeLabel]; !isChange {
		return
	}
	if len(a.items) >= memoItems {
		a.selector, a.complete, a.items = "", false, map[string]corev1.ConfigMap{}
		return
	}
	a.items[cm.Name] = changeItem(cm)
}

func (m *recordMemo) remove(key, name string, gone bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.app(key)
	delete(a.items, name)
	if !gone {
		a.selector, a.complete = "", false
	}
}

func (m *recordMemo) changes(key, selector string, created bool) ([]corev1.ConfigMap, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.app(key)
	if created && len(a.items) < memoItems {
		a.selector, a.complete = selector, true
	}
	if !a.complete || a.selector != selector {
		return nil, false
	}
	items := make([]corev1.ConfigMap, 0, len(a.items))
	for _, cm := range a.items {
		items = append(items, cm)
	}
	return items, true
}

func (m *recordMemo) setChanges(key, selector string, items []corev1.ConfigMap) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.app(key)
	a.items = map[string]corev1.ConfigMap{}
	a.selector, a.complete = selector, len(items) < memoItems
	if !a.complete {
		return
	}
	for i := range items {
		a.items[items[i].Name] = changeItem(&items[i])
	}
}

// changeItem keeps of a change what kapp reads when it lists changes.
func changeItem(cm *corev1.ConfigMap) corev1.ConfigMap {
	return corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: cm.Name, Namespace: cm.Namespace, CreationTimestamp: cm.CreationTimestamp},
		Data:       maps.Clone(cm.Data),
	}
}
