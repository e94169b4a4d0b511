package repository

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	data "github.com/garboard-dev/garboard/pkg/apis/datapackaging/v1alpha1"
)

const (
	recordKey = "spec"
	// suffix ends kapp's name of a repository's app, qualified the name of a record
	// that was made with KAPP_FQ_CONFIGMAP_NAMES; previous ends what old versions of
	// kapp-controller named it.
	suffix    = ".pkgr"
	previous  = "-ctrl"
	qualified = ".apps.k14s.io"

	changesByLabel = "kapp.k14s.io/app-changes-use-app-label"
)

// groupKind is how kapp writes one.
type groupKind struct{ Group, Kind string }

func kinds() []groupKind {
	return []groupKind{{data.SchemeGroupVersion.Group, Package}, {data.SchemeGroupVersion.Group, Metadata}}
}

// change is how kapp writes a change of an app.
type change struct {
	StartedAt   time.Time `json:"startedAt"`
	FinishedAt  time.Time `json:"finishedAt"`
	Successful  bool      `json:"successful"`
	Description string    `json:"description"`
	Namespaces  []string  `json:"namespaces"`
}

// AppName is kapp's name for the repository's app.
func AppName(name string) string { return name + suffix }

// RecordNames returns the names that kapp's record of a repository may have, the one
// that counts first.
func RecordNames(name string) []string {
	return []string{name + suffix + qualified, name + suffix, name + previous + qualified, name + previous}
}

// NewRecord returns a record that kapp understands as that of an app with packages
// in the namespace.
func NewRecord(namespace, name string, now time.Time) (*corev1.ConfigMap, error) {
	now = now.UTC()
	spec, err := json.Marshal(struct {
		LabelKey   string      `json:"labelKey"`
		LabelValue string      `json:"labelValue"`
		LastChange change      `json:"lastChange"`
		UsedGKs    []groupKind `json:"usedGKs"`
	}{appLabel, strconv.FormatInt(now.UnixNano(), 10), change{now, now, true, "garboard", []string{namespace}}, kinds()})
	if err != nil {
		return nil, fmt.Errorf("encode record: %w", err)
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: AppName(name),
			Labels: map[string]string{"kapp.k14s.io/is-app": ""}, Annotations: map[string]string{changesByLabel: ""},
		},
		Data: map[string]string{recordKey: string(spec)},
	}, nil
}

// ReadRecord returns the value of kapp's label that a record holds.
func ReadRecord(record *corev1.ConfigMap) (label string, err error) {
	var spec struct{ LabelKey, LabelValue string }
	if err := json.Unmarshal([]byte(record.Data[recordKey]), &spec); err != nil {
		return "", fmt.Errorf("ConfigMap %s holds no record of kapp: %w (hint: delete it, and one is made anew)", record.Name, err)
	}
	if spec.LabelKey != appLabel || spec.LabelValue == "" {
		return "", fmt.Errorf("ConfigMap %s holds no record of kapp (hint: delete it, and one is made anew)", record.Name)
	}
	return spec.LabelValue, nil
}

// UpdateRecord returns the record as it has to be for this version: of the name that
// counts, and with both kinds, which kapp searches for what to delete. changed says
// whether it differs from what exists. All else that kapp wrote is kept.
func UpdateRecord(record *corev1.ConfigMap, name string) (out *corev1.ConfigMap, changed bool, err error) {
	out = record.DeepCopy()
	if n := RecordNames(name); record.Name != n[0] && record.Name != n[1] {
		out.ObjectMeta = metav1.ObjectMeta{Namespace: record.Namespace, Name: n[1], Labels: record.Labels, Annotations: record.Annotations}
		changed = true
	}
	spec := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(record.Data[recordKey]), &spec); err != nil {
		return nil, false, fmt.Errorf("read record %s: %w", record.Name, err)
	}
	var used []groupKind
	if text, ok := spec["usedGKs"]; !ok || string(text) == "null" {
		return out, changed, nil // a record of old stands for all kinds
	} else if err := json.Unmarshal(text, &used); err != nil {
		return nil, false, fmt.Errorf("read record %s: %w", record.Name, err)
	}
	have := len(used)
	for _, k := range kinds() {
		if !slices.Contains(used, k) {
			used = append(used, k)
		}
	}
	if len(used) == have {
		return out, changed, nil
	}
	if spec["usedGKs"], err = json.Marshal(used); err != nil {
		return nil, false, fmt.Errorf("encode record: %w", err)
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, false, fmt.Errorf("encode record: %w", err)
	}
	out.Data[recordKey] = string(text)
	return out, true, nil
}

// Changes returns the selector of kapp's history of a record.
func Changes(record *corev1.ConfigMap, label string) map[string]string {
	const isChange, ofLabel, ofName = "kapp.k14s.io/is-app-change", "kapp.k14s.io/app-change-app-label", "kapp.k14s.io/app-change-app"
	if _, ok := record.Annotations[changesByLabel]; ok {
		return map[string]string{isChange: "", ofLabel: label}
	}
	name := record.Name
	if n := len(name) - len(qualified); n > 0 && name[n:] == qualified {
		name = name[:n]
	}
	return map[string]string{isChange: "", ofName: name}
}
