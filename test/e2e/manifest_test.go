package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/test/testenv"
	"github.com/garboard-dev/garboard/test/testenv/proc"
)

// Tests in this file run in place of the shared controller, so none is parallel:
// they run before all that are.

// tokenPath is where Kubernetes puts the token of a Pod's service account.
const tokenPath = "/var/run/secrets/kubernetes.io/serviceaccount"

// pod is the Pod of a Deployment, as processes: no kubelet runs containers here.
type pod struct {
	*testing.T
	name  string
	spec  corev1.PodSpec
	ports map[string]int // by name
	dirs  map[string]string
}

// container returns the process of a container: its own arguments and variables
// with the folders of its volumes for their paths and free ports for its ports,
// and what kubelet and image add.
func (p pod) container(c corev1.Container) proc.Spec {
	p.Helper()
	replace := []string{}
	masked := p.spec.AutomountServiceAccountToken != nil && !*p.spec.AutomountServiceAccountToken
	// The root is the image's: what has no volume of its own cannot be written.
	tmp, token := "/nonexistent", !masked
	mounts := slices.Clone(c.VolumeMounts)
	slices.SortFunc(mounts, func(a, b corev1.VolumeMount) int { return len(b.MountPath) - len(a.MountPath) })
	for _, m := range mounts {
		dir := p.dirs[m.Name]
		switch m.MountPath {
		case tokenPath:
			token = dir == ""
		case "/tmp":
			tmp = dir
		}
		replace = append(replace, m.MountPath+"/", dir+"/", m.MountPath, dir)
	}
	for _, port := range c.Ports {
		replace = append(replace, strconv.Itoa(int(port.ContainerPort)), strconv.Itoa(p.ports[port.Name]))
	}
	fill := strings.NewReplacer(replace...).Replace
	variables := []string{
		"PATH=" + p.dir("g/bin/tools") + ":/usr/local/bin:/usr/bin:/bin", "HOME=" + tmp, "TMPDIR=" + tmp,
		"KUBERNETES_SERVICE_HOST=" + env.Host(), "KUBERNETES_SERVICE_PORT=" + strconv.Itoa(env.Port()),
	}
	user := p.user(c)
	if token {
		// In a Pod both are files in tokenPath.
		variables = append(variables, "KUBECONFIG="+p.kubeconfig(user), "KAPPCTRL_KUBERNETES_CA_DATA="+string(env.CAData()))
	}
	for _, e := range c.Env {
		value := e.Value
		if e.ValueFrom != nil && e.ValueFrom.FieldRef.FieldPath == "metadata.namespace" {
			value = testenv.SystemNamespace
		}
		variables = append(variables, e.Name+"="+fill(value))
	}
	args := []string{}
	for _, arg := range c.Args {
		args = append(args, fill(arg))
	}
	return proc.Spec{
		Name: c.Name, Path: filepath.Join(p.dir("g/bin"), "garboard"), Args: args, Env: variables, User: user,
		LogFile: filepath.Join(env.LogDir(), p.name+"-"+c.Name+".log"),
	}
}

func (p pod) dir(name string) string {
	p.Helper()
	dir, err := env.Dir(name)
	if err != nil {
		p.Fatal(err)
	}
	return dir
}

// user is whom the container runs as, nil where this test may not choose.
func (p pod) user(c corev1.Container) *proc.User {
	if os.Geteuid() != 0 {
		return nil
	}
	u := &proc.User{} // group 0, as the image says
	if s := p.spec.SecurityContext; s != nil {
		if s.RunAsUser != nil {
			u.UID = uint32(*s.RunAsUser)
		}
		if s.RunAsGroup != nil {
			u.GID = uint32(*s.RunAsGroup)
		}
	}
	if s := c.SecurityContext; s != nil && s.RunAsUser != nil {
		u.UID = uint32(*s.RunAsUser)
	}
	if u.UID == 0 {
		p.Fatalf("container %s runs as root", c.Name)
	}
	return u
}

func (p pod) kubeconfig(user *proc.User) string {
	p.Helper()
	content, err := env.ServiceAccountKubeconfig(p.Context(), testenv.SystemNamespace, p.spec.ServiceAccountName)
	if err != nil {
		p.Fatal(err)
	}
	file := filepath.Join(p.dir(p.name), "kubeconfig")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		p.Fatal(err)
	}
	if user != nil {
		if err := os.Chown(file, int(user.UID), int(user.GID)); err != nil {
			p.Fatal(err)
		}
	}
	return file
}

// volumes makes a folder for each empty volume, as kubelet does: for everybody,
// and with the group that the Pod names.
func (p pod) volumes() {
	p.Helper()
	for _, v := range p.spec.Volumes {
		if v.EmptyDir == nil {
			continue
		}
		dir := p.dir(filepath.Join(p.name, v.Name))
		if s := p.spec.SecurityContext; os.Geteuid() == 0 && s != nil && s.FSGroup != nil {
			if err := os.Chown(dir, 0, int(*s.FSGroup)); err != nil {
				p.Fatal(err)
			}
		}
		if err := os.Chmod(dir, 0o777|os.ModeSetgid); err != nil {
			p.Fatal(err)
		}
		p.dirs[v.Name] = dir
	}
}

// runPod starts the containers of the Deployment in manifest, in their order and
// without waiting for one before the next, and returns when metrics and the
// packaging API are served.
func runPod(t *testing.T, name string, objects []*unstructured.Unstructured) pod {
	t.Helper()
	d := appsv1.Deployment{}
	for _, obj := range objects {
		if obj.GetKind() == "Deployment" {
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &d); err != nil {
				t.Fatal(err)
			}
		}
	}
	p := pod{t, name, d.Spec.Template.Spec, map[string]int{}, map[string]string{}}
	p.volumes()
	for _, c := range p.spec.Containers {
		for _, port := range c.Ports {
			free, err := proc.FreePort()
			if err != nil {
				t.Fatal(err)
			}
			p.ports[port.Name] = free
		}
	}
	for _, c := range p.spec.Containers {
		started, err := proc.Start(p.container(c))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := started.Stop(patience); err != nil {
				t.Errorf("%s: %v", c.Name, err)
			}
			if t.Failed() {
				t.Logf("%s:\n%s", c.Name, started.LogTail(60))
			}
		})
	}
	testenv.Eventually(t, patience, func(context.Context) string { return p.serves("metrics", "/metrics") })
	testenv.Eventually(t, patience, func(context.Context) string { return p.serves("api", "/readyz") })
	garboard.AddInstance(p.ports["api"])
	env.WaitForAPI(t)
	return p
}

// serves says whether a port answers with OK.
func (p pod) serves(port, path string) string {
	// Whom the certificate is for is not what this asks.
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	scheme := map[string]string{"api": "https"}[port]
	if scheme == "" {
		scheme = "http"
	}
	req, err := http.NewRequestWithContext(p.Context(), http.MethodGet, fmt.Sprintf("%s://127.0.0.1:%d%s", scheme, p.ports[port], path), nil)
	if err != nil {
		return err.Error()
	}
	res, err := client.Do(req)
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
		return fmt.Sprintf("%s answers %s, %v", path, res.Status, err)
	}
	return ""
}

// works deploys and deletes an App: fetch and template in the sidecar, deploy in
// the controller, and a change of a Secret.
func (p pod) works() {
	p.Helper()
	w := newWorld(p.T)
	secret := func(v string) {
		w.apply(fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {name: files}, stringData: {a.yml: %q}}", cm("from-pod", "v", v)))
	}
	secret("1")
	servers.Files.Put("pod.yml", []byte(cm("from-web", "v", "1")))
	w.app("pod", "syncPeriod: 10h\nfetch: [{inline: {pathsFrom: [{secretRef: {name: files}}]}}, "+
		fmt.Sprintf("{http: {url: %q}}]\n", servers.Files.URL()+"/pod.yml")+deployAll)
	w.succeeded("pod")
	w.wantConfigMap("from-web", map[string]string{"v": "1"})
	secret("2")
	w.untilConfigMap("from-pod", map[string]string{"v": "2"})
	w.until("pod", func(a *v1alpha1.App) string { return ended(a, v1alpha1.ReconcileSucceeded) })
	w.delete("pod")
	w.gone("pod")
	w.noConfigMap("from-pod")
}

func manifest(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(env.Root(), file))
	if err != nil {
		t.Fatal(err)
	}
	objects, err := testenv.Objects(content)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// TestPeerManifest: the Deployment of kapp-controller works with Garboard's image:
// its arguments, variables and volumes, one user for both containers, and no more
// rights than its role gives.
func TestPeerManifest(t *testing.T) {
	withoutController(t)
	// Beside Garboard's own the objects of the role go by other names.
	const ours = "peer-"
	objects := manifest(t, "test/e2e/testdata/kapp-controller.yaml")
	for _, obj := range objects {
		if obj.GetKind() == "Deployment" {
			account := []string{"spec", "template", "spec", "serviceAccountName"}
			name, _, _ := unstructured.NestedString(obj.Object, account...)
			if err := unstructured.SetNestedField(obj.Object, ours+name, account...); err != nil {
				t.Fatal(err)
			}
			continue
		}
		obj.SetName(ours + obj.GetName())
		if role, _, _ := unstructured.NestedString(obj.Object, "roleRef", "name"); strings.HasPrefix(role, "kapp-controller") {
			if err := unstructured.SetNestedField(obj.Object, ours+role, "roleRef", "name"); err != nil {
				t.Fatal(err)
			}
		}
		if subjects, _, _ := unstructured.NestedSlice(obj.Object, "subjects"); len(subjects) > 0 {
			account := map[string]any{"kind": rbacv1.ServiceAccountKind, "name": ours + testenv.ControllerAccount, "namespace": testenv.SystemNamespace}
			if err := unstructured.SetNestedSlice(obj.Object, []any{account}, "subjects"); err != nil {
				t.Fatal(err)
			}
		}
		text, err := yaml.Marshal(obj.Object)
		if err != nil {
			t.Fatal(err)
		}
		env.MustApply(t, testenv.SystemNamespace, string(text))
	}
	runPod(t, "peer", objects).works()
}

// TestInstallManifest: the Deployment of config/install.yaml works: two users that
// share a group and a socket, and the endpoints that it probes.
func TestInstallManifest(t *testing.T) {
	withoutController(t)
	p := runPod(t, "install", manifest(t, "config/install.yaml"))
	p.works()
	for _, path := range []string{"/healthz", "/readyz"} {
		testenv.Eventually(t, patience, func(context.Context) string { return p.serves("health", path) })
	}
}
