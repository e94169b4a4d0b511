package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	cliflag "k8s.io/component-base/cli/flag"
	"sigs.k8s.io/controller-runtime/pkg/client/config"

	"github.com/garboard-dev/garboard/pkg/sidecar"
)

// Options is everything that flags and the environment say. Flags and variables
// that kapp-controller has keep their names, defaults and meaning.
type Options struct {
	// Sidecar picks the mode.
	Sidecar bool

	// Concurrency is the number of Apps that work at once, 1 to 1000.
	Concurrency int
	// WaitingSlots is the number of deploys beside them that only wait for their
	// cluster, 0 to 1000. Each holds its manifest and kapp's state in memory. One that
	// finds no slot keeps its place among those that work.
	WaitingSlots int
	// Namespace restricts the controller to one namespace; empty means all.
	Namespace string
	// GlobalNamespace is the one whose Packages all namespaces see; empty is none.
	GlobalNamespace string
	// LeaderElect makes one of several instances reconcile, the one that holds the
	// Lease. LeaseDuration is how long others wait for one that is gone, 3s to 10m.
	LeaderElect   bool
	LeaseDuration time.Duration

	// StartAPIServer serves Packages on APIPort, which kube-apiserver reaches by the
	// Service SystemService of the controller's own namespace.
	StartAPIServer bool
	APIPort        int
	SystemService  string
	// PriorityAndFairness queues requests to it as the cluster's FlowSchemas say.
	PriorityAndFairness bool
	// CipherSuites are those that it takes up to TLS 1.2; none means Go's.
	CipherSuites []string
	// Kubeconfig is the file that the Kubernetes API is reached with; empty in a Pod.
	Kubeconfig string

	// MetricsAddress is where metrics are served; 0 serves none.
	MetricsAddress string
	// HealthAddress is where /healthz and /readyz are served; 0 serves none.
	HealthAddress string
	// Pprof serves profiles on the loopback interface, port 6060.
	Pprof bool
	// APITimeout bounds each request to a Kubernetes API but watches; 0 does not.
	APITimeout time.Duration
	// ToolTimeout bounds the fetch stage and the template stage each; 0 does not.
	ToolTimeout time.Duration

	// Socket is where sidecar and controller meet.
	Socket string
	// WorkDir is the sidecar's own folder.
	WorkDir string
	// RequireContainment makes the sidecar refuse a kernel that cannot contain tools.
	RequireContainment bool
	// CacheBytes bounds what the sidecar keeps of fetched content that cannot change.
	CacheBytes int64
	// SystemNamespace is the controller's own; its configuration is there.
	SystemNamespace string
	// CAData is the PEM bundle that service accounts trust; empty means the
	// controller's own.
	CAData []byte
	// APIServerHost is what stands for the API server in the configuration's noProxy.
	APIServerHost string
}

func parseOptions(args []string, getenv func(string) string, out io.Writer) (Options, error) {
	o := Options{
		Socket:          getenv("KAPPCTRL_SIDECAREXEC_SOCK"),
		SystemNamespace: getenv("KAPPCTRL_SYSTEM_NAMESPACE"),
		CAData:          []byte(getenv("KAPPCTRL_KUBERNETES_CA_DATA")),
		APIServerHost:   getenv("KUBERNETES_SERVICE_HOST"),
		WorkDir:         getenv("GARBOARD_SIDECAR_WORKDIR"),
	}
	fs := flag.NewFlagSet("garboard", flag.ContinueOnError)
	fs.SetOutput(out)
	config.RegisterFlags(fs) // kubeconfig
	fs.BoolVar(&o.Sidecar, "sidecarexec", false, "run as the sidecar, which runs fetch and template tools")
	fs.IntVar(&o.Concurrency, "concurrency", 10, "number of Apps that work at once, 1 to 1000")
	fs.IntVar(&o.WaitingSlots, "waiting-slots", 200, "number of deploys that wait for their cluster beside them, 0 to 1000")
	fs.StringVar(&o.Namespace, "namespace", "", "namespace to watch; empty watches all")
	fs.StringVar(&o.GlobalNamespace, "packaging-global-namespace", "", "namespace whose Packages all namespaces see; empty is none")
	fs.BoolVar(&o.LeaderElect, "leader-elect", true, "let one of several instances reconcile, where the role allows Leases")
	fs.DurationVar(&o.LeaseDuration, "leader-elect-lease-duration", 15*time.Second, "time after which another instance takes over from one that is gone, 3s to 10m")
	fs.BoolVar(&o.StartAPIServer, "start-api-server", true, "serve the API for Packages")
	fs.BoolVar(&o.PriorityAndFairness, "enable-api-priority-and-fairness", true, "queue requests for Packages as the cluster's FlowSchemas say")
	suites := fs.String("tls-cipher-suites", "", "cipher suites of the API for Packages, with commas between them; empty takes Go's")
	fs.StringVar(&o.MetricsAddress, "metrics-bind-address", ":8080", "address to serve metrics on; 0 serves none")
	fs.StringVar(&o.HealthAddress, "health-probe-bind-address", "0", "address to serve /healthz and /readyz on; 0 serves none")
	fs.BoolVar(&o.Pprof, "dangerous-enable-pprof", false, "serve profiles on 127.0.0.1:6060")
	fs.DurationVar(&o.APITimeout, "api-request-timeout", 0, "time limit for a request to a Kubernetes API; 0 sets none")
	fs.DurationVar(&o.ToolTimeout, "tool-timeout", 15*time.Minute, "time limit for fetching, and for templating; 0 sets none")
	fs.BoolVar(&o.RequireContainment, "require-containment", false, "sidecar: refuse to run on a kernel that cannot contain tools")
	fs.Int64Var(&o.CacheBytes, "cache-bytes", sidecar.DefaultCacheBytes, "sidecar: bytes of fetched content to keep for all Apps together, at least 1048576")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("argument %q: flags are all that is taken", fs.Arg(0))
	}
	apiErr := o.parseAPI(getenv, *suites)
	o.Kubeconfig = kubeconfigFile(fs.Lookup("kubeconfig").Value.String(), getenv)
	o.MetricsAddress = cmp.Or(o.MetricsAddress, ":8080")
	if o.WorkDir == "" {
		// kapp-controller's manifest gives the sidecar no folder but the one in memory
		// that holds the socket; anywhere else, secrets could reach a disk.
		o.WorkDir = filepath.Join(cmp.Or(getenv("KAPPCTRL_MEM_TMP_DIR"), filepath.Dir(o.Socket)), "garboard-sidecar")
	}
	return o, errors.Join(apiErr, o.Validate())
}

// parseAPI reads what is about the API for Packages. The texts are kapp-controller's.
func (o *Options) parseAPI(getenv func(string) string, suites string) error {
	o.SystemService = cmp.Or(getenv("KAPPCTRL_SYSTEM_SERVICE"), "packaging-api")
	o.CipherSuites = strings.FieldsFunc(suites, func(r rune) bool { return r == ',' || r == ' ' })
	if o.Sidecar || !o.StartAPIServer {
		return nil
	}
	if _, err := cliflag.TLSCipherSuites(o.CipherSuites); err != nil {
		return fmt.Errorf("unable to parse TLSCipherSuites: %w (-tls-cipher-suites)", err)
	}
	text := getenv("KAPPCTRL_API_PORT")
	if text == "" {
		return errors.New("Expected to find KAPPCTRL_API_PORT env var: the port to serve Packages on, or -start-api-server=false")
	}
	port, err := strconv.Atoi(text)
	if err != nil || port > 65535 {
		return fmt.Errorf("KAPPCTRL_API_PORT %q: expected a number from 1024 to 65535", text)
	}
	if port < 1024 {
		return fmt.Errorf("error initializing API Port to %v - try passing a port above 1023", port)
	}
	o.APIPort = port
	return nil
}

// kubeconfigFile returns what controller-runtime's client reads too, or "" in a Pod.
func kubeconfigFile(flagged string, getenv func(string) string) string {
	if flagged != "" {
		return flagged
	}
	if list := filepath.SplitList(getenv("KUBECONFIG")); len(list) > 0 {
		return list[0]
	}
	if getenv("KUBERNETES_SERVICE_HOST") != "" || getenv("HOME") == "" {
		return ""
	}
	return filepath.Join(getenv("HOME"), ".kube", "config")
}

// minCacheBytes is what still holds a few small images.
const minCacheBytes = 1 << 20

// Validate returns an error that names each option that cannot be.
func (o Options) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.Socket == "" {
		bad("KAPPCTRL_SIDECAREXEC_SOCK: expected the path of the sidecar's socket")
	}
	if o.Sidecar {
		return errors.Join(errs...)
	}
	if o.SystemNamespace == "" {
		bad("KAPPCTRL_SYSTEM_NAMESPACE: expected the controller's own namespace")
	}
	if o.Concurrency < 1 || o.Concurrency > 1000 {
		bad("-concurrency %d: expected 1 to 1000", o.Concurrency)
	}
	if o.WaitingSlots < 0 || o.WaitingSlots > 1000 {
		bad("-waiting-slots %d: expected 0 to 1000", o.WaitingSlots)
	}
	if o.LeaseDuration < minLease || o.LeaseDuration > maxLease {
		bad("-leader-elect-lease-duration %s: expected %s to %s", o.LeaseDuration, minLease, maxLease)
	}
	if o.APITimeout < 0 {
		bad("-api-request-timeout %s: expected 0 or more", o.APITimeout)
	}
	if o.CacheBytes < minCacheBytes {
		bad("-cache-bytes %d: expected %d or more", o.CacheBytes, minCacheBytes)
	}
	if o.ToolTimeout < 0 {
		bad("-tool-timeout %s: expected 0 or more", o.ToolTimeout)
	}
	return errors.Join(errs...)
}
