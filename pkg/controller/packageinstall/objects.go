package packageinstall

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	data "github.com/garboard-dev/garboard/pkg/apis/datapackaging/v1alpha1"
	stored "github.com/garboard-dev/garboard/pkg/apis/internalpackaging/v1alpha1"
	kappctrl "github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	packaging "github.com/garboard-dev/garboard/pkg/apis/packaging/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/packages"
)

// object names something that was written: a PackageInstall or an App.
type object struct {
	app bool
	types.NamespacedName
}

func objectOf(obj client.Object, key types.NamespacedName) object {
	_, app := obj.(*kappctrl.App)
	return object{app, key}
}

// get reads an object, at least as new as our latest write to it, and says whether
// there is one.
func (r *Reconciler) get(ctx context.Context, key types.NamespacedName, obj client.Object) (bool, error) {
	id := objectOf(obj, key)
	r.mu.Lock()
	least, known := r.written[id]
	r.mu.Unlock()
	err := r.Client.Get(ctx, key, obj)
	if stale := known && (apierrors.IsNotFound(err) || err == nil && revision(obj) < least); stale {
		// Deciding on what was before our own write would do it again.
		err = r.Live.Get(ctx, key, obj)
	}
	if apierrors.IsNotFound(err) {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.written, id)
		return false, nil
	}
	return err == nil, err
}

// wrote notes a write, so that no older state is acted on.
func (r *Reconciler) wrote(obj client.Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := objectOf(obj, client.ObjectKeyFromObject(obj))
	r.written[id] = max(r.written[id], revision(obj))
}

func revision(obj client.Object) int64 {
	v, err := strconv.ParseInt(obj.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return v
}

// forget drops everything kept about a PackageInstall that is gone.
func (r *Reconciler) forget(key types.NamespacedName) {
	r.Metrics.Forget(series(&packaging.PackageInstall{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}))
	r.schemas.forget(key)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.written, object{false, key})
	delete(r.written, object{true, key})
	delete(r.failures, key)
	delete(r.warned, key)
}

// observe gathers what decide needs.
func (r *Reconciler) observe(ctx context.Context, pkgi *packaging.PackageInstall) (state, error) {
	s := state{pkgi: pkgi, controller: r.ControllerVersion, syncPeriod: r.Settings.Get().PackageInstallDefaultSyncPeriod}
	app := &kappctrl.App{}
	found, err := r.get(ctx, client.ObjectKeyFromObject(pkgi), app)
	if err != nil {
		return s, fmt.Errorf("read App: %w", err)
	}
	if found {
		s.app = app
	}
	if invalid(pkgi) != "" {
		return s, nil
	}
	if err := r.observePackages(ctx, &s); err != nil {
		return s, fmt.Errorf("read Packages: %w", err)
	}
	if s.request().NeedsKubernetes() {
		s.kubernetes, s.kubernetesErr = r.kubernetes.get(ctx, pkgi)
	}
	return s, nil
}

// observePackages reads what the namespace sees.
func (r *Reconciler) observePackages(ctx context.Context, s *state) error {
	name, namespace := s.pkgi.Spec.PackageRef.RefName, s.pkgi.Namespace
	ns := &corev1.Namespace{}
	if err := r.Client.Get(ctx, types.NamespacedName{Name: namespace}, ns); client.IgnoreNotFound(err) != nil {
		return err
	}
	places := []string{namespace}
	if packages.SeesGlobal(ns, r.GlobalNamespace) {
		places = append(places, r.GlobalNamespace)
	}
	lists := map[string][]*data.Package{}
	for _, place := range places {
		list := &stored.InternalPackageList{}
		if err := r.Client.List(ctx, list, client.InNamespace(place), client.MatchingFields{packageIndex: name}, client.UnsafeDisableDeepCopy); err != nil {
			return err
		}
		// Like the API server does: of what is equal the last in the order of names wins.
		slices.SortFunc(list.Items, func(a, b stored.InternalPackage) int { return compare(a.Name, b.Name) })
		for i := range list.Items {
			if p, err := packages.LoadPackage(&list.Items[i], ""); err == nil {
				lists[place] = append(lists[place], p)
			}
		}
	}
	var global []*data.Package
	if len(places) > 1 {
		global = lists[r.GlobalNamespace]
	}
	s.versions = packages.Merge(global, lists[namespace])
	if len(s.versions) > 0 {
		return nil
	}
	return r.observeNames(ctx, s, places)
}

// observeNames reads which Packages there are at all.
func (r *Reconciler) observeNames(ctx context.Context, s *state, places []string) error {
	names := map[string]bool{}
	for _, place := range places {
		list := &stored.InternalPackageList{}
		if err := r.Client.List(ctx, list, client.InNamespace(place), client.UnsafeDisableDeepCopy); err != nil {
			return err
		}
		for i := range list.Items {
			names[list.Items[i].Spec.RefName] = true
		}
	}
	for name := range names {
		s.refNames = append(s.refNames, name)
	}
	return nil
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// liveApp reads the App from the API server; nil is none.
func (r *Reconciler) liveApp(ctx context.Context, pkgi *packaging.PackageInstall) (*kappctrl.App, error) {
	app := &kappctrl.App{}
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(pkgi), app)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read App: %w", err)
	}
	return app, nil
}

// same says whether an update would change anything.
func same(a, b *kappctrl.App) bool {
	return equality.Semantic.DeepEqual(a.Spec, b.Spec) && equality.Semantic.DeepEqual(a.Annotations, b.Annotations) &&
		equality.Semantic.DeepEqual(a.OwnerReferences, b.OwnerReferences)
}

// placeholder creates a Secret for registry credentials, which secretgen-controller
// fills. One that exists is left alone, whatever it holds.
func (r *Reconciler) placeholder(ctx context.Context, pkgi *packaging.PackageInstall, name string) error {
	known := &metav1.PartialObjectMetadata{}
	known.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	if err := r.Client.Get(ctx, types.NamespacedName{Namespace: pkgi.Namespace, Name: name}, known); err == nil || !apierrors.IsNotFound(err) {
		return err
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pkgi.Namespace, Name: name,
			Annotations: map[string]string{"secretgen.carvel.dev/image-pull-secret": ""},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: packaging.SchemeGroupVersion.String(), Kind: kind, Name: pkgi.Name, UID: pkgi.UID,
			}},
		},
		Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths":{}}`)},
	}
	if err := r.Client.Create(ctx, secret); !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}

// addFinalizer stores the finalizer before there is an App. It changes pkgi.
func (r *Reconciler) addFinalizer(ctx context.Context, pkgi *packaging.PackageInstall) error {
	if slices.Contains(pkgi.Finalizers, Finalizer) {
		return nil
	}
	return r.patchFinalizers(ctx, pkgi, func(list []string) []string { return append(list, Finalizer) })
}

func (r *Reconciler) removeFinalizer(ctx context.Context, pkgi *packaging.PackageInstall) error {
	return client.IgnoreNotFound(r.patchFinalizers(ctx, pkgi, func(list []string) []string {
		return slices.DeleteFunc(list, func(f string) bool { return f == Finalizer })
	}))
}

// patchFinalizers changes the list on exactly the version that was read: the patch
// replaces it as a whole and must not drop what somebody else added.
func (r *Reconciler) patchFinalizers(ctx context.Context, pkgi *packaging.PackageInstall, change func([]string) []string) error {
	next := pkgi.DeepCopy()
	next.Finalizers = change(slices.Clone(pkgi.Finalizers))
	if err := r.Client.Patch(ctx, next, client.MergeFromWithOptions(pkgi, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("change finalizers: %w", err)
	}
	r.wrote(next)
	*pkgi = *next
	return nil
}

// versionAge is how long a cluster's version is believed.
const versionAge = time.Minute

// versionCache keeps the versions of clusters.
type versionCache struct {
	lookup func(context.Context, *packaging.PackageInstall) (string, error)
	now    func() time.Time

	mu    sync.Mutex // guards known
	known map[string]knownVersion
}

type knownVersion struct {
	version string
	at      time.Time
}

// versionTimeout bounds the wait for a cluster that does not answer.
const versionTimeout = 15 * time.Second

// get returns the version of the cluster that pkgi installs to.
func (c *versionCache) get(ctx context.Context, pkgi *packaging.PackageInstall) (string, error) {
	key := "" // a service account is of this cluster
	if cluster := pkgi.Spec.Cluster; pkgi.Spec.ServiceAccountName == "" {
		if cluster == nil || cluster.KubeconfigSecretRef == nil {
			return c.lookup(ctx, pkgi)
		}
		key = fmt.Sprintf("%s/%s/%s", pkgi.Namespace, cluster.KubeconfigSecretRef.Name, cluster.KubeconfigSecretRef.Key)
	}
	now := c.now()
	c.mu.Lock()
	for k, v := range c.known {
		if now.Sub(v.at) > versionAge {
			delete(c.known, k)
		}
	}
	v, ok := c.known[key]
	c.mu.Unlock()
	if ok {
		return v.version, nil
	}
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	version, err := c.lookup(ctx, pkgi)
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = map[string]knownVersion{}
	}
	c.known[key] = knownVersion{version, now}
	return version, nil
}
