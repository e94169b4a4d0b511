// Package settings keeps the controller's settings equal to the Secret or ConfigMap
// kapp-controller-config, and the sidecar's certificates and proxy equal to them.
package settings

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/garboard-dev/garboard/pkg/settings"
	"github.com/garboard-dev/garboard/pkg/sidecar"
	"github.com/garboard-dev/garboard/pkg/status"
)

// ObjectName is the name of the Secret, or else the ConfigMap, that holds the
// configuration.
const ObjectName = "kapp-controller-config"

// Sidecar takes what tools need to reach the network. Its client satisfies it, and
// repeats the latest values to a sidecar that was restarted.
type Sidecar interface {
	// ApplyCACerts replaces the certificates that are trusted besides the system's.
	ApplyCACerts(ctx context.Context, pem string) error
	// ApplyProxy replaces the proxy; empty fields clear it.
	ApplyProxy(ctx context.Context, proxy sidecar.Proxy) error
}

// Events writes Events; writer.Events satisfies it.
type Events interface {
	Tell(ctx context.Context, obj client.Object, e status.Event)
}

// Reconciler has all its fields set.
type Reconciler struct {
	// Reader reads live: the configuration is one object that changes rarely.
	Reader client.Reader
	// Namespace is the controller's own, the only one that is looked at.
	Namespace string
	// Store gets each configuration that can be parsed.
	Store *settings.Store
	// Sidecar is told of each, and on start.
	Sidecar Sidecar
	// Events gets a warning about each that can't.
	Events Events
	// APIServerHost replaces the placeholder in noProxy; it may be empty.
	APIServerHost string
}

// Load reads the configuration for the first time, before anything is reconciled
// that depends on it, and applies it. An error means that the configuration can't
// be read or is wrong; a sidecar that does not answer is logged, because it may
// still be starting and the reconciler tries again.
func (r *Reconciler) Load(ctx context.Context) error {
	obj, data, err := r.read(ctx)
	if err != nil {
		return err
	}
	parsed, err := settings.Parse(data)
	if err != nil {
		return fmt.Errorf("%s: %w", describe(obj), err)
	}
	r.Store.Set(parsed)
	if err := r.apply(ctx, parsed); err != nil {
		log.FromContext(ctx).Error(err, "Applying the configuration failed, will try again")
	}
	return nil
}

// Reconcile reads and applies the configuration. A wrong one leaves the previous
// in force until the object changes again: trying again would not help.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	obj, data, err := r.read(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	logger := log.FromContext(ctx)
	parsed, err := settings.Parse(data)
	if err != nil {
		// The API server refuses a note of over 1 kB, and the error quotes the value.
		text := fmt.Sprintf("%.900s; the previous configuration stays in force", err.Error())
		r.Events.Tell(ctx, obj, status.Event{Warning: true, Reason: "InvalidConfiguration", Text: text})
		logger.Info("Configuration is wrong, the previous one stays in force", "object", describe(obj), "error", err.Error())
		return reconcile.Result{}, nil
	}
	if doubts := settings.Doubts(data); len(doubts) > 0 {
		text := fmt.Sprintf("%.1000s", strings.Join(doubts, "; "))
		r.Events.Tell(ctx, obj, status.Event{Warning: true, Reason: "DoubtfulConfiguration", Text: text})
	}
	if r.Store.Set(parsed) {
		logger.Info("Configuration changed", "object", describe(obj), "keys", slices.Sorted(maps.Keys(data)))
	}
	return reconcile.Result{}, r.apply(ctx, parsed)
}

// read returns the object that counts and its data; both are nil if there is none.
func (r *Reconciler) read(ctx context.Context) (client.Object, map[string]string, error) {
	key := client.ObjectKey{Namespace: r.Namespace, Name: ObjectName}
	secret := &corev1.Secret{}
	err := r.Reader.Get(ctx, key, secret)
	if err == nil {
		data := make(map[string]string, len(secret.Data))
		for name, value := range secret.Data {
			data[name] = string(value)
		}
		return secret, data, nil
	}
	// The ConfigMap must not take over while the Secret can't be read.
	if !apierrors.IsNotFound(err) {
		return nil, nil, fmt.Errorf("get secret %s: %w", key, err)
	}
	configMap := &corev1.ConfigMap{}
	err = r.Reader.Get(ctx, key, configMap)
	switch {
	case err == nil:
		return configMap, configMap.Data, nil
	case apierrors.IsNotFound(err):
		return nil, nil, nil
	}
	return nil, nil, fmt.Errorf("get configmap %s: %w", key, err)
}

// apply tells the sidecar, both parts even if one fails.
func (r *Reconciler) apply(ctx context.Context, s settings.Settings) error {
	var errs []error
	if err := r.Sidecar.ApplyCACerts(ctx, s.CACerts); err != nil {
		errs = append(errs, fmt.Errorf("apply CA certificates: %w", err))
	}
	proxy := s.Proxy.ForCluster(r.APIServerHost)
	err := r.Sidecar.ApplyProxy(ctx, sidecar.Proxy{HTTPProxy: proxy.HTTP, HTTPSProxy: proxy.HTTPS, NoProxy: proxy.No})
	if err != nil {
		errs = append(errs, fmt.Errorf("apply proxy: %w", err))
	}
	return errors.Join(errs...)
}

// describe names the object as kind, namespace and name.
func describe(obj client.Object) string {
	switch obj := obj.(type) {
	case *corev1.Secret:
		return "secret " + obj.Namespace + "/" + obj.Name
	case *corev1.ConfigMap:
		return "configmap " + obj.Namespace + "/" + obj.Name
	}
	return "no object: defaults"
}
