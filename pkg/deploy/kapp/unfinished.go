package kapp

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	kappapp "carvel.dev/kapp/pkg/kapp/app"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

// finishFor bounds the writes that finish the record of a canceled run.
const finishFor = 2 * time.Second

// finish marks the change that a canceled run began as failed, as kapp does with
// every change that it ends. kapp itself wakes up too late for that: by then the
// next run may have recorded a change of its own, which a late write would
// replace. Best effort: the identity may be what is gone.
func (r *run) finish() {
	change, began := r.deps.records.unfinished()
	if !began {
		return
	}
	core, err := corev1client.NewForConfigAndClient(r.deps.config, &http.Client{Transport: r.fence.next})
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), finishFor)
	defer cancel()
	maps, now := core.ConfigMaps(r.deps.records.namespace), time.Now().UTC()
	if change != "" {
		edit(ctx, maps, change, func(data string) (string, bool) { return failChange(data, now) })
	}
	for _, name := range []string{r.name + qualifiedSuffix, r.name} {
		if edit(ctx, maps, name, func(data string) (string, bool) { return failLastChange(data, change, now) }) {
			return
		}
	}
}

// edit changes what kapp keeps in the ConfigMap name, and says whether there is one.
func edit(ctx context.Context, maps corev1client.ConfigMapInterface, name string, change func(string) (string, bool)) bool {
	cm, err := maps.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return false
	}
	if data, changed := change(cm.Data[specKey]); changed {
		cm.Data[specKey] = data
		// A conflict means that someone else works on the record by now.
		_, _ = maps.Update(ctx, cm, metav1.UpdateOptions{})
	}
	return true
}

// failChange returns the record of a change as one that failed at now, unless it
// has ended already.
func failChange(data string, now time.Time) (string, bool) {
	var change kappapp.ChangeMeta
	if json.Unmarshal([]byte(data), &change) != nil || !change.FinishedAt.IsZero() {
		return "", false
	}
	failed := false
	change.Successful, change.FinishedAt = &failed, now
	return change.AsString(), true
}

// failLastChange does the same in the record of the App, if its last change is the
// one named name.
func failLastChange(data, name string, now time.Time) (string, bool) {
	meta, err := kappapp.NewAppMetaFromData(map[string]string{specKey: data})
	if err != nil || meta.LastChangeName != name {
		return "", false
	}
	change, changed := failChange(meta.LastChange.AsString(), now)
	if !changed {
		return "", false
	}
	meta.LastChange = kappapp.NewChangeMetaFromString(change)
	return meta.AsString(), true
}

// begin notes that the run recorded a change named change, empty if kapp keeps no
// history of changes.
func (r *records) begin(change string) {
	r.began, r.change = true, change
	if r.onBegin != nil {
		r.onBegin(change)
	}
}

// unfinished returns the change that the run began, if it began any.
func (r *records) unfinished() (change string, began bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.change, r.began
}

// beganIn is begin for a run in another process.
func (r *records) beganIn(change string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begin(change)
}

// isChange says whether cm is the record of a change.
func isChange(cm *corev1.ConfigMap) bool {
	_, ok := cm.Labels[changeLabel]
	return ok
}
