package kapp

import (
	"context"
	"net/http"
	"sync"

	cmdcore "carvel.dev/kapp/pkg/kapp/cmd/core"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// depsFactory gives kapp the clients of one run. All requests go through the
// run's fence and the http client that all runs of an identity share.
type depsFactory struct {
	config    *rest.Config
	http      *http.Client
	namespace string // where objects go that name none
	ui        *runUI
	records   *records
	types     *runTypes
	objects   *objects
	denied    *denied
	warnings  bool
	target    sync.Once
}

// DynamicClient returns a client for objects of any kind.
func (f *depsFactory) DynamicClient(opts cmdcore.DynamicClientOpts) (dynamic.Interface, error) {
	f.printTarget()
	cfg := rest.CopyConfig(f.config)
	cfg.WarningHandler = rest.NoWarnings{}
	if opts.Warnings && f.warnings {
		cfg.WarningHandler = rest.NewWarningWriter(lineWriter{f.ui}, rest.WarningWriterOptions{Deduplicate: true})
	}
	client, err := dynamic.NewForConfigAndClient(cfg, f.http)
	if err != nil {
		return nil, err
	}
	return &dynamicClient{Interface: client, objects: f.objects, denied: f.denied, gone: f.gone}, nil
}

// CoreClient returns a client for built-in kinds and for discovery.
func (f *depsFactory) CoreClient() (kubernetes.Interface, error) {
	f.printTarget()
	cfg := rest.CopyConfig(f.config)
	cfg.WarningHandler = rest.NoWarnings{}
	client, err := kubernetes.NewForConfigAndClient(cfg, f.http)
	if err != nil {
		return nil, err
	}
	return &coreClient{Interface: client, deps: f}, nil
}

// flush sends what the records hold back.
func (f *depsFactory) flush() {
	core, err := corev1client.NewForConfigAndClient(f.config, f.http)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushFor)
	defer cancel()
	f.records.flush(ctx, core.ConfigMaps(f.records.namespace))
}

// gone says whether the cluster does not serve gvr any more.
func (f *depsFactory) gone(gvr schema.GroupVersionResource) bool {
	client, err := discovery.NewDiscoveryClientForConfigAndClient(f.config, f.http)
	return err == nil && f.types.gone(client, gvr)
}

// RESTMapper returns a mapper of its own: only preflight checks ask for it.
func (f *depsFactory) RESTMapper() (meta.RESTMapper, error) {
	client, err := discovery.NewDiscoveryClientForConfigAndClient(f.config, f.http)
	if err != nil {
		return nil, err
	}
	return restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client)), nil
}

// ConfigureWarnings says whether to print the API server's warnings.
func (f *depsFactory) ConfigureWarnings(warnings bool) { f.warnings = warnings }

// printTarget prints kapp's first line. kapp would list all nodes to name one;
// that is a large answer for a detail which most identities may not see.
func (f *depsFactory) printTarget() {
	f.target.Do(func() { f.ui.PrintLinef("Target cluster '%s'", f.config.Host) })
}

// The rest of cmdcore.ConfigFactory: a run has one configuration, whatever flags
// and the environment say.

func (f *depsFactory) ConfigurePathResolver(func() (string, error))    {}
func (f *depsFactory) ConfigureContextResolver(func() (string, error)) {}
func (f *depsFactory) ConfigureYAMLResolver(func() (string, error))    {}
func (f *depsFactory) ConfigureClient(float32, int)                    {}
func (f *depsFactory) RESTConfig() (*rest.Config, error)               { return f.config, nil }
func (f *depsFactory) DefaultNamespace() (string, error)               { return f.namespace, nil }

// lineWriter prints the API server's warnings among the other lines.
type lineWriter struct{ ui *runUI }

func (w lineWriter) Write(b []byte) (int, error) {
	w.ui.BeginLinef("%s", b)
	return len(b), nil
}

// coreClient is a client that remembers kapp's records and shares discovery.
type coreClient struct {
	kubernetes.Interface
	deps *depsFactory
}

func (c *coreClient) CoreV1() corev1client.CoreV1Interface {
	return &coreV1{CoreV1Interface: c.Interface.CoreV1(), deps: c.deps}
}

func (c *coreClient) Discovery() discovery.DiscoveryInterfaces {
	return &sharedDiscovery{DiscoveryInterfaces: c.Interface.Discovery(), types: c.deps.types}
}

type coreV1 struct {
	corev1client.CoreV1Interface
	deps *depsFactory
}

func (c *coreV1) ConfigMaps(namespace string) corev1client.ConfigMapInterface {
	live := c.CoreV1Interface.ConfigMaps(namespace)
	if namespace != c.deps.records.namespace {
		return live
	}
	return &recordMaps{ConfigMapInterface: live, records: c.deps.records}
}

func (c *coreV1) Namespaces() corev1client.NamespaceInterface {
	return &namespaces{NamespaceInterface: c.CoreV1Interface.Namespaces(), denied: c.deps.denied}
}
