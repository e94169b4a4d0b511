package app

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
)

// owning is an App that deployed into namespaces.
func owning(namespaces ...string) *v1alpha1.App {
	a := app()
	a.Spec.ServiceAccountName = "deployer"
	a.Status.Deploy = &v1alpha1.AppStatusDeploy{KappDeployStatus: &v1alpha1.KappDeployStatus{
		AssociatedResources: v1alpha1.AssociatedResources{Namespaces: namespaces},
	}}
	return a
}

// sessionOf is a session on an App in a cluster with objects.
func sessionOf(t *testing.T, a *v1alpha1.App, api interceptor.Funcs, objects ...client.Object) *session {
	t.Helper()
	r := newRig(t, runner{}, api, a)
	for _, o := range objects {
		if err := r.api.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	return newSession(r.Reconciler, view{app: a, status: a.Status}, nil)
}

// TestNamespacesGo: when nothing has to be deleted because its namespaces are.
func TestNamespacesGo(t *testing.T) {
	namespace := func(name string, phase corev1.NamespacePhase) client.Object {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NamespaceStatus{Phase: phase}}
	}
	going := func(name string) client.Object { return namespace(name, corev1.NamespaceTerminating) }
	stays := func(name string) client.Object { return namespace(name, corev1.NamespaceActive) }
	cases := map[string]struct {
		reason  string
		app     *v1alpha1.App
		objects []client.Object
		want    bool
	}{
		"Own":             {"all goes with the App's namespace", owning("t"), []client.Object{going("t")}, true},
		"OwnIsGone":       {"it went before", owning("t"), nil, true},
		"OwnStays":        {"an App that is deleted alone", owning("t"), []client.Object{stays("t")}, false},
		"Foreign":         {"both go", owning("t", "u"), []client.Object{going("t"), going("u")}, true},
		"ForeignIsGone":   {"the other one went first", owning("t", "u"), []client.Object{going("t")}, true},
		"ForeignStays":    {"what is there nobody else deletes", owning("t", "u"), []client.Object{going("t"), stays("u")}, false},
		"OnlyForeignGoes": {"the App's own stays", owning("u"), []client.Object{stays("t"), going("u")}, false},
		"ClusterScoped":   {"objects without a namespace go with none", owning("(cluster)", "t"), []client.Object{going("t")}, false},
		"Nothing":         {"kapp recorded that there is nothing", owning(), []client.Object{going("t")}, true},
		"NeverDeployed": {"nobody knows what there is", func() *v1alpha1.App { a := owning("t"); a.Status.Deploy = nil; return a }(),
			[]client.Object{going("t")}, false},
		"NoRecord": {"nor here", func() *v1alpha1.App { a := owning("t"); a.Status.Deploy.KappDeployStatus = nil; return a }(),
			[]client.Object{going("t")}, false},
		"OtherCluster": {"namespaces of this cluster say nothing about another", func() *v1alpha1.App {
			a := owning("t")
			a.Spec.ServiceAccountName, a.Spec.Cluster = "", &v1alpha1.AppCluster{}
			return a
		}(), []client.Object{going("t")}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := sessionOf(t, c.app, interceptor.Funcs{}, c.objects...)
			if got := s.namespacesGo(t.Context(), c.app); got != c.want {
				t.Errorf("%s: %t, want %t", c.reason, got, c.want)
			}
		})
	}
	t.Run("Unknown", func(t *testing.T) {
		a := owning("t")
		s := sessionOf(t, a, failReads())
		if s.namespacesGo(t.Context(), a) {
			t.Error("a namespace that cannot be read does not go")
		}
	})
}

// failReads is an API server that answers no read.
func failReads() interceptor.Funcs {
	return interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
		return apierrors.NewInternalError(errors.New("etcd is away"))
	}}
}

// TestDeployed: whether an App that cannot reach its cluster any more may be let go.
func TestDeployed(t *testing.T) {
	record := func(name string) client.Object {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "t", Name: name}}
	}
	withDeploy := func(d *v1alpha1.AppStatusDeploy, remote bool) *v1alpha1.App {
		a := app()
		a.Status.Deploy, a.Spec.ServiceAccountName = d, "deployer"
		if remote {
			a.Spec.ServiceAccountName, a.Spec.Cluster = "", &v1alpha1.AppCluster{}
		}
		return a
	}
	noAccount := &v1alpha1.AppStatusDeploy{Error: "Preparing kapp: Getting service account: not found", Finished: true}
	brokenLater := &v1alpha1.AppStatusDeploy{Error: "Preparing kapp: no", Finished: true, KappDeployStatus: &v1alpha1.KappDeployStatus{}}
	cases := map[string]struct {
		reason  string
		app     *v1alpha1.App
		objects []client.Object
		want    bool
	}{
		"Never":             {"it never came to a deploy", withDeploy(nil, false), nil, false},
		"NoAccount":         {"its service account never existed", withDeploy(noAccount, false), nil, false},
		"Recorded":          {"kapp deployed, whatever came later", withDeploy(brokenLater, false), nil, true},
		"Record":            {"kapp has a record that the status does not know", withDeploy(noAccount, false), []client.Object{record("a.app")}, true},
		"QualifiedRecord":   {"or one under its longer name", withDeploy(nil, false), []client.Object{record("a.app.apps.k14s.io")}, true},
		"OldRecord":         {"or under the name that old versions gave it", withDeploy(nil, false), []client.Object{record("a-ctrl")}, true},
		"OtherRecord":       {"another App's does not count", withDeploy(nil, false), []client.Object{record("b.app")}, false},
		"RemoteNever":       {"nothing was ever sent there", withDeploy(nil, true), nil, false},
		"RemoteUnreachable": {"there never was a way there", withDeploy(noAccount, true), nil, false},
		"RemoteFailed":      {"something may have been deployed", withDeploy(&v1alpha1.AppStatusDeploy{Error: "Deploying: Error", Finished: true}, true), nil, true},
		"RemoteCutOff":      {"the same", withDeploy(&v1alpha1.AppStatusDeploy{}, true), nil, true},
		"RemoteBroken":      {"a kubeconfig that was lost later", withDeploy(brokenLater, true), nil, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := sessionOf(t, c.app, interceptor.Funcs{}, c.objects...)
			if got := s.deployed(t.Context()); got != c.want {
				t.Errorf("%s: %t, want %t", c.reason, got, c.want)
			}
		})
	}
	t.Run("Unknown", func(t *testing.T) {
		if !sessionOf(t, app(), failReads()).deployed(t.Context()) {
			t.Error("in doubt there is something")
		}
	})
}
