// Package controlplane runs a real Kubernetes control plane on loopback ports:
// etcd, kube-apiserver, kube-controller-manager and kube-scheduler from
// test/devcluster, and kwok in place of kubelets. Several can run at once.
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/garboard-dev/garboard/test/testenv/pki"
	"github.com/garboard-dev/garboard/test/testenv/proc"
)

// Options say what to start. BinDir, Dir and LogDir are required.
type Options struct {
	// BinDir holds devcluster and kwok.
	BinDir string
	// Dir is an empty folder for certificates and data; the caller removes it.
	Dir string
	// LogDir receives one log for each component.
	LogDir string
	// Nodes is the number of nodes; 0 means 2.
	Nodes int
}

// ControlPlane is a running control plane. Stop it when done.
type ControlPlane struct {
	dir, binDir, logDir string
	ports               ports
	ca, frontCA         *pki.CA
	procs               []*proc.Process // in the order of their start
	audit               *Audit
}

type ports struct{ etcd, etcdPeer, apiserver int }

// startTimeout bounds a start, which takes three to five seconds on two idle
// cores and several times that while packages are compiled beside it.
const startTimeout = 3 * time.Minute

// Start returns when the API server is ready, all nodes are ready and Pods can
// be created in the default namespace.
func Start(ctx context.Context, o Options) (*ControlPlane, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	c := &ControlPlane{dir: o.Dir, binDir: o.BinDir, logDir: o.LogDir, audit: NewAudit(filepath.Join(o.Dir, "audit.log"))}
	if err := c.start(ctx, max(o.Nodes, 0)); err != nil {
		c.Stop()
		return nil, fmt.Errorf("start control plane: %w", err)
	}
	return c, nil
}

func (c *ControlPlane) start(ctx context.Context, nodes int) error {
	if nodes == 0 {
		nodes = 2
	}
	for _, p := range []*int{&c.ports.etcd, &c.ports.etcdPeer, &c.ports.apiserver} {
		port, err := proc.FreePort()
		if err != nil {
			return err
		}
		*p = port
	}
	if err := c.writeFiles(); err != nil {
		return err
	}
	if _, err := c.run("etcd", c.etcdArgs()...); err != nil {
		return err
	}
	apiserver, err := c.run("kube-apiserver", c.apiserverArgs()...)
	if err != nil {
		return err
	}
	if err := apiserver.WaitFor(ctx, c.ready); err != nil {
		return err
	}
	for name, args := range map[string][]string{
		"kube-controller-manager": c.controllerManagerArgs(),
		"kube-scheduler":          c.schedulerArgs(),
		"kwok":                    c.kwokArgs(),
	} {
		if _, err := c.run(name, args...); err != nil {
			return err
		}
	}
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	for i := range nodes {
		g.Go(func() error { return c.addNode(ctx, client, fmt.Sprintf("node-%d", i)) })
	}
	g.Go(func() error { return c.waitServiceAccount(ctx, client, "default") })
	return g.Wait()
}

// run starts one component. The name that a component is started by selects it
// in the multi-call binary.
func (c *ControlPlane) run(name string, args ...string) (*proc.Process, error) {
	path := filepath.Join(c.binDir, "devcluster")
	if name == "kwok" {
		path = filepath.Join(c.binDir, name)
	} else {
		args = append([]string{name}, args...)
	}
	p, err := proc.Start(proc.Spec{
		Name:    name,
		Path:    path,
		Args:    args,
		Env:     []string{"PATH=/usr/bin:/bin", "HOME=" + c.dir},
		LogFile: filepath.Join(c.logDir, name+".log"),
	})
	if err != nil {
		return nil, err
	}
	c.procs = append(c.procs, p)
	return p, nil
}

// RestartEtcd kills etcd, starts it again with the data that it had, and returns
// when the API server is ready. Nothing else may use Processes meanwhile.
func (c *ControlPlane) RestartEtcd(ctx context.Context) error {
	i := slices.IndexFunc(c.procs, func(p *proc.Process) bool { return len(p.Args()) > 0 && p.Args()[0] == "etcd" })
	if i < 0 {
		return errors.New("etcd does not run")
	}
	c.procs[i].Kill()
	c.procs = slices.Delete(c.procs, i, i+1)
	p, err := c.run("etcd", c.etcdArgs()...)
	if err != nil {
		return err
	}
	return p.WaitFor(ctx, c.ready)
}

// Stop ends all components at once. Nothing is kept, so nothing needs to be
// flushed, and a graceful end of an API server with open watches takes seconds.
func (c *ControlPlane) Stop() {
	for i := len(c.procs) - 1; i >= 0; i-- {
		c.procs[i].Kill()
	}
}

// Config returns the credentials of a cluster administrator. No client-side rate
// limit is set: it would measure the tests and not what they test.
func (c *ControlPlane) Config() *rest.Config {
	return &rest.Config{
		Host: c.URL(),
		TLSClientConfig: rest.TLSClientConfig{
			CAData:   c.ca.CertPEM,
			CertFile: c.path("admin.crt"),
			KeyFile:  c.path("admin.key"),
		},
		QPS: -1,
	}
}

// URL returns the address of the API server.
func (c *ControlPlane) URL() string {
	return "https://" + net.JoinHostPort(c.Host(), strconv.Itoa(c.Port()))
}

// Host returns the IP address of the API server.
func (c *ControlPlane) Host() string { return "127.0.0.1" }

// Port returns the port of the API server.
func (c *ControlPlane) Port() int { return c.ports.apiserver }

// CAData returns the certificate that the API server's is signed by, in PEM.
func (c *ControlPlane) CAData() []byte { return c.ca.CertPEM }

// Kubeconfig returns the path of a file with the administrator's credentials.
func (c *ControlPlane) Kubeconfig() string { return c.path("admin.kubeconfig") }

// Audit returns the record of all API requests.
func (c *ControlPlane) Audit() *Audit { return c.audit }

// Processes returns the components' processes.
func (c *ControlPlane) Processes() []*proc.Process { return c.procs }

func (c *ControlPlane) path(name string) string { return filepath.Join(c.dir, name) }

// ready asks the API server whether all its start-up hooks have run.
func (c *ControlPlane) ready(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return err
	}
	return client.RESTClient().Get().AbsPath("/readyz").Timeout(5 * time.Second).Do(ctx).Error()
}

// writeFiles writes certificates, credentials and configuration. Keys are for
// the caller's user only.
func (c *ControlPlane) writeFiles() error {
	var err error
	if c.ca, err = pki.NewCA("garboard-test"); err != nil {
		return err
	}
	if c.frontCA, err = pki.NewCA("garboard-test-front-proxy"); err != nil {
		return err
	}
	serving, err := c.ca.Server("127.0.0.1", "localhost", "kubernetes", "kubernetes.default",
		"kubernetes.default.svc", "kubernetes.default.svc.cluster.local", "10.0.0.1")
	if err != nil {
		return err
	}
	front, err := c.frontCA.Client("front-proxy-client")
	if err != nil {
		return err
	}
	saKey, saPub, err := pki.SigningKey()
	if err != nil {
		return err
	}
	files := map[string][]byte{
		"ca.crt": c.ca.CertPEM, "front-ca.crt": c.frontCA.CertPEM,
		"apiserver.crt": serving.CertPEM, "apiserver.key": serving.KeyPEM,
		"front.crt": front.CertPEM, "front.key": front.KeyPEM,
		"sa.key": saKey, "sa.pub": saPub,
		"audit.yaml": auditPolicy, "stages.yaml": stages,
	}
	for name, content := range files {
		if err := os.WriteFile(c.path(name), content, 0o600); err != nil {
			return err
		}
	}
	return errors.Join(
		c.writeCredentials("admin", "garboard-test-admin", "system:masters"),
		c.writeCredentials("controller-manager", "system:kube-controller-manager", "system:masters"),
		c.writeCredentials("scheduler", "system:kube-scheduler"),
		c.writeCredentials("kwok", kwokUser, "system:masters"),
		os.WriteFile(c.path("scheduler.yaml"), []byte(fmt.Sprintf(schedulerConfig, c.path("scheduler.kubeconfig"))), 0o600),
	)
}
