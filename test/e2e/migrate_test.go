package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/test/testenv"
)

// Tests in this file stop and start the shared controller, so none is parallel:
// they run before all that are.

// withoutController stops the shared controller until the returned function
// starts it again, at the latest at the end of the test.
func withoutController(t *testing.T) (start func()) {
	t.Helper()
	if err := garboard.Controller.Stop(patience); err != nil {
		t.Fatal(err)
	}
	started := false
	start = func() {
		if started {
			return
		}
		started = true
		// The test's own context may have ended.
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := garboard.Controller.Restart(ctx); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(start)
	return start
}

func newPeer(t *testing.T) peer {
	t.Helper()
	w, target := newWorld(t), newWorld(t)
	kubeconfig, err := env.ServiceAccountKubeconfig(t.Context(), target.ns, "deployer")
	if err != nil {
		t.Fatal(err)
	}
	w.apply(fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {name: kubeconfig}, stringData: {value: %q}}", string(kubeconfig)))
	return peer{w, target.ns, string(kubeconfig)}
}

const long = "syncPeriod: 10h\n"

// failure is the status of one that fails for the tenth time. Its next attempt is due.
func failure(stage string, exitCode int64, message, useful string) func(map[string]any) {
	return func(s map[string]any) {
		s["conditions"] = []any{map[string]any{"type": "ReconcileFailed", "status": "True", "message": message}}
		s["friendlyDescription"] = "Reconcile failed: " + message
		s["usefulErrorMessage"] = useful
		s["consecutiveReconcileFailures"] = int64(10)
		delete(s, "consecutiveReconcileSuccesses")
		at := time.Now().Add(-11 * time.Hour).UTC().Format(time.RFC3339)
		s[stage] = map[string]any{"exitCode": exitCode, "error": message, "startedAt": at, "updatedAt": at}
		if stage == "deploy" {
			s[stage].(map[string]any)["finished"] = true
		}
		if useful != message {
			s[stage].(map[string]any)["stderr"] = useful
		}
	}
}

func setTimes(s map[string]any, to time.Time) {
	for _, stage := range []string{"fetch", "template", "deploy"} {
		part, _ := s[stage].(map[string]any)
		for _, key := range []string{"startedAt", "updatedAt"} {
			if _, ok := part[key]; ok {
				part[key] = to.UTC().Format(time.RFC3339)
			}
		}
	}
}

const (
	fetchFailed   = "Fetching resources: Error (see .status.usefulErrorMessage for details)"
	accountIsGone = `Preparing kapp: Getting service account: serviceaccounts "nobody" not found`
)

// missing is a file that the server does not have until goOn.
func (p peer) missing() string { return p.ns + "/takeover.yml" }

// peerApps are Apps in the states in which kapp-controller leaves them.
func (p peer) peerApps() []peerApp {
	return []peerApp{
		// What is overdue is spread over the sync period: these have the shortest.
		{name: "due", file: cm("due", "v", "1")},
		{name: "rested", spec: long, file: cm("rested", "v", "1"), status: func(s map[string]any) { setTimes(s, time.Now()) }},
		{name: "old-name", file: cm("old-name", "v", "1"), record: "old-name-ctrl"},
		{name: "remote", file: cm("remote", "v", "1"), remote: true},
		{name: "paused", spec: long + "paused: true\n", file: cm("paused", "v", "1"), status: func(s map[string]any) { s["friendlyDescription"] = "Canceled/paused" }},
		{name: "failing", file: cm("failing", "v", "1"), spec: long + fmt.Sprintf("fetch: [{http: {url: %q}}]\n", servers.Files.URL()+"/"+p.missing()) + deployAll,
			status: failure("fetch", 1, fetchFailed, "vendir: Error: Syncing directory '0':\n  Syncing directory '.' with HTTP contents:\n    ...\n")},
		{name: "nobody", unborn: true, file: cm("nobody"), spec: long + "serviceAccountName: nobody\n", status: failure("deploy", -1, accountIsGone, accountIsGone)},
		{name: "interrupted", spec: long, file: cm("interrupted", "v", "1"), status: func(s map[string]any) {
			s["conditions"] = []any{map[string]any{"type": "Reconciling", "status": "True"}}
			s["friendlyDescription"] = "Reconciling"
			s["deploy"].(map[string]any)["finished"] = false
		}},
		{name: "leaving", spec: long, file: cm("leaving", "v", "1")},
	}
}

// TestTakeover: Garboard starts where kapp-controller stopped, and no user notices:
// nothing is deployed anew, no status flaps, and what failed still fails for the
// same reason. Then the way back: kapp-controller finds what it knows.
func TestTakeover(t *testing.T) {
	start := withoutController(t)
	p := newPeer(t)
	apps := map[string]peerApp{}
	for _, a := range p.peerApps() {
		p.leave(a)
		apps[a.name] = a
	}
	p.delete("leaving") // and kapp-controller was stopped before it saw that
	labels := map[string]string{}
	for name := range apps {
		labels[name] = labelOf(p.get(name))
	}
	before := versions(p.world, p.ns, p.target)
	seen := p.watchApps()

	start()
	p.takenOver(labels)
	unchanged(t, before, versions(p.world, p.ns, p.target), p.ns+"/old-name-ctrl", p.ns+"/old-name.app", p.ns+"/leaving")
	p.nothingFlapped(seen)

	p.goOn()
	p.back(withoutController(t), apps)
}

func labelOf(app *v1alpha1.App) string {
	if app.Status.Deploy == nil || app.Status.Deploy.KappDeployStatus == nil {
		return ""
	}
	return app.Status.Deploy.KappDeployStatus.AssociatedResources.Label
}

// unchanged compares two sets of versions but for names that begin with one of except.
func unchanged(t *testing.T, before, after map[string]string, except ...string) {
	t.Helper()
	for _, m := range []map[string]string{before, after} {
		maps.DeleteFunc(m, func(name, _ string) bool {
			return slices.ContainsFunc(except, func(e string) bool { return strings.HasPrefix(name, e) })
		})
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("ConfigMaps, by UID and resource version (-before +after):\n%s", diff)
	}
}

// takenOver waits until each App was looked at, and checks what its status says.
func (p peer) takenOver(labels map[string]string) {
	p.Helper()
	for _, name := range []string{"due", "old-name", "remote", "interrupted"} {
		p.untilRuns(name, 1)
		app := p.until(name, func(a *v1alpha1.App) string { return ended(a, v1alpha1.ReconcileSucceeded) })
		if s := app.Status; s.ConsecutiveReconcileSuccesses < 7 || s.UsefulErrorMessage != "" || labelOf(app) != labels[name] {
			p.Errorf("%s: %d successes, label %q, want %q; useful message %q", name, s.ConsecutiveReconcileSuccesses, labelOf(app), labels[name], s.UsefulErrorMessage)
		}
		if problem := contains(app.Status.Deploy.Stdout, "0 create, 0 delete, 0 update"); problem != "" {
			p.Errorf("%s was deployed: %s", name, problem)
		}
	}
	for name, want := range map[string][2]string{"failing": {fetchFailed, "vendir: Error: Syncing directory '0'"}, "nobody": {accountIsGone, accountIsGone}} {
		app := p.until(name, func(a *v1alpha1.App) string {
			if a.Status.ConsecutiveReconcileFailures < 11 {
				return fmt.Sprintf("%d failures", a.Status.ConsecutiveReconcileFailures)
			}
			return ended(a, v1alpha1.ReconcileFailed)
		})
		if got := app.Status.Conditions[0].Message; got != want[0] || !strings.HasPrefix(app.Status.UsefulErrorMessage, want[1]) {
			p.Errorf("%s fails with %q, %q", name, got, app.Status.UsefulErrorMessage)
		}
		if labelOf(app) != labels[name] {
			p.Errorf("%s: label %q, want %q", name, labelOf(app), labels[name])
		}
	}
	p.gone("leaving")
	p.noConfigMap("leaving")
	p.noConfigMap("old-name-ctrl")
	p.configMap("old-name.app")
}

// nothingFlapped looks at all that was written since Garboard started: for an App
// that stays as it is nothing but its own state again, and that once.
func (p peer) nothingFlapped(seen *sightings) {
	p.Helper()
	const succeeded = "1 ReconcileSucceeded: Reconcile succeeded"
	// The watch may be a moment behind the reads, but it keeps their order.
	p.app("marker", "paused: true")
	testenv.Eventually(p, patience, func(context.Context) string {
		if len(seen.of("marker")) == 0 {
			return "the marker was not seen"
		}
		return ""
	})
	for name, want := range map[string]string{
		"due": succeeded, "old-name": succeeded, "remote": succeeded, "rested": "", "paused": "",
		"failing": "1 ReconcileFailed: Reconcile failed: " + fetchFailed, "nobody": "1 ReconcileFailed: Reconcile failed: " + accountIsGone,
	} {
		got := seen.of(name)
		if len(got) > 1 || len(got) == 1 && got[0] != want {
			p.Errorf("watchers of App %s saw %q, want %q at most once", name, got, want)
		}
	}
	for _, state := range seen.of("interrupted") {
		if state != succeeded && state != "1 Reconciling: Reconciling" {
			p.Errorf("interrupted was %q for a while", state)
		}
	}
}

// goOn works with the Apps as users do after the switch.
func (p peer) goOn() {
	p.Helper()
	for _, name := range []string{"due", "rested", "old-name"} {
		p.edit(name, func(a *v1alpha1.App) { a.Spec.Fetch[0].Inline.Paths["a.yml"] = cm(name, "v", "2") })
	}
	p.edit("paused", func(a *v1alpha1.App) { a.Spec.Paused = false })
	servers.Files.Put(p.missing(), []byte(cm("failing", "v", "1")))
	p.edit("failing", func(a *v1alpha1.App) { a.Spec.DefaultNamespace = p.ns })
	paused := versions(p.world, p.ns)[p.ns+"/paused"]
	for _, name := range []string{"due", "rested", "old-name", "paused", "failing"} {
		p.succeeded(name)
	}
	for _, name := range []string{"due", "rested", "old-name"} {
		p.wantConfigMap(name, map[string]string{"v": "2"})
	}
	if now := versions(p.world, p.ns)[p.ns+"/paused"]; now != paused {
		p.Errorf("the paused App deployed: %s became %s", paused, now)
	}
}

// back is what kapp-controller finds when it takes over again.
func (p peer) back(start func(), apps map[string]peerApp) {
	t := p.TB.(*testing.T)
	before := versions(p.world, p.ns, p.target)
	names := []string{"due", "rested", "old-name", "remote", "paused", "failing", "interrupted"}
	for _, name := range names {
		a := apps[name]
		a.record = "" // it was migrated, if it had an old name
		if slices.Contains([]string{"due", "rested", "old-name"}, name) {
			a.file = cm(name, "v", "2")
		}
		apps[name] = a
		stdout, resources := p.deploy(a)
		if problem := contains(stdout, "0 create, 0 delete, 0 update"); problem != "" {
			t.Errorf("kapp-controller deploys %s anew: %s", name, problem)
		}
		app, s := p.get(name), p.read(name)
		if s.ObservedGeneration != app.Generation || len(s.Conditions) != 1 || s.Conditions[0].Type != "ReconcileSucceeded" || s.Conditions[0].Status != "True" {
			t.Errorf("%s: kapp-controller reads generation %d of %d, %+v", name, s.ObservedGeneration, app.Generation, s.Conditions)
		}
		if s.Deploy == nil || !s.Deploy.Finished || s.Deploy.Kapp == nil || s.Deploy.Kapp.AssociatedResources.Label != resources["label"] {
			t.Errorf("%s: kapp-controller reads the deploy %+v, kapp's record has %v", name, s.Deploy, resources)
		}
		if !slices.Equal(app.Finalizers, []string{"finalizers.kapp-ctrl.k14s.io/delete"}) {
			t.Errorf("%s: finalizers %v", name, app.Finalizers)
		}
	}
	unchanged(t, before, versions(p.world, p.ns, p.target))

	p.kapp(apps["due"], "delete", "", "--prev-app", "due-ctrl")
	for name := range versions(p.world, p.ns) {
		if strings.HasPrefix(name, p.ns+"/due") {
			t.Errorf("kapp-controller's delete leaves %s", name)
		}
	}
	// kapp-controller would have removed the finalizer; what it left of the status
	// Garboard understands in turn.
	p.delete("due")
	start()
	p.gone("due")
	err := kube.Get(t.Context(), client.ObjectKey{Namespace: p.ns, Name: "due"}, &corev1.ConfigMap{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("due is deployed again: %v", err)
	}
}
