package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/pkg/server/healthz"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	utilcompatibility "k8s.io/apiserver/pkg/util/compatibility"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	data "github.com/garboard-dev/garboard/pkg/apis/datapackaging/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/apiserver/openapi"
)

// retryAfter is the pause after an attempt to serve that failed.
const retryAfter = 5 * time.Second

// After a stop, and when no new requests are taken any more, watches are ended within
// watchGrace and all others within drainTime.
const (
	watchGrace = 2 * time.Second
	drainTime  = 10 * time.Second
)

// Options of a Server.
type Options struct {
	// Config reaches the API server that stores packages and knows who may do what.
	// Kubeconfig is the file that it is from; "" means that of a Pod.
	Config     *restclient.Config
	Kubeconfig string
	// Port to serve on, at all addresses.
	Port int
	// GlobalNamespace has the packages that every namespace shows; "" means none.
	GlobalNamespace string
	// PriorityAndFairness queues requests as the cluster's FlowSchemas say.
	PriorityAndFairness bool
	// CipherSuites for TLS 1.2 by their names; none means Go's default.
	CipherSuites []string
	// Cert is what to serve with. It has one by now.
	Cert dynamiccertificates.CertKeyContentProvider
	// Grace is how long new requests are still taken after a stop was asked for:
	// until every kube-apiserver and kube-proxy knows that this instance goes.
	Grace time.Duration
	Log   logr.Logger
}

// Server serves the packaging API.
type Server struct {
	Options
	serving atomic.Bool
}

// Ready fails while packages are not served.
func (s *Server) Ready(*http.Request) error {
	if !s.serving.Load() {
		return errors.New("packages are not served")
	}
	return nil
}

// Run serves until ctx ends. What keeps it from serving is logged and tried again.
func (s *Server) Run(ctx context.Context) {
	for ctx.Err() == nil {
		err := s.serve(ctx)
		s.serving.Store(false)
		if ctx.Err() != nil {
			return
		}
		s.Log.Error(err, "Packages are not served; trying again")
		select {
		case <-ctx.Done():
		case <-time.After(retryAfter):
		}
	}
}

// serve serves once.
func (s *Server) serve(ctx context.Context) error {
	scheme := newScheme()
	codecs := serializer.NewCodecFactory(scheme)
	config := genericapiserver.NewRecommendedConfig(codecs)
	config.EffectiveVersion = utilcompatibility.DefaultBuildEffectiveVersion()
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(openapi.GetOpenAPIDefinitions, openapinamer.NewDefinitionNamer(namedScheme()))
	config.OpenAPIV3Config.Info.Title = "Garboard"
	config.ShutdownDelayDuration, config.ShutdownWatchTerminationGracePeriod = s.Grace, watchGrace
	if err := s.apply(ctx, config, codecs); err != nil {
		if config.SecureServing != nil && config.SecureServing.Listener != nil {
			_ = config.SecureServing.Listener.Close() // the error is what counts
		}
		return err
	}
	informer := config.SharedInformerFactory.Core().V1().Namespaces().Informer()
	kube, err := kubernetes.NewForConfig(s.Config)
	if err != nil {
		return err
	}
	ns := newNamespaces(kube, s.GlobalNamespace, nil)
	pkgs, err := newResource(packageKind(), s, ns)
	if err != nil {
		return err
	}
	metas, err := newResource(metadataKind(), s, ns)
	if err != nil {
		return err
	}
	ns.onChange = func() { pkgs.store.wake(); metas.store.wake() }
	if err := ns.follow(informer); err != nil {
		return err
	}

	// The stores go on until the last request has been answered.
	following, stop := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	wg.Go(func() { pkgs.follow(following) })
	wg.Go(func() { metas.follow(following) })

	config.AddReadyzChecks(healthz.NamedCheck("packages", func(*http.Request) error { return errors.Join(pkgs.synced(), metas.synced()) }))
	server, err := config.Complete().New("garboard", genericapiserver.NewEmptyDelegate())
	if err != nil {
		return fmt.Errorf("create the API server: %w", err)
	}
	server.ShutdownTimeout = drainTime
	group := genericapiserver.NewDefaultAPIGroupInfo(data.SchemeGroupVersion.Group, scheme, metav1.ParameterCodec, codecs)
	group.VersionedResourcesStorageMap[data.SchemeGroupVersion.Version] = map[string]rest.Storage{
		pkgs.kind.resource: pkgs, metas.kind.resource: metas,
	}
	if err := server.InstallAPIGroup(&group); err != nil {
		return fmt.Errorf("install the API: %w", err)
	}
	server.AddPostStartHookOrDie("garboard-serving", func(genericapiserver.PostStartHookContext) error {
		s.serving.Store(true)
		s.Log.Info("Serving packages", "port", s.Port, "globalNamespace", s.GlobalNamespace)
		return nil
	})
	return server.PrepareRun().RunWithContext(ctx)
}

// apply fills in the configuration. Whom to trust comes from the cluster.
func (s *Server) apply(ctx context.Context, config *genericapiserver.RecommendedConfig, codecs serializer.CodecFactory) error {
	kube, err := kubernetes.NewForConfig(s.Config)
	if err != nil {
		return err
	}
	without, err := missing(ctx, kube)
	if err != nil {
		return err
	}
	o := genericoptions.NewRecommendedOptions("", codecs.LegacyCodec(data.SchemeGroupVersion))
	o.Etcd = nil
	o.SecureServing.BindPort = s.Port
	o.SecureServing.CipherSuites = s.CipherSuites
	o.SecureServing.ServerCert = genericoptions.GeneratableKeyCert{GeneratedCert: s.Cert}
	o.Authentication.RemoteKubeConfigFile = s.Kubeconfig
	o.Authorization.RemoteKubeConfigFile = s.Kubeconfig
	o.CoreAPI.CoreAPIKubeconfigPath = s.Kubeconfig
	o.Features.EnableProfiling = false
	o.Features.EnablePriorityAndFairness = s.PriorityAndFairness
	for part, why := range without {
		if part != priorityAndFairness {
			o.Admission.DisablePlugins = append(o.Admission.DisablePlugins, part)
		} else if !s.PriorityAndFairness {
			continue
		} else {
			o.Features.EnablePriorityAndFairness = false
		}
		s.Log.Info("The packaging API does without a part of an API server", "part", part, "reason", why)
	}
	return o.ApplyTo(config)
}

func newResource[T object](k kind[T], s *Server, ns *namespaces) (*resource[T], error) {
	storage, err := newStorage(k, s.Config)
	if err != nil {
		return nil, err
	}
	return &resource[T]{kind: k, storage: storage, store: newStore(k.load, s.GlobalNamespace, s.Log), namespaces: ns}, nil
}

// follow fills the store until ctx ends.
func (r *resource[T]) follow(ctx context.Context) {
	cache.NewReflectorWithOptions(r.storage.listWatch(), r.kind.newStored(), r.store, cache.ReflectorOptions{Name: r.kind.storedResource}).RunWithContext(ctx)
}

func (r *resource[T]) synced() error {
	r.store.mu.RLock()
	defer r.store.mu.RUnlock()
	if !r.store.synced {
		return errNotSynced
	}
	return nil
}
