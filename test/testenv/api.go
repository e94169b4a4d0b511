package testenv

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// APIServices is where kube-apiserver's aggregation is configured, and PackagingAPI
// the name of the object there for Packages.
var APIServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}

// PackagingAPI is the name of the APIService for Packages.
const PackagingAPI = "v1alpha1.data.packaging.carvel.dev"

// registerAPI tells kube-apiserver where Packages are served: config/apiservice with
// a Service that leads out of the cluster.
func (e *Env) registerAPI(ctx context.Context, port int) error {
	return e.Apply(ctx, SystemNamespace, fmt.Appendf(nil, `
apiVersion: v1
kind: Service
metadata: {name: packaging-api, namespace: %[1]s}
spec: {type: ExternalName, externalName: localhost, ports: [{port: %[2]d}]}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: %[3]s}
spec:
  group: data.packaging.carvel.dev
  version: v1alpha1
  groupPriorityMinimum: 100
  versionPriority: 100
  service: {name: packaging-api, namespace: %[1]s, port: %[2]d}
`, SystemNamespace, port, PackagingAPI))
}

// WaitForAPI waits until kube-apiserver says that Packages are served.
func (e *Env) WaitForAPI(t testing.TB) {
	t.Helper()
	Eventually(t, 2*time.Minute, func(ctx context.Context) string {
		if err := e.APIAvailable(ctx); err != nil {
			return err.Error()
		}
		return ""
	})
}

// APIAvailable returns why Packages are not served, or nil.
func (e *Env) APIAvailable(ctx context.Context) error {
	api, err := e.Dynamic.Resource(APIServices).Get(ctx, PackagingAPI, metav1.GetOptions{})
	if err != nil {
		return err
	}
	conditions, _, _ := unstructured.NestedSlice(api.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == "Available" {
			if c["status"] == "True" {
				// Discovery learns of it a moment later.
				_, err := e.Core.Discovery().ServerResourcesForGroupVersion("data.packaging.carvel.dev/v1alpha1")
				return err
			}
			return fmt.Errorf("%v: %v", c["reason"], c["message"])
		}
	}
	return errors.New("nobody has looked at the APIService")
}

// StartReplica starts another instance of the controller, which shares the sidecar.
// Each name can be used once.
func (g *Garboard) StartReplica(ctx context.Context, name string) (*Unit, error) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	u, _, err := g.instance(name)
	if err != nil {
		return nil, err
	}
	g.env.addUnit(u)
	return u, u.Restart(ctx)
}

// AddInstance tells the Service for Packages of an instance that the caller started
// and that serves on a port. One that has ended is passed over.
func (g *Garboard) AddInstance(port int) { g.front.add(port) }

// ServedCertificate returns what the instance that was started first serves with.
func (g *Garboard) ServedCertificate(ctx context.Context) ([]byte, error) {
	d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} // it is the certificate that is asked for
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(g.apiPort)))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Raw, nil
}

// front is a Service as kube-proxy makes one: it takes connections and passes each
// on to an instance that takes it, the latest first.
type front struct {
	listener net.Listener
	port     int

	mu       sync.Mutex // guards backends
	backends []int
}

func newFront() (*front, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f := &front{listener: l, port: l.Addr().(*net.TCPAddr).Port}
	go f.run()
	return f, nil
}

func (f *front) stop() { f.listener.Close() }

func (f *front) add(port int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.backends = append([]int{port}, f.backends...)
}

func (f *front) run() {
	for {
		conn, err := f.listener.Accept()
		if err != nil {
			return
		}
		go f.pass(conn)
	}
}

func (f *front) pass(conn net.Conn) {
	defer conn.Close()
	f.mu.Lock()
	backends := f.backends
	f.mu.Unlock()
	for _, port := range backends {
		to, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		defer to.Close()
		done := make(chan struct{}, 2)
		pipe := func(dst, src net.Conn) {
			_, _ = io.Copy(dst, src) // the end of either is the end of both
			done <- struct{}{}
		}
		go pipe(to, conn)
		go pipe(conn, to)
		<-done
		return
	}
}
