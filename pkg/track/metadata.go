package track

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// changedAnnotation holds, in caches only, when an object was last changed.
const changedAnnotation = "cache.garboard.dev/changed"

// Trim is a transform for caches. It drops who manages which field, and of objects
// that are kept as metadata only also the annotations: `kubectl apply` leaves a
// copy of a whole Secret there. What remains of both is the time of the latest
// change, see LastChange.
func Trim(in any) (any, error) {
	// Informers may pass an object twice; the second time its fields are gone.
	if meta, ok := in.(*metav1.PartialObjectMetadata); ok && (len(meta.ManagedFields) > 0 || LastChange(meta).IsZero()) {
		latest := meta.CreationTimestamp.Time
		for _, m := range meta.ManagedFields {
			if m.Time != nil && m.Time.After(latest) {
				latest = m.Time.Time
			}
		}
		meta.Annotations = map[string]string{changedAnnotation: latest.UTC().Format(time.RFC3339)}
	}
	return cache.TransformStripManagedFields()(in)
}

// LastChange returns when an object from a cache with Trim was last changed, in
// seconds, by the API server's clock. Zero means that it is not known.
func LastChange(obj client.Object) time.Time {
	t, err := time.Parse(time.RFC3339, obj.GetAnnotations()[changedAnnotation])
	if err != nil {
		return time.Time{}
	}
	return t
}
