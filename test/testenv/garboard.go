package testenv

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard-dev/garboard/test/testenv/proc"
)

// Identities of the two processes when the tests run as root. They share one
// group, which owns the folder of the sidecar's socket. Like the users that some
// clusters choose they have no name on this machine.
const (
	controllerUID = 10001
	sidecarUID    = 10002
	sharedGID     = 10000
)

// SystemNamespace and ControllerAccount are where Garboard is installed and whom
// its controller acts as. Packages in GlobalNamespace are seen by all namespaces.
const (
	SystemNamespace   = "kapp-controller"
	GlobalNamespace   = "kapp-controller-packaging-global"
	ControllerAccount = "kapp-controller-sa"
)

// ControllerUser is the controller in the audit log.
const ControllerUser = "system:serviceaccount:" + SystemNamespace + ":" + ControllerAccount

// GarboardOptions change how the two processes are started.
type GarboardOptions struct {
	// ControllerArgs, ControllerEnv and SidecarEnv come after the ones that are
	// always given and so replace them.
	ControllerArgs, ControllerEnv, SidecarEnv []string
}

// Garboard is the two running processes.
type Garboard struct {
	env     *Env
	front   *front
	layout  layout
	options GarboardOptions
	apiPort int // of the first instance

	Controller, Sidecar *Unit
	// MetricsURL serves the controller's metrics.
	MetricsURL string
	// SidecarWorkDir is where the sidecar keeps its workspaces. Only it and root
	// may look into it.
	SidecarWorkDir string
	// ControllerTmpDir is the controller's folder for temporary files.
	ControllerTmpDir string
	// Socket is the sidecar's.
	Socket string
}

// Unit is a process that can be started again.
type Unit struct {
	*proc.Process
	name  string
	spec  proc.Spec
	ready func(context.Context) error
}

// Restart ends the process if it still runs, starts it again and returns when it
// is ready.
func (u *Unit) Restart(ctx context.Context) error {
	if u.Process != nil {
		u.Kill()
	}
	p, err := proc.Start(u.spec)
	if err != nil {
		return err
	}
	u.Process = p
	return p.WaitFor(ctx, u.ready)
}

// readyTimeout bounds the start of one Garboard process.
const readyTimeout = time.Minute

// StartGarboard starts the sidecar and the controller, each under a user of its
// own when the caller is root, after it has applied config/crd and config/rbac.
// Stop ends them.
func (e *Env) StartGarboard(ctx context.Context, o GarboardOptions) (*Garboard, error) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := e.install(ctx); err != nil {
		return nil, fmt.Errorf("install garboard: %w", err)
	}
	l, err := e.layOut()
	if err != nil {
		return nil, fmt.Errorf("start garboard: %w", err)
	}
	kubeconfig, err := e.ServiceAccountKubeconfig(ctx, SystemNamespace, ControllerAccount)
	if err != nil {
		return nil, err
	}
	if err := l.write(controllerUID, "controller/kubeconfig", kubeconfig); err != nil {
		return nil, err
	}
	front, err := newFront()
	if err != nil {
		return nil, err
	}
	e.onStop(front.stop)
	if err := e.registerAPI(ctx, front.port); err != nil {
		return nil, fmt.Errorf("register the packaging API: %w", err)
	}
	g := &Garboard{
		SidecarWorkDir: l.path("sidecar"), ControllerTmpDir: l.path("controller"),
		Socket: l.path("run/sidecar.sock"), env: e, front: front, layout: l, options: o,
	}
	g.Sidecar = &Unit{name: "sidecar", ready: g.sidecarReady, spec: proc.Spec{
		Name: "sidecar", Path: l.path("bin/garboard"), Args: []string{"--sidecarexec"},
		LogFile: filepath.Join(e.logDir, "sidecar.log"), User: user(sidecarUID),
		Env: append([]string{
			"PATH=" + l.path("bin/tools") + ":/usr/local/bin:/usr/bin:/bin",
			"TMPDIR=" + g.SidecarWorkDir,
			"GARBOARD_SIDECAR_WORKDIR=" + g.SidecarWorkDir,
			"KAPPCTRL_SIDECAREXEC_SOCK=" + g.Socket,
			"KAPPCTRL_MEM_TMP_DIR=" + g.SidecarWorkDir,
		}, o.SidecarEnv...),
	}}
	if g.Controller, g.MetricsURL, err = g.instance("controller"); err != nil {
		return nil, err
	}
	for _, u := range []*Unit{g.Sidecar, g.Controller} {
		e.addUnit(u)
		if err := u.Restart(ctx); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// instance describes a controller. All its instances share the sidecar; name is
// also that of its folder and its log.
func (g *Garboard) instance(name string) (u *Unit, metricsURL string, err error) {
	metrics, err := proc.FreePort()
	if err != nil {
		return nil, "", err
	}
	api, err := proc.FreePort()
	if err != nil {
		return nil, "", err
	}
	if err := g.layout.mkdir(name, controllerUID, 0o700); err != nil {
		return nil, "", err
	}
	g.front.add(api)
	if g.apiPort == 0 {
		g.apiPort = api
	}
	e, l := g.env, g.layout
	metricsURL = fmt.Sprintf("http://127.0.0.1:%d/metrics", metrics)
	ready := func(ctx context.Context) error {
		_, err := scrape(ctx, metricsURL)
		return err
	}
	return &Unit{name: name, ready: ready, spec: proc.Spec{
		Name: name, Path: l.path("bin/garboard"),
		Args: append([]string{
			"-kubeconfig=" + l.path("controller/kubeconfig"),
			"-metrics-bind-address=127.0.0.1:" + strconv.Itoa(metrics),
			"-packaging-global-namespace=" + GlobalNamespace,
		}, g.options.ControllerArgs...),
		LogFile: filepath.Join(e.logDir, name+".log"), User: user(controllerUID),
		Env: append([]string{
			"PATH=/usr/bin:/bin",
			"TMPDIR=" + l.path(name),
			"KAPPCTRL_MEM_TMP_DIR=" + l.path(name),
			"KAPPCTRL_SIDECAREXEC_SOCK=" + g.Socket,
			"KAPPCTRL_SYSTEM_NAMESPACE=" + SystemNamespace,
			"KAPPCTRL_KUBERNETES_CA_DATA=" + string(e.CAData()),
			"KAPPCTRL_API_PORT=" + strconv.Itoa(api),
			"KUBERNETES_SERVICE_HOST=" + e.Host(),
			"KUBERNETES_SERVICE_PORT=" + strconv.Itoa(e.Port()),
		}, g.options.ControllerEnv...),
	}}, metricsURL, nil
}

func (e *Env) addUnit(u *Unit) {
	e.mu.Lock()
	e.units = append(e.units, u)
	e.mu.Unlock()
	e.onStop(func() {
		if u.Process != nil {
			u.Kill()
		}
	})
}

func (g *Garboard) sidecarReady(ctx context.Context) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", g.Socket)
	if err != nil {
		return err
	}
	return conn.Close()
}

// Metrics returns what the controller's metrics endpoint serves.
func (g *Garboard) Metrics(ctx context.Context) (string, error) { return scrape(ctx, g.MetricsURL) }

func scrape(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("metrics: %s", res.Status)
	}
	return string(body), err
}

// install applies what an installation of Garboard has besides its Deployment.
func (e *Env) install(ctx context.Context) error {
	for _, name := range []string{SystemNamespace, GlobalNamespace} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := e.Core.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: ControllerAccount}}
	_, err := e.Core.CoreV1().ServiceAccounts(SystemNamespace).Create(ctx, sa, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return e.ApplyFiles(ctx, SystemNamespace, "config/crd/*.yaml", "config/rbac/*.yaml")
}

// BindClusterAdmin gives a service account all rights.
func (e *Env) BindClusterAdmin(ctx context.Context, namespace, account string) error {
	b := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "cluster-admin-" + namespace + "-" + account},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}},
	}
	_, err := e.Core.RbacV1().ClusterRoleBindings().Create(ctx, b, metav1.CreateOptions{})
	return err
}
