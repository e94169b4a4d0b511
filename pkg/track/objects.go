package track

import (
	"context"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/garboard-dev/garboard/pkg/refs"
)

// ownerKey is the context's key for the owner that a run is about.
type ownerKey struct{}

// ReadBy marks a context as the run of an owner, so that Objects knows who reads.
func ReadBy(ctx context.Context, key types.NamespacedName) context.Context {
	return context.WithValue(ctx, ownerKey{}, key)
}

// Objects reads Secrets and ConfigMaps for a run from the API server, and notes
// which version the run saw.
type Objects struct {
	// Refs is told what was read.
	Refs *Tracker
	kube kubernetes.Interface
}

// NewObjects returns Objects that read with the rights of kube, for owners of one
// kind.
func NewObjects(kube kubernetes.Interface) *Objects {
	return &Objects{kube: kube, Refs: NewTracker()}
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

// Kube returns a client that notes the Secrets which are read through it one by one.
func (o *Objects) Kube() kubernetes.Interface { return noting{o.kube, o} }

type noting struct {
	kubernetes.Interface
	o *Objects
}

func (n noting) CoreV1() corev1client.CoreV1Interface { return notingCore{n.Interface.CoreV1(), n.o} }

type notingCore struct {
	corev1client.CoreV1Interface
	o *Objects
}

func (n notingCore) Secrets(namespace string) corev1client.SecretInterface {
	return notingSecrets{n.CoreV1Interface.Secrets(namespace), n.o, namespace}
}

type notingSecrets struct {
	corev1client.SecretInterface
	o         *Objects
	namespace string
}

func (n notingSecrets) Get(ctx context.Context, name string, opts metav1.GetOptions) (*corev1.Secret, error) {
	s, err := n.SecretInterface.Get(ctx, name, opts)
	if err == nil {
		n.o.note(ctx, n.namespace, refs.Key{Kind: refs.Secret, Name: name}, s.ResourceVersion)
	}
	return s, err
}

func (o *Objects) note(ctx context.Context, namespace string, key refs.Key, version string) {
	owner, ok := ctx.Value(ownerKey{}).(types.NamespacedName)
	if v, err := strconv.ParseInt(version, 10, 64); ok && err == nil && owner.Namespace == namespace {
		o.Refs.Read(owner, key, v)
	}
}
