package e2e

import (
	"context"
	"encoding/base32"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	internalpackaging "github.com/garboard-dev/garboard/pkg/apis/internalpackaging/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	packaging "github.com/garboard-dev/garboard/pkg/apis/packaging/v1alpha1"
	"github.com/garboard-dev/garboard/test/testenv"
)

// installs is a world whose Packages are all called refName.
type installs struct {
	world
	refName string
}

func newInstalls(t testing.TB) installs {
	t.Helper()
	w := newWorld(t)
	return installs{w, w.ns + ".web.example.com"}
}

// webTemplate makes the ConfigMap web, which holds the version and data value v.
const webTemplate = `  template:
    spec:
      fetch:
      - inline:
          paths:
            values.yml: "#@data/values\n---\nv: default\nw: default\n"
            config.yml: |
              #@ load("@ytt:data", "data")
              apiVersion: v1
              kind: ConfigMap
              metadata: {name: web}
              data:
                version: "${VERSION}"
                v: #@ data.values.v
                w: #@ data.values.w
      template: [{ytt: {}}]
      deploy: [{kapp: {}}]
`

// storedName is the name that a Package has in the store.
func storedName(refName, version string) string {
	return strings.ToLower(base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString([]byte(refName + "." + version)))
}

// offer stores a version of the Package in a namespace; more is YAML of its spec.
func (w installs) offer(namespace, version, more string) {
	w.Helper()
	env.MustApply(w, namespace, fmt.Sprintf("apiVersion: internal.packaging.carvel.dev/v1alpha1\nkind: InternalPackage\nmetadata: {name: %s}\nspec:\n  refName: %s\n  version: %s\n",
		storedName(w.refName, version), w.refName, version)+more)
}

func (w installs) offerWeb(versions ...string) {
	w.Helper()
	for _, v := range versions {
		w.offer(w.ns, v, strings.ReplaceAll(webTemplate, "${VERSION}", v))
	}
}

func (w installs) withdraw(version string) {
	w.Helper()
	p := &internalpackaging.InternalPackage{}
	p.Namespace, p.Name = w.ns, storedName(w.refName, version)
	if err := kube.Delete(w.Context(), p); err != nil {
		w.Fatal(err)
	}
}

// install applies PackageInstall web; more is YAML of its spec.
func (w installs) install(constraints, more string) {
	w.Helper()
	w.installAs("web", constraints, more)
}

func (w installs) installAs(name, constraints, more string) {
	w.Helper()
	w.apply(fmt.Sprintf("apiVersion: packaging.carvel.dev/v1alpha1\nkind: PackageInstall\nmetadata: {name: %s}\nspec:\n  serviceAccountName: deployer\n  syncPeriod: 10h\n  packageRef: {refName: %s, versionSelection: {constraints: %q}}\n%s",
		name, w.refName, constraints, more))
}

// untilPKGI waits for a PackageInstall that check accepts by returning "".
func (w installs) untilPKGI(name string, check func(*packaging.PackageInstall) string) *packaging.PackageInstall {
	w.Helper()
	p := &packaging.PackageInstall{}
	testenv.Eventually(w, patience, func(ctx context.Context) string {
		if err := kube.Get(ctx, client.ObjectKey{Namespace: w.ns, Name: name}, p); err != nil {
			return err.Error()
		}
		return check(p)
	})
	return p
}

// endedPKGI says whether the present generation ended with the condition.
func endedPKGI(p *packaging.PackageInstall, want v1alpha1.ConditionType) string {
	return endedAs(p.Generation, p.Status.GenericStatus, want)
}

// installed waits until web is installed in a version.
func (w installs) installed(version string) *packaging.PackageInstall {
	w.Helper()
	p := w.untilPKGI("web", func(p *packaging.PackageInstall) string {
		if p.Status.LastAttemptedVersion != version {
			return fmt.Sprintf("want version %s, have %+v", version, p.Status)
		}
		return endedPKGI(p, v1alpha1.ReconcileSucceeded)
	})
	if p.Status.Version != version || p.Status.FriendlyDescription != "Reconcile succeeded" || p.Status.UsefulErrorMessage != "" {
		w.Errorf("success reads %+v", p.Status)
	}
	return p
}

// failedPKGI waits for a failure whose message begins with text.
func (w installs) failedPKGI(text string) *packaging.PackageInstall {
	w.Helper()
	return w.untilPKGI("web", func(p *packaging.PackageInstall) string {
		if problem := endedPKGI(p, v1alpha1.ReconcileFailed); problem != "" {
			return problem
		}
		if !strings.HasPrefix(p.Status.UsefulErrorMessage, text) {
			return fmt.Sprintf("want %q, have %+v", text, p.Status)
		}
		return ""
	})
}

// editPKGI changes web as a user does, on the newest version.
func (w installs) editPKGI(change func(*packaging.PackageInstall)) {
	w.Helper()
	testenv.Eventually(w, patience, func(ctx context.Context) string {
		p := &packaging.PackageInstall{}
		err := kube.Get(ctx, client.ObjectKey{Namespace: w.ns, Name: "web"}, p)
		if err == nil {
			change(p)
			err = kube.Update(ctx, p)
		}
		if apierrors.IsConflict(err) {
			return err.Error()
		}
		if err != nil {
			w.Fatal(err)
		}
		return ""
	})
}

func (w installs) annotate(key, value string) {
	w.Helper()
	w.editPKGI(func(p *packaging.PackageInstall) {
		if p.Annotations == nil {
			p.Annotations = map[string]string{}
		}
		p.Annotations[key] = value
	})
}

// selects edits the constraints.
func (w installs) selects(constraints string) {
	w.Helper()
	w.editPKGI(func(p *packaging.PackageInstall) { p.Spec.PackageRef.VersionSelection.Constraints = constraints })
}

func (w installs) deletePKGI() {
	w.Helper()
	p := &packaging.PackageInstall{}
	p.Namespace, p.Name = w.ns, "web"
	if err := kube.Delete(w.Context(), p); err != nil {
		w.Fatal(err)
	}
}

func (w installs) gonePKGI() {
	w.Helper()
	testenv.Eventually(w, patience, func(ctx context.Context) string {
		p := &packaging.PackageInstall{}
		err := kube.Get(ctx, client.ObjectKey{Namespace: w.ns, Name: "web"}, p)
		if apierrors.IsNotFound(err) {
			return ""
		}
		return fmt.Sprintf("still there: %v %+v", err, p.Status)
	})
}

// web is what the installed ConfigMap holds besides w.
func (w installs) untilWeb(version, v string) {
	w.Helper()
	testenv.Eventually(w, patience, func(ctx context.Context) string {
		cm := &corev1.ConfigMap{}
		if err := kube.Get(ctx, client.ObjectKey{Namespace: w.ns, Name: "web"}, cm); err != nil {
			return err.Error()
		}
		return cmp.Diff([]string{version, v}, []string{cm.Data["version"], cm.Data["v"]})
	})
}

func (w installs) secret(name, key, content string) {
	w.Helper()
	w.apply(fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {name: %s}, stringData: {%q: %q}}", name, key, content))
}

// TestInstall: from nothing to an installed Package with values, and what a user
// and clients see of it.
func TestInstall(t *testing.T) {
	t.Parallel()
	w := newInstalls(t)
	w.secret("values", "values.yml", "v: one")
	w.install("1.x", "  values: [{secretRef: {name: values}}]\n")
	text := "Package " + w.refName + " not found"
	p := w.untilPKGI("web", func(p *packaging.PackageInstall) string { return endedPKGI(p, v1alpha1.ReconcileFailed) })
	// Another test may offer a global Package meanwhile.
	if problem := contains(p.Status.UsefulErrorMessage, "Expected to find at least one version"); problem != "" && p.Status.UsefulErrorMessage != text {
		t.Errorf("want %q, have %+v", text, p.Status)
	}

	w.offerWeb("1.0.0", "1.1.0", "2.0.0")
	p = w.installed("1.1.0")
	w.untilWeb("1.1.0", "one")
	app := w.get("web")
	want := map[string]string{"packaging.carvel.dev/package-ref-name": w.refName, "packaging.carvel.dev/package-version": "1.1.0"}
	if diff := cmp.Diff(want, app.Annotations); diff != "" {
		t.Errorf("annotations of the App (-want +got):\n%s", diff)
	}
	if o := app.OwnerReferences; len(o) != 1 || o[0].Kind != "PackageInstall" || o[0].Name != "web" || o[0].UID != p.UID || !*o[0].Controller {
		t.Errorf("owners of the App: %+v", o)
	}
	if app.Spec.SyncPeriod.String() != "10h0m0s" || app.Spec.ServiceAccountName != "deployer" {
		t.Errorf("the App: %+v", app.Spec)
	}
	w.secret("values", "values.yml", "v: two")
	w.untilWeb("1.1.0", "two")
	w.installed("1.1.0")

	testenv.Eventually(t, patience, func(ctx context.Context) string {
		for _, series := range []string{"attempt", "success", "failure"} {
			name := fmt.Sprintf(`kappctrl_app_reconcile_%s_total{controller="PackageInstall",name="web",namespace=%q}`, series, w.ns)
			text, err := garboard.Metrics(ctx)
			if err != nil {
				return err.Error()
			}
			if strings.Contains(text, name+" 0\n") || !strings.Contains(text, name) {
				return "no count in " + name
			}
		}
		return ""
	})

	w.deletePKGI()
	w.gonePKGI()
	w.gone("web")
	w.noConfigMap("web")
}

// TestInstallUpgrade: by an edit, by a new version that appears, not to a lower one
// unless that is allowed.
func TestInstallUpgrade(t *testing.T) {
	t.Parallel()
	w := newInstalls(t)
	w.offerWeb("1.0.0", "2.0.0")
	w.install("1.x", "")
	w.installed("1.0.0")
	states := w.watchPKGI()

	w.offerWeb("1.2.0")
	w.installed("1.2.0")
	w.untilWeb("1.2.0", "default")
	w.selects(">=1.0.0")
	w.installed("2.0.0")
	w.untilWeb("2.0.0", "default")

	w.selects("<2.0.0")
	p := w.failedPKGI("Stopped installing matched version '1.2.0' since last attempted version '2.0.0' is higher.\nhint: Add annotation packaging.carvel.dev/downgradable: \"\" to PackageInstall to proceed with downgrade")
	if p.Status.Version != "1.2.0" || p.Status.LastAttemptedVersion != "2.0.0" ||
		p.Status.Conditions[0].Message != "Error (see .status.usefulErrorMessage for details)" {
		t.Errorf("the downgrade reads %+v", p.Status)
	}
	w.untilWeb("2.0.0", "default")
	w.annotate("packaging.carvel.dev/downgradable", "")
	w.installed("1.2.0")
	w.untilWeb("1.2.0", "default")

	// kubectl wait and kapp take the first success of a generation for its own.
	seen := map[string]bool{}
	for _, p := range states() {
		attempt := fmt.Sprintf("%d %s", p.Status.ObservedGeneration, p.Status.LastAttemptedVersion)
		if succeeded := endedPKGI(&p, v1alpha1.ReconcileSucceeded) == ""; succeeded && !seen[attempt] && attempt != "1 1.0.0" {
			t.Errorf("the first status of generation and version %s is a success: %+v", attempt, p.Status)
		}
		seen[attempt] = seen[attempt] || p.Status.ObservedGeneration == p.Generation
	}
	if !seen["1 1.2.0"] || !seen["2 2.0.0"] {
		t.Errorf("not all was seen: %v", seen)
	}
}

// watchPKGI records every state of web; the function ends that and returns them.
func (w installs) watchPKGI() func() []packaging.PackageInstall {
	w.Helper()
	c, err := client.NewWithWatch(env.Config(), client.Options{Scheme: kube.Scheme()})
	if err != nil {
		w.Fatal(err)
	}
	events, err := c.Watch(w.Context(), &packaging.PackageInstallList{}, client.InNamespace(w.ns))
	if err != nil {
		w.Fatal(err)
	}
	var states []packaging.PackageInstall
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range events.ResultChan() {
			if p, ok := e.Object.(*packaging.PackageInstall); ok {
				states = append(states, *p)
			}
		}
	}()
	return func() []packaging.PackageInstall {
		events.Stop()
		<-done
		return states
	}
}
