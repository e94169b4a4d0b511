package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/garboard-dev/garboard/pkg/apiserver"
	"github.com/garboard-dev/garboard/pkg/apiserver/certs"
)

// apiGrace is how long the packaging API takes new requests after a stop was asked
// for: by then nobody sends any.
const apiGrace = 5 * time.Second

// packagingAPI serves Packages. Nothing else in this process waits for it or reads
// through it.
type packagingAPI struct {
	server    *apiserver.Server
	keeper    *certs.Keeper
	provider  *certs.Provider
	informers []cache.SharedIndexInformer
}

// setUpPackagingAPI returns nil if it is not wanted.
func setUpPackagingAPI(ctx context.Context, mgr manager.Manager, o Options) (*packagingAPI, error) {
	if !o.StartAPIServer {
		return nil, nil
	}
	log, cfg := mgr.GetLogger().WithName("packaging-api"), mgr.GetConfig()
	klog.SetLogger(log.V(1)) // what the library tells is for those who look for a fault in it
	kube, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	dyn, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	api := &packagingAPI{provider: certs.NewProvider()}
	changes, err := api.watch(ctx, kube, mgr, o)
	if err != nil {
		return nil, err
	}
	api.keeper = certs.NewKeeper(certs.Options{
		Kube: kube, Dynamic: dyn, Namespace: o.SystemNamespace, Service: o.SystemService,
		Changes: changes, Leading: mgr.Elected(), Now: time.Now, Log: log,
	}, api.provider)
	api.server = &apiserver.Server{Options: apiserver.Options{
		Config: cfg, Kubeconfig: o.Kubeconfig, Port: o.APIPort, GlobalNamespace: o.GlobalNamespace,
		PriorityAndFairness: o.PriorityAndFairness, CipherSuites: o.CipherSuites, Cert: api.provider, Grace: apiGrace, Log: log,
	}}
	return api, mgr.AddReadyzCheck("packaging-api", api.server.Ready)
}

// watch returns what is sent to when the Secret or the APIService may have changed;
// nil where the role does not allow to watch both.
func (a *packagingAPI) watch(ctx context.Context, kube kubernetes.Interface, mgr manager.Manager, o Options) (<-chan struct{}, error) {
	client, err := metadata.NewForConfig(mgr.GetConfig())
	if err != nil {
		return nil, err
	}
	changes := make(chan struct{}, 1)
	tell := func(any) {
		select {
		case changes <- struct{}{}:
		default: // it will look anyway
		}
	}
	for _, what := range []authorizationv1.ResourceAttributes{
		{Version: "v1", Resource: "secrets", Namespace: o.SystemNamespace, Name: certs.SecretName(o.SystemService)},
		{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices", Name: certs.APIService},
	} {
		ok, err := apiserver.May(ctx, kube, what, "list", "watch")
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, nil
		}
		gvr := schema.GroupVersionResource{Group: what.Group, Version: what.Version, Resource: what.Resource}
		informer := metadatainformer.NewFilteredMetadataInformer(client, gvr, what.Namespace, 0, cache.Indexers{}, func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector("metadata.name", what.Name).String()
		}).Informer()
		handler := cache.ResourceEventHandlerFuncs{AddFunc: tell, UpdateFunc: func(_, obj any) { tell(obj) }, DeleteFunc: tell}
		if _, err := informer.AddEventHandler(handler); err != nil {
			return nil, fmt.Errorf("watch %s: %w", what.Resource, err)
		}
		a.informers = append(a.informers, informer)
	}
	return changes, nil
}

// run serves until ctx ends, and a little longer.
func (a *packagingAPI) run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, informer := range a.informers {
		wg.Go(func() { informer.RunWithContext(ctx) })
	}
	wg.Go(func() { a.keeper.Run(ctx) })
	select {
	case <-ctx.Done():
	case <-a.provider.Ready():
		a.server.Run(ctx)
	}
}
