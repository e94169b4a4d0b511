package track

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTrim(t *testing.T) {
	at := func(minute int) metav1.Time { return metav1.Date(2026, 1, 2, 3, minute, 0, 0, time.UTC) }
	wrote := func(minutes ...int) (out []metav1.ManagedFieldsEntry) {
		for _, m := range minutes {
			when := at(m)
			out = append(out, metav1.ManagedFieldsEntry{Manager: "m", Time: &when})
		}
		return append(out, metav1.ManagedFieldsEntry{Manager: "unknown"})
	}
	cases := map[string]struct {
		reason string
		fields []metav1.ManagedFieldsEntry
		want   metav1.Time
	}{
		"Created": {"nobody changed it since", nil, at(0)},
		"Changed": {"the latest of several", wrote(1, 5, 3), at(5)},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			obj := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
				Name: "s", Labels: map[string]string{"kept": ""}, CreationTimestamp: at(0), ManagedFields: c.fields,
				Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: "a copy of the Secret"},
			}}
			for range 2 { // informers do
				if _, err := Trim(obj); err != nil {
					t.Fatal(err)
				}
			}
			if got := LastChange(obj); !got.Equal(c.want.Time) {
				t.Errorf("%s: %s, want %s", c.reason, got, c.want)
			}
			want := map[string]string{changedAnnotation: c.want.Format(time.RFC3339)}
			if diff := cmp.Diff(want, obj.Annotations); diff != "" || len(obj.ManagedFields) > 0 || len(obj.Labels) != 1 {
				t.Errorf("%d fields, labels %v, annotations (-want +got):\n%s", len(obj.ManagedFields), obj.Labels, diff)
			}
		})
	}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"kept": ""}, ManagedFields: wrote(1)}}
	if _, err := Trim(cm); err != nil || len(cm.ManagedFields) > 0 || len(cm.Annotations) != 1 {
		t.Errorf("an object that is kept whole: %+v, error %v", cm, err)
	}
	if !LastChange(cm).IsZero() {
		t.Error("nothing is known of it")
	}
}
