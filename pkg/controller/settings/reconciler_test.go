package settings_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	controller "github.com/garboard-dev/garboard/pkg/controller/settings"
	"github.com/garboard-dev/garboard/pkg/settings"
	"github.com/garboard-dev/garboard/pkg/sidecar"
	"github.com/garboard-dev/garboard/pkg/status"
)

const namespace = "kapp-controller"

// getFunc is a reader of single objects.
type getFunc func(key client.ObjectKey, obj client.Object) error

func (f getFunc) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	return f(key, obj)
}

func (f getFunc) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("nothing lists")
}

// fakeSidecar remembers what it was told.
type fakeSidecar struct {
	caCerts string
	proxy   sidecar.Proxy
	calls   int
	err     error
}

func (s *fakeSidecar) ApplyCACerts(_ context.Context, pem string) error {
	s.caCerts, s.calls = pem, s.calls+1
	return s.err
}

func (s *fakeSidecar) ApplyProxy(_ context.Context, proxy sidecar.Proxy) error {
	s.proxy, s.calls = proxy, s.calls+1
	return s.err
}

// told holds events until next takes them.
type told struct{ events []status.Event }

func (o *told) Tell(_ context.Context, _ client.Object, e status.Event) {
	o.events = append(o.events, e)
}

func (o *told) next() string {
	if len(o.events) == 0 {
		return "no event"
	}
	e := o.events[0]
	o.events = o.events[1:]
	return fmt.Sprintf("warning=%t %s %s", e.Warning, e.Reason, e.Text)
}

// world is what the reconciler sees; nil objects do not exist.
type world struct {
	secret, configMap map[string]string
	secretErr         error
}

func (w *world) get(key client.ObjectKey, obj client.Object) error {
	meta := metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}
	switch obj := obj.(type) {
	case *corev1.Secret:
		if w.secretErr != nil {
			return w.secretErr
		}
		if w.secret != nil {
			obj.ObjectMeta, obj.Data = meta, map[string][]byte{}
			for name, value := range w.secret {
				obj.Data[name] = []byte(value)
			}
			return nil
		}
	case *corev1.ConfigMap:
		if w.configMap != nil {
			obj.ObjectMeta, obj.Data = meta, w.configMap
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: "objects"}, key.Name)
}

// setup returns a reconciler, its parts, and a context whose logger writes to logs.
func setup(t *testing.T, w *world) (*controller.Reconciler, *fakeSidecar, *told, context.Context, *strings.Builder) {
	t.Helper()
	var logs strings.Builder
	logger := funcr.NewJSON(func(line string) { logs.WriteString(line + "\n") }, funcr.Options{Verbosity: 9})
	side, recorder := &fakeSidecar{}, &told{}
	r := &controller.Reconciler{
		Reader: getFunc(w.get), Namespace: namespace, Store: &settings.Store{}, Sidecar: side, Events: recorder, APIServerHost: "10.0.0.1",
	}
	return r, side, recorder, log.IntoContext(t.Context(), logger), &logs
}

func TestReconcileReads(t *testing.T) {
	tests := map[string]struct {
		reason string
		world  world
		want   time.Duration
	}{
		"Secret":    {"the Secret counts alone", world{secret: map[string]string{"appDefaultSyncPeriod": "1m"}, configMap: map[string]string{"appDefaultSyncPeriod": "2m"}}, time.Minute},
		"ConfigMap": {"else the ConfigMap", world{configMap: map[string]string{"appDefaultSyncPeriod": "2m"}}, 2 * time.Minute},
		"Neither":   {"else the defaults", world{}, settings.MinSyncPeriod},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r, side, _, ctx, _ := setup(t, &tt.world)
			changed := settings.Default()
			changed.AppDefaultSyncPeriod = time.Hour
			r.Store.Set(changed)
			if _, err := r.Reconcile(ctx, reconcile.Request{}); err != nil {
				t.Fatal(err)
			}
			if got := r.Store.Get().AppDefaultSyncPeriod; got != tt.want {
				t.Errorf("%s: period %v, want %v", tt.reason, got, tt.want)
			}
			if side.calls != 2 {
				t.Errorf("%d calls of the sidecar, want 2", side.calls)
			}
		})
	}
}

func TestUnreadableSecretChangesNothing(t *testing.T) {
	w := &world{secretErr: errors.New("no route"), configMap: map[string]string{"caCerts": "other"}}
	r, side, _, ctx, _ := setup(t, w)
	if _, err := r.Reconcile(ctx, reconcile.Request{}); !errors.Is(err, w.secretErr) {
		t.Errorf("error %v", err)
	}
	if err := r.Load(ctx); !errors.Is(err, w.secretErr) {
		t.Errorf("error %v", err)
	}
	if side.calls != 0 || r.Store.Get().CACerts != "" {
		t.Error("something was applied")
	}
}

func TestSidecarGetsCertificatesAndProxy(t *testing.T) {
	w := &world{secret: map[string]string{
		"caCerts": "PEM", "httpProxy": "http://robot:hunter2@proxy.example", "httpsProxy": "https://robot:hunter2@proxy.example",
		"noProxy": "KAPPCTRL_KUBERNETES_SERVICE_HOST,.example",
	}}
	r, side, _, ctx, logs := setup(t, w)
	if err := r.Load(ctx); err != nil {
		t.Fatal(err)
	}
	want := sidecar.Proxy{HTTPProxy: "http://robot:hunter2@proxy.example", HTTPSProxy: "https://robot:hunter2@proxy.example", NoProxy: "10.0.0.1,.example"}
	if diff := cmp.Diff(want, side.proxy); diff != "" || side.caCerts != "PEM" {
		t.Errorf("certificates %q, proxy (-want +got):\n%s", side.caCerts, diff)
	}

	w.secret = nil
	if _, err := r.Reconcile(ctx, reconcile.Request{}); err != nil {
		t.Fatal(err)
	}
	if side.caCerts != "" || side.proxy != (sidecar.Proxy{}) {
		t.Error("certificates or proxy outlive the configuration")
	}
	if strings.Contains(logs.String(), "hunter2") {
		t.Errorf("the password is in the log:\n%s", logs)
	}
}

func TestFailingSidecar(t *testing.T) {
	r, side, _, ctx, logs := setup(t, &world{secret: map[string]string{"caCerts": "PEM"}})
	side.err = errors.New("no such socket")
	if err := r.Load(ctx); err != nil {
		t.Errorf("a sidecar that is late ends the start: %v", err)
	}
	if !strings.Contains(logs.String(), "no such socket") {
		t.Errorf("not in the log:\n%s", logs)
	}
	_, err := r.Reconcile(ctx, reconcile.Request{})
	if !errors.Is(err, side.err) {
		t.Errorf("error %v: nothing tries again", err)
	}
	if r.Store.Get().CACerts != "PEM" {
		t.Error("the configuration is not in force")
	}
}

func TestWrongConfiguration(t *testing.T) {
	w := &world{secret: map[string]string{"appDefaultSyncPeriod": "1m", "caCerts": "PEM"}}
	r, side, recorder, ctx, logs := setup(t, w)
	if _, err := r.Reconcile(ctx, reconcile.Request{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("warning=true DoubtfulConfiguration caCerts: holds no certificate in PEM", recorder.next()); diff != "" {
		t.Errorf("event (-want +got):\n%s", diff)
	}
	w.secret = map[string]string{"httpProxy": "http://robot:p%ssw0rd@proxy.example:3128"}
	if _, err := r.Reconcile(ctx, reconcile.Request{}); err != nil {
		t.Errorf("error %v: trying again does not help", err)
	}
	if got := r.Store.Get(); got.AppDefaultSyncPeriod != time.Minute || side.caCerts != "PEM" || side.calls != 2 {
		t.Error("the previous configuration is no longer in force")
	}
	want := "warning=true InvalidConfiguration httpProxy: the address of proxy.example:3128 is no URL; a special character in a user name or a password " +
		"is written as % and two digits, % itself as %25; the previous configuration stays in force"
	if diff := cmp.Diff(want, recorder.next()); diff != "" {
		t.Errorf("event (-want +got):\n%s", diff)
	}
	err := r.Load(ctx)
	if err == nil || !strings.HasPrefix(err.Error(), "secret kapp-controller/kapp-controller-config: httpProxy: ") {
		t.Errorf("error %v", err)
	}
	if strings.Contains(logs.String()+err.Error(), "ssw0rd") {
		t.Errorf("the password is in the log or the error:\n%s\n%v", logs, err)
	}
}
