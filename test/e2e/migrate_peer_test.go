package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
)

// peer stands for kapp-controller in one namespace. It runs what that runs to
// deploy, kapp itself with its arguments, and stores the statuses that it stores.
type peer struct {
	world
	// target is where the kubeconfig of the Secret named kubeconfig leads to.
	target     string
	kubeconfig string
}

// peerApp is an App that kapp-controller has worked on.
type peerApp struct {
	name string
	// spec is all of it but what says where to deploy; file is its one source.
	spec, file string
	// remote deploys through the kubeconfig, not as the service account.
	remote bool
	// record is the name of kapp's record; empty is the usual one.
	record string
	// status changes that of a success eleven hours ago; nil keeps it.
	status func(map[string]any)
	// unborn says that nothing was ever deployed.
	unborn bool
}

// tool runs a program to its end and returns what it printed.
func (p peer) tool(path, stdin string, env []string, args ...string) string {
	p.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(p.Context(), path, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = strings.NewReader(stdin), &stdout, &stderr, append(os.Environ(), env...)
	if err := cmd.Run(); err != nil {
		p.Fatalf("%s %q: %v\n%s%s", filepath.Base(path), args, err, stdout.String(), stderr.String())
	}
	return stdout.String()
}

// kapp runs kapp with what kapp-controller gives it to reach the cluster.
func (p peer) kapp(a peerApp, command, stdin string, options ...string) string {
	p.Helper()
	kubeconfig, err := env.ServiceAccountKubeconfig(p.Context(), p.ns, "deployer")
	if err != nil {
		p.Fatal(err)
	}
	access := []string{"--app-namespace", p.ns}
	if a.remote {
		kubeconfig, access = []byte(p.kubeconfig), []string{"--namespace", p.target, "--app-namespace", p.target}
	}
	record := a.record
	if record == "" {
		record = a.name + ".app"
	}
	args := append(append([]string{command}, options...), append([]string{"--app", record}, access...)...)
	args = append(args, "--kubeconfig=/dev/null", "--yes")
	return p.tool(filepath.Join(env.BinDir("dev"), "kapp"), stdin, []string{"KAPP_KUBECONFIG_YAML=" + string(kubeconfig)}, args...)
}

// deploy returns what kapp printed, and what it noted for kapp-controller's status.
func (p peer) deploy(a peerApp) (stdout string, resources map[string]any) {
	p.Helper()
	dir := p.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.yml"), []byte(a.file), 0o600); err != nil {
		p.Fatal(err)
	}
	manifest := p.tool(filepath.Join(env.BinDir("tools"), "ytt"), "", nil, "-f", dir)
	noted := filepath.Join(p.TempDir(), "app-metadata.yml")
	options := []string{"--app-metadata-file-output", noted, "-f", "-", "--app-changes-max-to-keep=5", "--apply-timeout=5m"}
	if a.record == "" {
		options = append(options, "--prev-app", a.name+"-ctrl")
	}
	stdout = p.kapp(a, "deploy", manifest, options...)
	var meta struct {
		LabelKey, LabelValue string
		LastChange           struct{ Namespaces []any }
		UsedGKs              []struct{ Group, Kind string }
	}
	data, err := os.ReadFile(noted)
	if err == nil {
		err = yaml.Unmarshal(data, &meta)
	}
	if err != nil {
		p.Fatal(err)
	}
	var kinds []any
	for _, gk := range meta.UsedGKs {
		kinds = append(kinds, map[string]any{"group": gk.Group, "kind": gk.Kind})
	}
	return stdout, map[string]any{"label": meta.LabelKey + "=" + meta.LabelValue, "namespaces": meta.LastChange.Namespaces, "groupKinds": kinds}
}

// leave makes the App with all that kapp-controller leaves of it.
func (p peer) leave(a peerApp) {
	p.Helper()
	access := "serviceAccountName: deployer\n"
	if a.remote {
		access = "cluster: {namespace: " + p.target + ", kubeconfigSecretRef: {name: kubeconfig}}\n"
	}
	spec := a.spec
	if !strings.Contains(spec, "fetch:") {
		spec += yttApp(map[string]string{"a.yml": a.file})
	}
	if strings.Contains(spec, "serviceAccountName: ") {
		access = ""
	}
	p.apply(fmt.Sprintf("apiVersion: kappctrl.k14s.io/v1alpha1\nkind: App\nmetadata: {name: %q, finalizers: [finalizers.kapp-ctrl.k14s.io/delete]}\nspec:\n%s", a.name, indent(access+spec)))

	ago := func(d time.Duration) any { return time.Now().Add(-d).UTC().Format(time.RFC3339) }
	status := map[string]any{
		"observedGeneration":            int64(1),
		"conditions":                    []any{map[string]any{"type": "ReconcileSucceeded", "status": "True"}},
		"friendlyDescription":           "Reconcile succeeded",
		"consecutiveReconcileSuccesses": int64(7),
		"fetch": map[string]any{
			"exitCode": int64(0), "startedAt": ago(11 * time.Hour), "updatedAt": ago(11 * time.Hour),
			"stdout": "apiVersion: vendir.k14s.io/v1alpha1\ndirectories:\n- contents:\n  - inline: {}\n    path: .\n  path: \"0\"\nkind: LockConfig\n",
		},
		"template": map[string]any{"exitCode": int64(0), "updatedAt": ago(11 * time.Hour)},
	}
	if !a.unborn {
		stdout, resources := p.deploy(a)
		if a.status == nil {
			// The status is that of a sync which found nothing to do.
			stdout, resources = p.deploy(a)
		}
		status["deploy"] = map[string]any{
			"exitCode": int64(0), "finished": true, "stdout": strings.TrimSpace(stdout),
			"startedAt": ago(11 * time.Hour), "updatedAt": ago(11 * time.Hour),
			"kapp": map[string]any{"associatedResources": resources},
		}
	}
	if a.status != nil {
		a.status(status)
	}
	p.putStatus(a.name, status)
}

func (w world) apps() dynamic.ResourceInterface {
	return env.Dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("apps")).Namespace(w.ns)
}

// putStatus replaces the whole status, as kapp-controller does.
func (p peer) putStatus(name string, status map[string]any) {
	p.Helper()
	app, err := p.apps().Get(p.Context(), name, metav1.GetOptions{})
	if err != nil {
		p.Fatal(err)
	}
	app.Object["status"] = status
	if _, err := p.apps().UpdateStatus(p.Context(), app, metav1.UpdateOptions{}); err != nil {
		p.Fatal(err)
	}
}

// peerStatus is the status of an App as kapp-controller's own type has it. What it
// does not know it drops with its next write.
type peerStatus struct {
	ManagedAppName string `json:"managedAppName,omitempty"`
	Fetch          *struct {
		Stderr    string      `json:"stderr,omitempty"`
		Stdout    string      `json:"stdout,omitempty"`
		ExitCode  int         `json:"exitCode"`
		Error     string      `json:"error,omitempty"`
		StartedAt metav1.Time `json:"startedAt,omitempty"`
		UpdatedAt metav1.Time `json:"updatedAt,omitempty"`
	} `json:"fetch,omitempty"`
	Template *struct {
		Stderr    string      `json:"stderr,omitempty"`
		ExitCode  int         `json:"exitCode"`
		Error     string      `json:"error,omitempty"`
		UpdatedAt metav1.Time `json:"updatedAt,omitempty"`
	} `json:"template,omitempty"`
	Deploy *struct {
		Stdout    string      `json:"stdout,omitempty"`
		Stderr    string      `json:"stderr,omitempty"`
		Finished  bool        `json:"finished"`
		ExitCode  int         `json:"exitCode"`
		Error     string      `json:"error,omitempty"`
		StartedAt metav1.Time `json:"startedAt,omitempty"`
		UpdatedAt metav1.Time `json:"updatedAt,omitempty"`
		Kapp      *struct {
			AssociatedResources struct {
				Label      string   `json:"label,omitempty"`
				Namespaces []string `json:"namespaces,omitempty"`
				GroupKinds []struct {
					Group string `json:"group"`
					Kind  string `json:"kind"`
				} `json:"groupKinds,omitempty"`
			} `json:"associatedResources,omitempty"`
		} `json:"kapp,omitempty"`
	} `json:"deploy,omitempty"`
	Inspect *struct {
		Stdout    string      `json:"stdout,omitempty"`
		Stderr    string      `json:"stderr,omitempty"`
		ExitCode  int         `json:"exitCode"`
		Error     string      `json:"error,omitempty"`
		UpdatedAt metav1.Time `json:"updatedAt,omitempty"`
	} `json:"inspect,omitempty"`
	ConsecutiveReconcileSuccesses int   `json:"consecutiveReconcileSuccesses,omitempty"`
	ConsecutiveReconcileFailures  int   `json:"consecutiveReconcileFailures,omitempty"`
	ObservedGeneration            int64 `json:"observedGeneration"`
	Conditions                    []struct {
		Type    string `json:"type"`
		Status  string `json:"status"`
		Reason  string `json:"reason,omitempty"`
		Message string `json:"message,omitempty"`
	} `json:"conditions"`
	FriendlyDescription string `json:"friendlyDescription"`
	UsefulErrorMessage  string `json:"usefulErrorMessage,omitempty"`
}

// read returns the status as kapp-controller reads it, and stores it as that
// writes it.
func (p peer) read(name string) peerStatus {
	p.Helper()
	app, err := p.apps().Get(p.Context(), name, metav1.GetOptions{})
	if err != nil {
		p.Fatal(err)
	}
	var s peerStatus
	var raw map[string]any
	data, err := json.Marshal(app.Object["status"])
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err == nil {
		data, err = json.Marshal(s)
	}
	if err == nil {
		err = json.Unmarshal(data, &raw)
	}
	if err != nil {
		p.Fatalf("status of %s: %v", name, err)
	}
	p.putStatus(name, raw)
	return s
}

// versions returns UID and resource version of each ConfigMap in the namespaces:
// what was deployed, kapp's records and its changes.
func versions(w world, namespaces ...string) map[string]string {
	w.Helper()
	found := map[string]string{}
	for _, ns := range namespaces {
		list := &corev1.ConfigMapList{}
		if err := kube.List(w.Context(), list, client.InNamespace(ns)); err != nil {
			w.Fatal(err)
		}
		for i := range list.Items {
			cm := &list.Items[i]
			found[ns+"/"+cm.Name] = string(cm.UID) + " " + cm.ResourceVersion
		}
	}
	return found
}

// sightings are the states that watchers of Apps see, by name of the App.
type sightings struct {
	mu   sync.Mutex // guards seen
	seen map[string][]string
}

// watchApps notes each change of an App from now on until the test ends.
func (w world) watchApps() *sightings {
	w.Helper()
	list, err := w.apps().List(w.Context(), metav1.ListOptions{})
	if err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.Context())
	stream, err := w.apps().Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		cancel()
		w.Fatal(err)
	}
	s := &sightings{seen: map[string][]string{}}
	var wg sync.WaitGroup
	wg.Go(func() {
		for e := range stream.ResultChan() {
			if app, ok := e.Object.(*unstructured.Unstructured); ok {
				s.add(app)
			}
		}
	})
	w.Cleanup(func() {
		stream.Stop()
		cancel()
		wg.Wait()
	})
	return s
}

func (s *sightings) add(app *unstructured.Unstructured) {
	text, _, _ := unstructured.NestedString(app.Object, "status", "friendlyDescription")
	generation, _, _ := unstructured.NestedInt64(app.Object, "status", "observedGeneration")
	conditions, _, _ := unstructured.NestedSlice(app.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok {
			text = fmt.Sprintf("%d %v: %s", generation, c["type"], text)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[app.GetName()] = append(s.seen[app.GetName()], text)
}

// of returns what was seen of an App and forgets it.
func (s *sightings) of(name string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.seen[name]
	delete(s.seen, name)
	return seen
}
