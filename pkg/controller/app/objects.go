package app

import (
	"context"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/garboard-dev/garboard/pkg/refs"
)

// appKey is the context's key for the App that a run is about.
type appKey struct{}

// readBy marks a context as the run of an App, so that Objects knows who reads.
func readBy(ctx context.Context, key types.NamespacedName) context.Context {
	return context.WithValue(ctx, appKey{}, key)
}

// Objects reads Secrets and ConfigMaps for a run from the API server, and notes
// which version the run saw.
type Objects struct {
	kube kubernetes.Interface
	refs *tracker
}

// NewObjects returns Objects that read with the controller's own rights.
func NewObjects(kube kubernetes.Interface) *Objects {
	return &Objects{kube: kube, refs: newTracker()}
}

// Secret returns a Secret.
func (o *Objects) Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	s, err := o.kube.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		o.note(ctx, namespace, refs.Key{Kind: refs.Secret, Name: name}, s.ResourceVersion)
	}
	return s, err
}

// ConfigMap returns a ConfigMap.
func (o *Objects) ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	c, err := o.kube.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		o.note(ctx, namespace, refs.Key{Kind: refs.ConfigMap, Name: name}, c.ResourceVersion)
	}
	return c, err
}

func (o *Objects) note(ctx context.Context, namespace string, key refs.Key, version string) {
	app, ok := ctx.Value(appKey{}).(types.NamespacedName)
	if v, err := strconv.ParseInt(version, 10, 64); ok && err == nil && app.Namespace == namespace {
		o.refs.read(app, key, v)
	}
}
