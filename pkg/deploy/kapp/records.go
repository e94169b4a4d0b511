package kapp

import (
	"context"
	"encoding/json"
	"maps"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
)

const (
	// qualifiedSuffix ends the name of a record that kapp migrated.
	qualifiedSuffix = ".apps.k14s.io"
	changeSelector  = "kapp.k14s.io/is-app-change="
	changeLabel     = "kapp.k14s.io/is-app-change"
	specKey         = "spec"
)

// records is what one run knows of its App's record and changes, which kapp
// keeps in ConfigMaps and reads again and again. It spares a run the reads of
// what it read or wrote itself, the writes that change nothing, and the write
// that the next one repeats.
type records struct {
	namespace, name string
	memo            *recordMemo
	// listed lets changes be answered from memory. A delete asks: it is to
	// leave nothing behind, whoever made it.
	listed bool

	mu    sync.Mutex // guards all below
	known map[string]*corev1.ConfigMap
	// held is the record with an update that was not sent: kapp always updates
	// the kinds in use and then, before it changes anything else, the change.
	held    *corev1.ConfigMap
	created bool   // the record is of this run, so all changes are too
	began   bool   // a change of the cluster was recorded
	change  string // its name, if kapp keeps a history
	// onBegin is called with that, or is nil.
	onBegin func(change string)
}

func newRecords(namespace, name string, memo *recordMemo, listed bool) *records {
	return &records{namespace: namespace, name: name, memo: memo, listed: listed, known: map[string]*corev1.ConfigMap{}}
}

func (r *records) isRecord(name string) bool {
	return name == r.name || name == r.name+qualifiedSuffix
}

// recordSpec is what kapp keeps in a record.
type recordSpec struct {
	LabelKey       string               `json:"labelKey"`
	LabelValue     string               `json:"labelValue"`
	LastChangeName string               `json:"lastChangeName,omitempty"`
	LastChange     json.RawMessage      `json:"lastChange,omitempty"`
	UsedGVs        json.RawMessage      `json:"usedGVs,omitempty"`
	UsedGKs        []v1alpha1.GroupKind `json:"usedGKs,omitempty"`
}

func parseRecord(cm *corev1.ConfigMap) (recordSpec, error) {
	var spec recordSpec
	err := json.Unmarshal([]byte(cm.Data[specKey]), &spec)
	return spec, err
}

// status returns how to find what was deployed, or nil: the run recorded no
// change, or nothing of it is known.
func (r *records) status(succeeded bool) *v1alpha1.KappDeployStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !succeeded && !r.began {
		return nil
	}
	for _, name := range []string{r.name + qualifiedSuffix, r.name} {
		cm := r.view(name)
		if cm == nil {
			continue
		}
		spec, err := parseRecord(cm)
		var change struct{ Namespaces []string }
		if err == nil && len(spec.LastChange) > 0 {
			err = json.Unmarshal(spec.LastChange, &change)
		}
		if err != nil || len(change.Namespaces) == 0 {
			return nil
		}
		return &v1alpha1.KappDeployStatus{AssociatedResources: v1alpha1.AssociatedResources{
			Label:      spec.LabelKey + "=" + spec.LabelValue,
			Namespaces: change.Namespaces,
			GroupKinds: spec.UsedGKs,
		}}
	}
	return nil
}

// view is the record as kapp is to see it: with the held update, if any.
func (r *records) view(name string) *corev1.ConfigMap {
	if r.held != nil && r.held.Name == name {
		return r.held
	}
	return r.known[name]
}

// flush sends the held update, if any: the run ended before the next one.
func (r *records) flush(ctx context.Context, live corev1client.ConfigMapInterface) {
	r.mu.Lock()
	held := r.held
	r.held = nil
	r.mu.Unlock()
	if held != nil {
		_, _ = live.Update(ctx, held, metav1.UpdateOptions{})
	}
}

// recordMaps is kapp's client for the ConfigMaps of the record's namespace.
type recordMaps struct {
	corev1client.ConfigMapInterface
	*records
}

// Get answers from memory for what this run read or wrote, present or absent.
func (m *recordMaps) Get(ctx context.Context, name string, opts metav1.GetOptions) (*corev1.ConfigMap, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	// Nearly no record is migrated. If the plain one was alone the last time and
	// still is there, so is the answer for the qualified one.
	if name == m.name+qualifiedSuffix && m.memo.plain(m.key()) {
		if _, asked := m.known[name]; !asked {
			if cm, err := m.get(ctx, m.name, opts); err == nil && cm != nil {
				m.known[name] = nil
			}
		}
	}
	cm, err := m.get(ctx, name, opts)
	if err != nil {
		return nil, err
	}
	if cm == nil {
		return nil, apierrors.NewNotFound(corev1.Resource("configmaps"), name)
	}
	if name == m.name && m.known[m.name+qualifiedSuffix] == nil {
		if _, asked := m.known[m.name+qualifiedSuffix]; asked {
			m.memo.setPlain(m.key())
		}
	}
	return cm.DeepCopy(), nil
}

// get returns nil for a ConfigMap that does not exist.
func (m *recordMaps) get(ctx context.Context, name string, opts metav1.GetOptions) (*corev1.ConfigMap, error) {
	if cm, asked := m.known[name]; asked {
		if v := m.view(name); v != nil {
			return v, nil
		}
		return cm, nil
	}
	cm, err := m.ConfigMapInterface.Get(ctx, name, opts)
	if apierrors.IsNotFound(err) {
		m.known[name] = nil
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m.known[name] = cm
	return cm, nil
}

// Create returns a ConfigMap beside an error too: kapp looks at it first.
func (m *recordMaps) Create(ctx context.Context, cm *corev1.ConfigMap, opts metav1.CreateOptions) (*corev1.ConfigMap, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out, err := m.ConfigMapInterface.Create(ctx, cm, opts)
	if err != nil {
		if out == nil {
			out = cm
		}
		return out, err
	}
	m.known[out.Name] = out.DeepCopy()
	if isChange(out) {
		m.begin(out.Name)
		m.memo.add(m.key(), out)
	} else if m.isRecord(out.Name) {
		// A renamed record keeps its old changes.
		m.created = cm.ResourceVersion == "" && !hasLastChange(out)
		if m.created {
			m.memo.reset(m.key())
		}
	}
	return out, nil
}

func hasLastChange(cm *corev1.ConfigMap) bool {
	spec, err := parseRecord(cm)
	return err != nil || spec.LastChangeName != ""
}

// Update sends what differs from what is there, and holds what will be sent with
// the next update anyway.
func (m *recordMaps) Update(ctx context.Context, cm *corev1.ConfigMap, opts metav1.UpdateOptions) (*corev1.ConfigMap, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.known[cm.Name]
	if old == nil {
		return m.ConfigMapInterface.Update(ctx, cm, opts)
	}
	record := m.isRecord(cm.Name)
	if record {
		same := maps.Equal(old.Labels, cm.Labels) && maps.Equal(old.Annotations, cm.Annotations)
		if same && maps.Equal(old.Data, cm.Data) {
			m.held = nil
			return cm, nil
		}
		if same && sameChange(old, cm) {
			m.held = cm.DeepCopy()
			return cm, nil
		}
		if !m.began && !sameChange(old, cm) {
			m.begin("")
		}
	}
	out, err := m.ConfigMapInterface.Update(ctx, cm, opts)
	if record && apierrors.IsConflict(err) {
		out, err = m.updateLatest(ctx, cm, opts)
	}
	if err != nil {
		return nil, err
	}
	if record {
		m.held = nil
	} else {
		m.memo.add(m.key(), out)
	}
	m.known[cm.Name] = out.DeepCopy()
	return out, nil
}

// updateLatest repeats the update on the state of now, as kapp, which reads
// before each update, would have done in the first place.
func (m *recordMaps) updateLatest(ctx context.Context, cm *corev1.ConfigMap, opts metav1.UpdateOptions) (*corev1.ConfigMap, error) {
	latest, err := m.ConfigMapInterface.Get(ctx, cm.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	theirs, err1 := parseRecord(latest)
	ours, err2 := parseRecord(cm)
	if err1 != nil || err2 != nil || theirs.LabelValue != ours.LabelValue {
		// Another App by now: leave kapp with the conflict.
		return m.ConfigMapInterface.Update(ctx, cm, opts)
	}
	latest.Data = cm.Data
	return m.ConfigMapInterface.Update(ctx, latest, opts)
}

// sameChange says whether two states of a record differ in the kinds in use only.
func sameChange(a, b *corev1.ConfigMap) bool {
	sa, errA := parseRecord(a)
	sb, errB := parseRecord(b)
	return errA == nil && errB == nil && sa.LabelValue == sb.LabelValue &&
		sa.LastChangeName == sb.LastChangeName && string(sa.LastChange) == string(sb.LastChange)
}

// Delete forgets what it deletes.
func (m *recordMaps) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := m.ConfigMapInterface.Delete(ctx, name, opts)
	if m.isRecord(name) {
		m.memo.reset(m.key())
		m.held = nil
	} else {
		m.memo.remove(m.key(), name, err == nil)
	}
	if err == nil {
		m.known[name] = nil
	}
	return err
}

// List answers for the App's own changes from memory if all of them are known.
func (m *recordMaps) List(ctx context.Context, opts metav1.ListOptions) (*corev1.ConfigMapList, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !strings.Contains(opts.LabelSelector, changeSelector) {
		return m.ConfigMapInterface.List(ctx, opts)
	}
	if m.listed {
		if items, ok := m.memo.changes(m.key(), opts.LabelSelector, m.created); ok {
			return &corev1.ConfigMapList{Items: items}, nil
		}
	}
	list, err := m.ConfigMapInterface.List(ctx, opts)
	if err == nil {
		m.memo.setChanges(m.key(), opts.LabelSelector, list.Items)
	}
	return list, err
}

func (r *records) key() string { return r.namespace + "/" + r.name }
