package certs

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

// APIService is the name of the object that tells kube-apiserver about the API.
const APIService = "v1alpha1.data.packaging.carvel.dev"

var apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}

// How often the keeper looks when nothing tells it to, how soon it tries again after
// an error, and how long a new bundle is given to reach every kube-apiserver.
const (
	lookEvery     = time.Minute
	lookUnwatched = 5 * time.Second
	retryAfter    = 2 * time.Second
	spreadTime    = 3 * time.Second
)

// Options of a Keeper. All but Log are required.
type Options struct {
	Kube    kubernetes.Interface
	Dynamic dynamic.Interface
	// Namespace has the Secret, and the Service that kube-apiserver reaches the API by.
	Namespace, Service string
	// Changes is sent to when the Secret or the APIService may have changed; nil if
	// they cannot be watched.
	Changes <-chan struct{}
	// Leading is closed when this instance may write.
	Leading <-chan struct{}
	Now     func() time.Time
	Log     logr.Logger
}

// Keeper keeps Secret, APIService and Provider in line.
type Keeper struct {
	Options
	provider *Provider
	// private is this instance's own certificate, where it must not write the Secret.
	private *State
	// pending is a certificate that waits until its CA, trusted since then, has spread.
	pending []byte
	since   time.Time
}

// NewKeeper returns a Keeper that gives certificates to the provider.
func NewKeeper(o Options, p *Provider) *Keeper { return &Keeper{Options: o, provider: p} }

// SecretName returns the name of the Secret for the API of a Service.
func SecretName(service string) string { return service + "-certs" }

// Run keeps them in line until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	leading := k.Leading
	for {
		next, err := k.reconcile(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			k.Log.Error(err, "The certificate of the packaging API is not in order; trying again")
			next = retryAfter
		}
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
		case <-leading:
			leading = nil
		case <-k.Changes:
		case <-timer.C:
		}
		timer.Stop()
	}
}

func (k *Keeper) leads() bool {
	select {
	case <-k.Leading:
		return true
	default:
		return false
	}
}

// names are those that kube-apiserver, and people who look, connect to.
func (k *Keeper) names() []string {
	name := k.Service + "." + k.Namespace + ".svc"
	return []string{name, name + ".cluster.local", k.Service + "." + k.Namespace, k.Service, "localhost"}
}

// reconcile returns when to look again.
func (k *Keeper) reconcile(ctx context.Context) (time.Duration, error) {
	api, apiErr := k.Dynamic.Resource(apiServices).Get(ctx, APIService, metav1.GetOptions{})
	published, _ := bundleOf(api)
	state, err := k.state(ctx, published)
	if err != nil {
		return 0, err
	}
	if apiErr == nil && k.leads() {
		if published, err = k.publish(ctx, api, state.CAs); err != nil {
			return 0, err
		}
	}
	wait := k.serve(state, published)
	if apiErr != nil {
		return 0, fmt.Errorf("read APIService %s: %w", APIService, apiErr)
	}
	return wait, nil
}

// state returns what to serve with. A leader makes it what it has to be.
func (k *Keeper) state(ctx context.Context, published []byte) (State, error) {
	secrets := k.Kube.CoreV1().Secrets(k.Namespace)
	name := SecretName(k.Service)
	secret, err := secrets.Get(ctx, name, metav1.GetOptions{})
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return State{}, fmt.Errorf("read Secret %s/%s: %w", k.Namespace, name, err)
	}
	now := State{}
	if !missing {
		now = fromData(secret.Data)
	}
	if !k.leads() {
		return now, nil
	}
	next, reason, err := Next(k.Now(), now, published, k.names())
	if err != nil || reason == "" {
		k.private = nil
		return next, err
	}
	if missing {
		_, err = secrets.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: k.Namespace}, Type: corev1.SecretTypeOpaque, Data: next.data(),
		}, metav1.CreateOptions{})
	} else {
		changed := secret.DeepCopy()
		changed.Data = next.data()
		_, err = secrets.Update(ctx, changed, metav1.UpdateOptions{})
	}
	if apierrors.IsForbidden(err) {
		return k.ownState(published, err)
	}
	if err != nil {
		return State{}, fmt.Errorf("write Secret %s/%s: %w", k.Namespace, name, err)
	}
	k.Log.Info("Stored a certificate for the packaging API", "reason", reason)
	return next, nil
}

// ownState is for clusters whose role does not let the controller write its Secret.
func (k *Keeper) ownState(published []byte, why error) (State, error) {
	now := State{}
	if k.private != nil {
		now = *k.private
	} else {
		k.Log.Info("The packaging API serves with a certificate in memory, which instances do not share: "+
			"let the role of the service account create and update the Secret", "secret", SecretName(k.Service), "reason", why.Error())
	}
	next, _, err := Next(k.Now(), now, published, k.names())
	if err == nil {
		k.private = &next
	}
	return next, err
}

// publish writes the bundle into the APIService, if it is another. Instances that
// have certificates of their own leave each other's CAs in it.
func (k *Keeper) publish(ctx context.Context, api *unstructured.Unstructured, bundle []byte) ([]byte, error) {
	published, insecure := bundleOf(api)
	if k.private != nil {
		bundle = encode(ours(k.Now(), append(parse(bundle), parse(published)...)))
		if Trusts(published, k.private.Cert) && len(ours(k.Now(), parse(published))) == len(parse(published)) {
			bundle = published
		}
	}
	if bytes.Equal(published, bundle) && !insecure {
		return published, nil
	}
	changed := api.DeepCopy()
	unstructured.RemoveNestedField(changed.Object, "spec", "insecureSkipTLSVerify")
	if err := unstructured.SetNestedField(changed.Object, base64.StdEncoding.EncodeToString(bundle), "spec", "caBundle"); err != nil {
		return nil, fmt.Errorf("APIService %s: %w", APIService, err)
	}
	if _, err := k.Dynamic.Resource(apiServices).Update(ctx, changed, metav1.UpdateOptions{}); err != nil {
		return nil, fmt.Errorf("write the CAs into APIService %s: %w", APIService, err)
	}
	k.Log.Info("Told kube-apiserver which CAs the packaging API has", "cas", len(parse(bundle)))
	return bundle, nil
}

// bundleOf returns the CAs that an APIService trusts, and whether it does not care.
func bundleOf(api *unstructured.Unstructured) (bundle []byte, insecure bool) {
	if api == nil {
		return nil, false
	}
	text, _, _ := unstructured.NestedString(api.Object, "spec", "caBundle")
	insecure, _, _ = unstructured.NestedBool(api.Object, "spec", "insecureSkipTLSVerify")
	bundle, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, insecure
	}
	return bundle, insecure
}

// serve takes up a certificate: the first at once, others when they are trusted
// everywhere. It returns when to look again.
func (k *Keeper) serve(s State, published []byte) time.Duration {
	again := lookEvery
	if k.Changes == nil {
		again = lookUnwatched
	}
	current, _ := k.provider.CurrentCertKeyContent()
	switch {
	case len(s.Cert) == 0 || bytes.Equal(current, s.Cert):
		k.pending = nil
		return again
	case current == nil:
	case !Trusts(published, s.Cert):
		k.pending = nil
		return retryAfter
	case !bytes.Equal(k.pending, s.Cert):
		k.pending, k.since = s.Cert, k.Now()
		return spreadTime
	case k.Now().Sub(k.since) < spreadTime:
		return spreadTime
	}
	if k.provider.set(s.Cert, s.Key) {
		k.Log.Info("The packaging API serves with a certificate", "validUntil", parse(s.Cert)[0].NotAfter)
	}
	return again
}
