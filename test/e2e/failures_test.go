package e2e

import (
	"strings"
	"testing"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
)

// TestFailures: each bad input ends as Reconcile failed, with the stage, the
// cause and the tool's own words in the status; the stages after it do not run;
// and the next good spec recovers.
func TestFailures(t *testing.T) {
	t.Parallel()
	const good = "fetch: [{inline: {paths: {a.yml: '{apiVersion: v1, kind: ConfigMap, metadata: {name: good}}'}}}]\n"
	cases := map[string]struct {
		reason string
		spec   string
		// stage is the one that fails; "" is none, as with an empty spec.
		stage string
		// message is a part of the condition's message, useful parts of usefulErrorMessage.
		message string
		useful  []string
	}{
		"UnknownTemplate": {"a step that names no tool", good + "template: [{}]\ndeploy: [{kapp: {}}]", "template",
			"Unsupported way to template", []string{"Unsupported way to template"}},
		"EmptyFetch": {"nothing to fetch", "template: [{ytt: {}}]\ndeploy: [{kapp: {}}]", "fetch",
			"Expected at least one fetch option", []string{"Expected at least one fetch option"}},
		"UnknownFetch": {"a source that names no way", "fetch: [{}]\ntemplate: [{ytt: {}}]\ndeploy: [{kapp: {}}]", "fetch",
			"Fetching (0): Unsupported way to fetch templates", nil},
		"EmptyTemplate": {"no step", good + "deploy: [{kapp: {}}]", "template",
			"Expected at least one template option", nil},
		"TwoDeploys": {"two deploy entries", good + "template: [{ytt: {}}]\ndeploy: [{kapp: {}}, {kapp: {}}]", "deploy",
			"Expected exactly one deploy option", []string{"Expected exactly one deploy option"}},
		"WrongURL": {"nobody listens there", "fetch: [{http: {url: 'http://127.0.0.1:1/x.yml'}}]\ntemplate: [{ytt: {}}]\ndeploy: [{kapp: {}}]", "fetch",
			"Fetching resources: Error (see .status.usefulErrorMessage for details)", []string{"vendir: Error: Syncing directory '0'", "127.0.0.1:1", "connection refused"}},
		"NotFoundURL": {"the server knows no such file", "fetch: [{http: {url: '${FILES}/missing.tgz'}}]\ntemplate: [{ytt: {}}]\ndeploy: [{kapp: {}}]", "fetch",
			"Fetching resources: Error", []string{"404"}},
		"WrongSHA256": {"other content than promised", "fetch: [{http: {url: '${FILES}/failures.yml', sha256: '" + strings.Repeat("0", 64) + "'}}]\ntemplate: [{ytt: {}}]\ndeploy: [{kapp: {}}]", "fetch",
			"Fetching resources: Error", []string{strings.Repeat("0", 64)}},
		"MissingSecret": {"the credentials are not there", "fetch: [{git: {url: 'https://git.example.com/x.git', ref: main, secretRef: {name: nope}}}]\ntemplate: [{ytt: {}}]\ndeploy: [{kapp: {}}]", "fetch",
			`Fetching: secrets "nope" not found`, []string{`Fetching: secrets "nope" not found`}},
		"RefusedCredentials": {"the server wants others", "fetch: [{http: {url: '${PRIVATE_FILES}/secret.yml', secretRef: {name: wrong}}}]\ntemplate: [{ytt: {}}]\ndeploy: [{kapp: {}}]", "fetch",
			"Fetching resources: Error", []string{"401"}},
		"RefusedRegistry": {"the registry wants others", "fetch: [{image: {url: '${PRIVATE_REGISTRY}/some/app:1', secretRef: {name: wrong}}}]\ntemplate: [{ytt: {}}]\ndeploy: [{kapp: {}}]", "fetch",
			"Fetching resources: Error", []string{"UNAUTHORIZED"}},
		"InvalidYAML": {"not YAML at all", "fetch: [{inline: {paths: {a.yml: \"a: [\\n\"}}}]\ntemplate: [{ytt: {}}]\ndeploy: [{kapp: {}}]", "template",
			"Templating dir: Error", []string{"ytt: Error:", "a.yml"}},
		"YttError": {"the tool names the line", "fetch: [{inline: {paths: {a.yml: \"ok: 1\\nbad: #@ nothere\\n\"}}}]\ntemplate: [{ytt: {}}]\ndeploy: [{kapp: {}}]", "template",
			"Templating dir: Error (see .status.usefulErrorMessage for details)", []string{"ytt: Error:", "undefined: nothere", "a.yml:2"}},
		"NotAnObject": {"YAML, but nothing that Kubernetes knows", "fetch: [{inline: {paths: {a.yml: 'just: data'}}}]\ntemplate: [{ytt: {}}]\ndeploy: [{kapp: {}}]", "deploy",
			"Deploying: Error", []string{"kapp: Error:", "kind"}},
		"UnknownKind": {"a kind that the cluster does not have", "fetch: [{inline: {paths: {a.yml: '{apiVersion: example.com/v1, kind: Nope, metadata: {name: thing}}'}}}]\ntemplate: [{ytt: {}}]\ndeploy: [{kapp: {}}]", "deploy",
			"Deploying: Error", []string{"kapp: Error:", "example.com/v1/Nope"}},
		"EmptyRender": {"nothing to deploy is refused", "fetch: [{inline: {paths: {a.yml: ''}}}]\ntemplate: [{ytt: {}}]\ndeploy: [{kapp: {}}]", "deploy",
			"Deploying: Error", []string{"kapp: Error:", "empty set of resources"}},
		"RawOption": {"an option that is not allowed", good + "template: [{ytt: {}}]\ndeploy: [{kapp: {rawOptions: ['--kubeconfig=/etc/x']}}]", "deploy",
			"Unexpected flag '--kubeconfig' specified (either forbidden or unknown)", nil},
		"MissingAccount": {"the service account is not there", good + "template: [{ytt: {}}]\ndeploy: [{kapp: {}}]\nserviceAccountName: nobody", "deploy",
			`Preparing kapp: Getting service account: serviceaccounts "nobody" not found`, nil},
	}
	servers.Files.Put("failures.yml", []byte(cm("x")))
	servers.PrivateFiles.Put("secret.yml", []byte(cm("x")))
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.apply("{apiVersion: v1, kind: Secret, metadata: {name: wrong}, stringData: {username: u, password: not-the-passw0rd}}")
			spec := strings.NewReplacer("${FILES}", servers.Files.URL(), "${PRIVATE_FILES}", servers.PrivateFiles.URL(),
				"${PRIVATE_REGISTRY}", servers.PrivateRegistry.Host()).Replace(c.spec)
			if strings.Contains(spec, "serviceAccountName") {
				w.apply("apiVersion: kappctrl.k14s.io/v1alpha1\nkind: App\nmetadata: {name: bad}\nspec:\n" + indent(spec))
			} else {
				w.app("bad", spec)
			}
			app := w.failed("bad")
			checkFailure(t, app, c.stage, c.message, c.useful)
			w.noConfigMap("good")
			if c.stage != "deploy" && len(app.Finalizers) > 0 {
				t.Errorf("%s: an App that has deployed nothing has the finalizers %v", c.reason, app.Finalizers)
			}

			w.app("bad", good+"template: [{ytt: {}}]\ndeploy: [{kapp: {}}]")
			if s := w.succeeded("bad").Status; s.ConsecutiveReconcileFailures != 0 || s.ConsecutiveReconcileSuccesses != 1 {
				t.Errorf("%s: after recovery %d failures, %d successes", c.reason, s.ConsecutiveReconcileFailures, s.ConsecutiveReconcileSuccesses)
			}
			w.configMap("good")
		})
	}
}

// checkFailure compares what a user reads of a failure.
func checkFailure(t *testing.T, app *v1alpha1.App, stage, message string, useful []string) {
	t.Helper()
	s := app.Status
	got := s.Conditions[0].Message
	if !strings.Contains(got, message) {
		t.Errorf("condition says %q, want %q", got, message)
	}
	if s.FriendlyDescription != "Reconcile failed: "+got {
		t.Errorf("description is %q", s.FriendlyDescription)
	}
	for _, text := range useful {
		if !strings.Contains(s.UsefulErrorMessage, text) {
			t.Errorf("useful message %q does not contain %q", s.UsefulErrorMessage, text)
		}
	}
	if strings.Contains(s.UsefulErrorMessage, "not-the-passw0rd") {
		t.Errorf("useful message shows a password: %q", s.UsefulErrorMessage)
	}
	errs := map[string]string{}
	if s.Fetch != nil {
		errs["fetch"] = s.Fetch.Error
	}
	if s.Template != nil {
		errs["template"] = s.Template.Error
	}
	if s.Deploy != nil {
		errs["deploy"] = s.Deploy.Error
	}
	order := []string{"fetch", "template", "deploy"}
	for i, name := range order {
		err, reached := errs[name]
		switch {
		case name == stage && (!reached || err != got):
			t.Errorf("stage %s has error %q, want %q", name, err, got)
		case i > len(order) || name == stage:
		case before(order, name, stage) && (!reached || err != ""):
			t.Errorf("stage %s, before the failing one, reached %v, error %q", name, reached, err)
		case before(order, stage, name) && reached:
			t.Errorf("stage %s ran after %s failed: %q", name, stage, err)
		}
	}
}

func before(order []string, a, b string) bool {
	ia, ib := -1, -1
	for i, n := range order {
		if n == a {
			ia = i
		}
		if n == b {
			ib = i
		}
	}
	return ia < ib
}
