package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/garboard-dev/garboard/pkg/access"
	internalpackaging "github.com/garboard-dev/garboard/pkg/apis/internalpackaging/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	packaging "github.com/garboard-dev/garboard/pkg/apis/packaging/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/controller/app"
	settingsctrl "github.com/garboard-dev/garboard/pkg/controller/settings"
	"github.com/garboard-dev/garboard/pkg/deploy/kapp"
	"github.com/garboard-dev/garboard/pkg/fetch"
	"github.com/garboard-dev/garboard/pkg/metrics"
	"github.com/garboard-dev/garboard/pkg/pipeline"
	"github.com/garboard-dev/garboard/pkg/settings"
	"github.com/garboard-dev/garboard/pkg/sidecar"
	"github.com/garboard-dev/garboard/pkg/status/writer"
	"github.com/garboard-dev/garboard/pkg/template"
	"github.com/garboard-dev/garboard/pkg/tool"
	"github.com/garboard-dev/garboard/pkg/tool/budget"
	"github.com/garboard-dev/garboard/pkg/track"
)

// compatibleVersion is the kapp-controller release whose contract Garboard keeps:
// what templates and packages that ask for kapp-controller's version are told.
const compatibleVersion = "0.54.0"

// shutdownGrace is how long running deploys have to end after a stop was asked for.
const shutdownGrace = 25 * time.Second

// runController reconciles until ctx ends.
func runController(ctx context.Context, o Options) error {
	log := zap.New(zap.UseDevMode(false)).WithName("kc")
	ctrl.SetLogger(log)
	log.Info("Starting", "version", Version)

	if names := kapp.ForeignVariables(os.Environ()); len(names) > 0 {
		return fmt.Errorf("environment variables %v: kapp would take them for every App; unset them and use rawOptions", names)
	}
	cfg, err := config.GetConfig()
	if err != nil {
		return fmt.Errorf("find the Kubernetes API: %w", err)
	}
	unthrottle(cfg)
	mgr, err := newManager(ctx, cfg, o)
	if err != nil {
		return fmt.Errorf("create controller manager: %w", err)
	}
	tools := sidecar.NewClient(o.Socket)
	defer func() { _ = tools.Shutdown() }()

	set := &settings.Store{}
	if err := setUpSettings(ctx, mgr, o, set, tools); err != nil {
		return err
	}
	with := shared{
		settings: set, tools: tools, reconciles: metrics.NewReconciles(ctrlmetrics.Registry),
		memory: budget.New(budget.Share(tool.ContainerMemory())),
	}
	if err := setUpApps(mgr, o, with); err != nil {
		return err
	}
	if err := setUpRepositories(mgr, o, with); err != nil {
		return err
	}
	if err := setUpInstalls(ctx, mgr, o, with); err != nil {
		return err
	}
	api, err := setUpPackagingAPI(ctx, mgr, o)
	if err != nil {
		return fmt.Errorf("set up the packaging API: %w", err)
	}
	// The API serves a little longer than the manager reconciles, so that another
	// instance can reconcile at once.
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return mgr.Start(ctx) })
	if api != nil {
		g.Go(func() error { api.run(ctx); return nil })
	}
	return g.Wait()
}

// shared is what the controllers have together.
type shared struct {
	settings   *settings.Store
	tools      *sidecar.Client
	reconciles *metrics.Reconciles
	// memory is what the large manifests of all of them may take.
	memory *budget.Budget
}

// unthrottle leaves flow control to the API server's priority and fairness,
// which knows about all clients; a limit here would only make one wait.
func unthrottle(cfg *rest.Config) {
	cfg.QPS, cfg.Burst, cfg.RateLimiter = -1, 0, nil
	cfg.UserAgent = "garboard/" + Version
}

func newManager(ctx context.Context, cfg *rest.Config, o Options) (manager.Manager, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, v1alpha1.AddToScheme, packaging.AddToScheme, internalpackaging.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	grace := shutdownGrace
	opts := ctrl.Options{
		Scheme:                  scheme,
		Metrics:                 metricsserver.Options{BindAddress: o.MetricsAddress},
		HealthProbeBindAddress:  o.HealthAddress,
		GracefulShutdownTimeout: &grace,
		Cache:                   cache.Options{DefaultTransform: track.Trim},
		NewClient: func(cfg *rest.Config, opts client.Options) (client.Client, error) {
			cfg = rest.CopyConfig(cfg)
			cfg.Timeout, opts.HTTPClient = o.APITimeout, nil
			return client.New(cfg, opts)
		},
	}
	if o.Namespace != "" {
		opts.Cache.DefaultNamespaces = map[string]cache.Config{o.Namespace: {}}
		if o.GlobalNamespace != "" {
			opts.Cache.ByObject = map[client.Object]cache.ByObject{
				&internalpackaging.InternalPackage{}: {Namespaces: map[string]cache.Config{o.Namespace: {}, o.GlobalNamespace: {}}},
			}
		}
	}
	if o.Pprof {
		opts.PprofBindAddress = "127.0.0.1:6060"
	}
	if err := elect(ctx, cfg, o, ctrl.Log, &opts); err != nil {
		return nil, fmt.Errorf("set up leader election: %w", err)
	}
	mgr, err := ctrl.NewManager(cfg, opts)
	if err != nil {
		return nil, err
	}
	return mgr, errors.Join(mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("caches", cachesSynced(mgr.GetCache())))
}

// cachesSynced says whether the controller knows the cluster's objects. It asks no
// more than that: a Pod without its sidecar still serves the packaging API.
func cachesSynced(c cache.Cache) healthz.Checker {
	return func(req *http.Request) error {
		ctx, cancel := context.WithTimeout(req.Context(), time.Second)
		defer cancel()
		if !c.WaitForCacheSync(ctx) {
			return errors.New("caches have not synced")
		}
		return nil
	}
}

// setUpSettings reads the administrator's configuration before anything runs,
// and follows it from then on.
func setUpSettings(ctx context.Context, mgr manager.Manager, o Options, set *settings.Store, tools *sidecar.Client) error {
	r := &settingsctrl.Reconciler{
		Reader: mgr.GetAPIReader(), Namespace: o.SystemNamespace, Store: set, Sidecar: tools,
		Events: writer.Events{Client: mgr.GetClient(), Now: time.Now}, APIServerHost: o.APIServerHost,
	}
	if err := r.Load(ctrl.LoggerInto(ctx, mgr.GetLogger())); err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	return r.SetupWithManager(mgr)
}

// newKube returns a client for the controller's own cluster, and its configuration.
func newKube(mgr manager.Manager, o Options) (*rest.Config, kubernetes.Interface, error) {
	cfg := rest.CopyConfig(mgr.GetConfig())
	cfg.Timeout = o.APITimeout
	httpClient, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, nil, err
	}
	kube, err := kubernetes.NewForConfigAndClient(cfg, httpClient)
	if err != nil {
		return nil, nil, fmt.Errorf("create API client: %w", err)
	}
	return cfg, kube, nil
}

func setUpApps(mgr manager.Manager, o Options, with shared) error {
	cfg, kube, err := newKube(mgr, o)
	if err != nil {
		return err
	}
	objects := track.NewObjects(kube)
	deployer := kapp.New(kapp.Options{
		Child: []string{"/proc/self/exe", kappChild},
		OnPanic: func(app string, value any, stack []byte) {
			mgr.GetLogger().Error(fmt.Errorf("panic: %v", value), "Contained a panic of kapp", "app", app, "stack", string(stack))
		},
	})
	metrics.RegisterZombies(ctrlmetrics.Registry, deployer.Zombies)
	identities := access.New(cfg, objects.Kube(), access.Options{CAData: o.CAData})
	r := app.New(app.Config{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Objects: objects,
		Runner: &pipeline.Pipeline{
			Workspaces: workspaces{with.tools},
			Fetch:      fetch.New(objects),
			Template:   template.New(objects),
			Deploy:     deployer,
			Access:     clusters{identities},
			Now:        time.Now, ToolTimeout: o.ToolTimeout,
			Memory: with.memory,
		},
		Forget: with.tools.Forget, Settings: with.settings, Metrics: with.reconciles, Now: time.Now,
		Concurrency: o.Concurrency, WaitingSlots: o.WaitingSlots,
	})
	metrics.RegisterSlots(ctrlmetrics.Registry, r.Slots)
	return r.SetupWithManager(mgr)
}

// workspaces lets the pipeline open work folders in the sidecar.
type workspaces struct{ *sidecar.Client }

func (w workspaces) Open(ctx context.Context, owner string) (pipeline.Workspace, error) {
	return w.Client.Open(ctx, owner)
}

// clusters lets the pipeline resolve identities.
type clusters struct{ *access.Resolver }

func (c clusters) Facts(req access.Request) template.Facts {
	return c.Resolver.Facts(req, compatibleVersion)
}
