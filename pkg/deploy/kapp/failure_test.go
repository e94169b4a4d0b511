package kapp_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard-dev/garboard/pkg/access"
	"github.com/garboard-dev/garboard/pkg/deploy"
	"github.com/garboard-dev/garboard/test/testenv"
)

const seeUseful = "Deploying: Error (see .status.usefulErrorMessage for details)"

// What a user reads when a deploy fails.
func TestFailures(t *testing.T) {
	b := newBench(t, true)
	b.mustDeploy("owner", configMap("owned", "1"))
	other := env.Namespace(t)

	tests := map[string]struct {
		reason   string
		name     string
		manifest string
		options  []string
		exitCode int
		err      string
		stderr   []string
	}{
		"OwnedByAnother": {
			reason: "the owner is named", name: "thief", manifest: configMap("owned", "2"),
			exitCode: 1, err: seeUseful,
			stderr: []string{"kapp: Error: Ownership errors:", "Resource 'configmap/owned (v1) namespace: " + b.namespace + "' is already associated with a different app 'owner.app' namespace: " + b.namespace},
		},
		"Forbidden": {
			reason: "RBAC's own words are shown", name: "stranger",
			manifest: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: " + other + "}\n",
			exitCode: 1, err: seeUseful,
			stderr: []string{"kapp: Error: ", `configmaps "x" is forbidden:`, `User "system:serviceaccount:` + b.namespace + `:sa" cannot`, "(reason: Forbidden)"},
		},
		"InvalidYAML": {
			reason: "the parser's line is shown", name: "yaml", manifest: "a: b\n- c\n",
			exitCode: 1, err: seeUseful, stderr: []string{"kapp: Error: error converting YAML to JSON: yaml: line "},
		},
		"Aliases": {
			reason: "kapp would make a gigabyte of it, in this process", name: "aliases",
			manifest: configMap("ok", "1") + "---\na: &a " + strings.Repeat("x", 100_000) + "\nb: [" + strings.Repeat("*a,", 10_000) + "]\n",
			exitCode: 1, err: seeUseful, stderr: []string{"kapp: Error: Reading manifest: aliases (*name) make this YAML more than 16 MiB larger than it is"},
		},
		"NoName": {
			reason: "the place in the manifest is named as for standard input", name: "noname",
			manifest: "apiVersion: v1\nkind: ConfigMap\nmetadata: {}\n",
			exitCode: 1, err: seeUseful, stderr: []string{"Validation errors:", "(stdin doc 1)"},
		},
		"UnknownKind": {
			reason: "a kind that is not served", name: "kind",
			manifest: "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: x}\n",
			exitCode: 1, err: seeUseful, stderr: []string{"Expected to find kind 'example.com/v1/Thing'"},
		},
		"Empty": {
			reason: "nothing rendered is not a wish to delete all", name: "owner", manifest: "",
			exitCode: 1, err: seeUseful, stderr: []string{"Trying to apply empty set of resources will result in deletion of resources on cluster."},
		},
		"BadRebaseRule": {
			reason: "kapp would panic", name: "rule",
			manifest: "apiVersion: kapp.k14s.io/v1alpha1\nkind: Config\nrebaseRules:\n- path: [a]\n  type: nonsense\n  resourceMatchers: [{allMatcher: {}}]\n" + configMap("rule", "1"),
			exitCode: 1, err: seeUseful, stderr: []string{"kapp: Error: Validating config:", "Unknown rebase rule type: nonsense"},
		},
		"BadWaitMatcher": {
			reason: "kapp would panic in a goroutine of its own", name: "matcher",
			manifest: "apiVersion: kapp.k14s.io/v1alpha1\nkind: Config\nwaitRules:\n- resourceMatchers: [{nonsense: {}}]\n" + configMap("matcher", "1"),
			exitCode: 1, err: seeUseful, stderr: []string{"kapp: Error: Validating config:", "Unknown resource matcher specified"},
		},
		"Panic": {
			reason: "a panic is this App's failure", name: "panic", manifest: configMap("panic", "1"), options: []string{"--apply-concurrency=0"},
			exitCode: 2, err: "Deploying: exit status 2", stderr: []string{"kapp: Error: kapp panicked:", "Expected maximum throttle to be >= 1, but was 0"},
		},
		"ForbiddenOption": {
			reason: "no prefix: kapp did not run", name: "option", manifest: configMap("option", "1"), options: []string{"--kubeconfig=/x"},
			exitCode: -1, err: "Unexpected flag '--kubeconfig' specified (either forbidden or unknown)",
		},
		"BadValue": {
			reason: "an option's value that kapp does not take", name: "value", manifest: configMap("value", "1"), options: []string{"--wait=perhaps"},
			exitCode: 1, err: seeUseful, stderr: []string{`kapp: Error: invalid argument "perhaps" for "--wait" flag`},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			res := b.runner.Deploy(t.Context(), b.request(tc.name, tc.manifest, tc.options...))
			if res.ExitCode != tc.exitCode || res.Err != tc.err {
				t.Errorf("%s: exit code %d, error %q; want %d, %q", tc.reason, res.ExitCode, res.Err, tc.exitCode, tc.err)
			}
			for _, want := range tc.stderr {
				if !strings.Contains(res.Stderr, want) {
					t.Errorf("%s: stderr lacks %q:\n%s", tc.reason, want, res.Stderr)
				}
			}
			if res.Kapp != nil && name != "Panic" {
				t.Errorf("%s: recorded %+v", tc.reason, res.Kapp)
			}
		})
	}
	if got := b.configMap("owned").Data["key"]; got != "1" {
		t.Errorf("owned became %q", got)
	}
}

const pending = `
apiVersion: v1
kind: Service
metadata: {name: pending}
spec:
  type: LoadBalancer
  ports: [{port: 80}]
`

// Nobody gives the Service an address, so kapp waits until it is canceled; after
// that it changes nothing, and a delete does not wait for it.
func TestCancelDuringWait(t *testing.T) {
	b := newBench(t, true)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	waiting := make(chan struct{})
	var applied atomic.Bool
	req := b.request("slow", pending)
	req.Progress = func(p deploy.Progress) {
		if p.Applying && strings.Contains(p.Stdout, "ongoing: reconcile service/pending") && applied.CompareAndSwap(false, true) {
			close(waiting)
		}
	}
	done := make(chan deploy.Result, 1)
	go func() { done <- b.runner.Deploy(ctx, req) }()
	select {
	case <-time.After(20 * time.Second):
		t.Fatalf("never waited")
	case <-waiting:
	case res := <-done:
		t.Fatalf("ended before it was canceled: %+v", res.Stage)
	}
	cancel(errors.New("the App is deleted"))
	start := time.Now()
	res := <-done
	if took := time.Since(start); took > time.Second {
		t.Errorf("took %s to return", took)
	}
	if res.ExitCode != -1 || res.Err != "Deploying: Process was canceled: the App is deleted" {
		t.Errorf("exit code %d, error %q", res.ExitCode, res.Err)
	}
	if !strings.Contains(res.Stdout, "ongoing: reconcile service/pending") {
		t.Errorf("the output is lost:\n%s", res.Stdout)
	}

	b.requests.take()
	del := b.runner.Delete(t.Context(), b.request("slow", ""))
	if del.Failed() {
		t.Errorf("delete: %s\n%s", del.Err, del.Stderr)
	}
	testenv.Eventually(t, 10*time.Second, func(context.Context) string {
		if b.runner.Zombies() > 0 {
			return "the canceled run has not ended"
		}
		return ""
	})
	for _, name := range []string{"slow.app", "slow"} {
		_, err := env.Core.CoreV1().ConfigMaps(b.namespace).Get(t.Context(), name, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			t.Errorf("%s is back: %v", name, err)
		}
	}

	ended, stop := context.WithCancel(t.Context())
	stop()
	if res := b.runner.Deploy(ended, b.request("slow", pending)); res.Err != "Deploying: Already canceled" || res.ExitCode != -1 {
		t.Errorf("canceled before: %+v", res.Stage)
	}
}

// An object that changes between comparison and write is compared once more, whichever
// of its fields that was.
func TestConflictIsRetried(t *testing.T) {
	cases := map[string]struct {
		reason string
		theirs func(*corev1.ConfigMap)
	}{
		"SameField":  {"ours wins", func(cm *corev1.ConfigMap) { cm.Data["key"] = "theirs" }},
		"OtherField": {"what the manifest lacks goes", func(cm *corev1.ConfigMap) { cm.Data["other"] = "theirs" }},
		"NotOurs":    {"what is not compared stays", func(cm *corev1.ConfigMap) { cm.Finalizers = []string{"garboard.dev/theirs"} }},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, false)
			b.mustDeploy("conflict", configMap("contested", "1"))
			var once atomic.Bool
			b.requests.onRequest(func(req *http.Request) {
				if req.Method != http.MethodPut || !strings.HasSuffix(req.URL.Path, "/contested") || !once.CompareAndSwap(false, true) {
					return
				}
				cm := b.configMap("contested")
				c.theirs(cm)
				if _, err := env.Core.CoreV1().ConfigMaps(b.namespace).Update(context.Background(), cm, metav1.UpdateOptions{}); err != nil {
					t.Error(err)
				}
			})
			b.mustDeploy("conflict", configMap("contested", "2"))
			got := b.configMap("contested")
			if !once.Load() || got.Data["key"] != "2" || len(got.Data) != 1 || (len(got.Finalizers) > 0) != (name == "NotOurs") {
				t.Errorf("%s: disturbed %t, data %v, finalizers %v", c.reason, once.Load(), got.Data, got.Finalizers)
			}
			if len(got.Finalizers) > 0 {
				got.Finalizers = nil
				if _, err := env.Core.CoreV1().ConfigMaps(b.namespace).Update(t.Context(), got, metav1.UpdateOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// A deploy goes on when its service account was made anew, at the cost of one
// refused request.
func TestServiceAccountMadeAnew(t *testing.T) {
	b := newBench(t, true)
	b.mustDeploy("first", configMap("x", "1"))
	accounts := env.Core.CoreV1().ServiceAccounts(b.namespace)
	if err := accounts.Delete(t.Context(), "sa", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "sa"}}
	if _, err := accounts.Create(t.Context(), sa, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.mustDeploy("first", configMap("x", "2"))

	if err := accounts.Delete(t.Context(), "sa", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	fresh := access.New(env.Config(), env.Core, access.Options{})
	_, err := fresh.Resolve(t.Context(), access.Request{Namespace: b.namespace, ServiceAccountName: "sa"})
	if want := `Getting service account: serviceaccounts "sa" not found`; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}
