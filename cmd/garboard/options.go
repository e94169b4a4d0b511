package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client/config"
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
	fs.StringVar(&o.MetricsAddress, "metrics-bind-address", ":8080", "address to serve metrics on; 0 serves none")
	fs.StringVar(&o.HealthAddress, "health-probe-bind-address", "0", "address to serve /healthz and /readyz on; 0 serves none")
	fs.BoolVar(&o.Pprof, "dangerous-enable-pprof", false, "serve profiles on 127.0.0.1:6060")
	fs.DurationVar(&o.APITimeout, "api-request-timeout", 0, "time limit for a request to a Kubernetes API; 0 sets none")
	fs.DurationVar(&o.ToolTimeout, "tool-timeout", 15*time.Minute, "time limit for fetching, and for templating; 0 sets none")
	fs.BoolVar(&o.RequireContainment, "require-containment", false, "sidecar: refuse to run on a kernel that cannot contain tools")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("argument %q: flags are all that is taken", fs.Arg(0))
	}
	o.MetricsAddress = cmp.Or(o.MetricsAddress, ":8080")
	if o.WorkDir == "" {
		// kapp-controller's manifest gives the sidecar no folder but the one in memory
		// that holds the socket; anywhere else, secrets could reach a disk.
		o.WorkDir = filepath.Join(cmp.Or(getenv("KAPPCTRL_MEM_TMP_DIR"), filepath.Dir(o.Socket)), "garboard-sidecar")
	}
	return o, o.Validate()
}

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
	if o.APITimeout < 0 {
		bad("-api-request-timeout %s: expected 0 or more", o.APITimeout)
	}
	if o.ToolTimeout < 0 {
		bad("-tool-timeout %s: expected 0 or more", o.ToolTimeout)
	}
	return errors.Join(errs...)
}
