package config_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/garboard-dev/garboard/test/golden"
)

// render returns what installs Garboard with the values. Values are ytt's options.
func render(t *testing.T, values ...string) ([]byte, error) {
	t.Helper()
	if _, err := os.Stat("../bin/tools/ytt"); err != nil {
		t.Fatalf("%v: run `make tools`", err)
	}
	cmd := exec.CommandContext(t.Context(), "../hack/release-manifest.sh", values...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, stderr.String())
	}
	return out, err
}

func mustRender(t *testing.T, values ...string) string {
	t.Helper()
	out, err := render(t, values...)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestInstallIsRendered: whoever applies config/install.yaml gets what whoever
// renders it gets. `make update` writes it.
func TestInstallIsRendered(t *testing.T) {
	golden.Equal(t, "install.yaml", []byte(mustRender(t)))
}

// header is what every object has.
type header struct {
	Kind     string
	Metadata struct{ Name, Namespace string }
}

func headers(t *testing.T, manifest string) (out []header) {
	t.Helper()
	for _, doc := range strings.Split(manifest, "\n---\n") {
		h := header{}
		if err := yaml.Unmarshal([]byte(doc), &h); err != nil {
			t.Fatal(err)
		}
		out = append(out, h)
	}
	return out
}

// TestOrderOfInstall: `kubectl apply` takes objects as they come, so a namespace
// comes before what is in it, an account before what runs as it.
func TestOrderOfInstall(t *testing.T) {
	seen := map[string]bool{"Namespace kube-system": true}
	for _, h := range headers(t, mustRender(t)) {
		if ns := h.Metadata.Namespace; ns != "" && !seen["Namespace "+ns] {
			t.Errorf("%s %s comes before its namespace %s", h.Kind, h.Metadata.Name, ns)
		}
		if h.Kind == "Deployment" && !seen["ServiceAccount kapp-controller-sa"] {
			t.Error("the Deployment comes before its account")
		}
		seen[h.Kind+" "+h.Metadata.Name] = true
	}
}

// TestValues: each value has its effect, and none is without one.
func TestValues(t *testing.T) {
	cases := map[string]struct {
		reason string
		values []string
		// want is in the manifest with the values and not without, gone the other
		// way round.
		want, gone []string
	}{
		"namespace": {
			"all is installed there", []string{"-v", "namespace=tools"},
			[]string{"namespace: tools\n", "name: tools\n"}, []string{"namespace: kapp-controller\n", "kind: Namespace\nmetadata:\n  name: kapp-controller\n"},
		},
		"createNamespace":          {"somebody else makes it", []string{"--data-value-yaml", "createNamespace=false"}, nil, []string{"kind: Namespace\nmetadata:\n  name: kapp-controller\n"}},
		"packagingGlobalNamespace": {"flag, namespace and what clients read", []string{"-v", "packagingGlobalNamespace=shared"}, []string{"-packaging-global-namespace=shared", "name: shared\n", "packaging.carvel.dev/global-namespace: shared"}, []string{"kapp-controller-packaging-global"}},
		"createPackagingNamespace": {"somebody else makes it", []string{"--data-value-yaml", "createPackagingNamespace=false"}, nil, []string{"kind: Namespace\nmetadata:\n  name: kapp-controller-packaging-global\n"}},
		"image":                    {"both containers run the same", []string{"-v", "image=r.example.com/g:1"}, []string{"image: r.example.com/g:1\n"}, []string{"garboard:develop"}},
		"replicas":                 {"all but one stand by", []string{"--data-value-yaml", "replicas=2"}, []string{"replicas: 2"}, []string{"replicas: 1"}},
		"concurrency":              {"more Apps at once", []string{"--data-value-yaml", "concurrency=9"}, []string{"-concurrency=9"}, []string{"-concurrency=4"}},
		"enableApiPriorityAndFairness": {
			"switched off", []string{"--data-value-yaml", "enableApiPriorityAndFairness=false"},
			[]string{"-enable-api-priority-and-fairness=false"}, []string{"-enable-api-priority-and-fairness=true"},
		},
		"tlsCipherSuites":      {"only those", []string{"-v", "tlsCipherSuites=TLS_A"}, []string{"-tls-cipher-suites=TLS_A"}, nil},
		"apiPort":              {"port and variable", []string{"--data-value-yaml", "apiPort=10443"}, []string{"containerPort: 10443", `value: "10443"`}, []string{"8443"}},
		"metricsPort":          {"port and flag", []string{"--data-value-yaml", "metricsPort=9090"}, []string{"containerPort: 9090", "-metrics-bind-address=:9090"}, []string{"-metrics-bind-address=:8080"}},
		"metricsBindAddress":   {"an address of its own", []string{"-v", "metricsBindAddress=127.0.0.1:8080"}, []string{"-metrics-bind-address=127.0.0.1:8080"}, []string{"-metrics-bind-address=:8080"}},
		"healthPort":           {"port and flag", []string{"--data-value-yaml", "healthPort=9091"}, []string{"containerPort: 9091", "-health-probe-bind-address=:9091"}, []string{"8081"}},
		"dangerousEnablePprof": {"switched on", []string{"--data-value-yaml", "dangerousEnablePprof=true"}, []string{"-dangerous-enable-pprof=true"}, nil},
		"coreDNSIP":            {"the Pod's only name server", []string{"-v", "coreDNSIP=10.96.0.10"}, []string{"dnsPolicy: None", "- 10.96.0.10"}, nil},
		"hostNetwork":          {"with the cluster's names", []string{"--data-value-yaml", "hostNetwork=true"}, []string{"hostNetwork: true", "dnsPolicy: ClusterFirstWithHostNet"}, nil},
		"priorityClassName":    {"as given", []string{"-v", "priorityClassName=system-cluster-critical"}, []string{"priorityClassName: system-cluster-critical"}, nil},
		"tolerations":          {"as given", []string{"--data-value-yaml", "tolerations=[{key: a, operator: Exists}]"}, []string{"tolerations:\n      - key: a\n        operator: Exists"}, nil},
		"nodeSelector":         {"as given", []string{"--data-value-yaml", "nodeSelector={disk: ssd}"}, []string{"nodeSelector:\n        disk: ssd"}, nil},
		"deployment": {
			"as given", []string{"--data-value-yaml", "deployment.rollingUpdate={maxSurge: 0}"}, []string{"rollingUpdate:\n      maxSurge: 0"}, nil,
		},
		"config": {
			"a Secret with what was given and nothing else",
			[]string{"-v", "config.httpProxy=http://p:3128", "--data-value-yaml", "config.kappDeployRawOptions=[--diff-changes=true]"},
			[]string{"  name: kapp-controller-config\n  namespace: kapp-controller\nstringData:\n  httpProxy: http://p:3128\n  kappDeployRawOptions: '[\"--diff-changes=true\"]'\n"}, nil,
		},
	}
	plain := mustRender(t)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := mustRender(t, c.values...)
			for _, text := range c.want {
				if !strings.Contains(got, text) || strings.Contains(plain, text) {
					t.Errorf("%s: %q: with the value %v, without %v", c.reason, text, strings.Contains(got, text), strings.Contains(plain, text))
				}
			}
			for _, text := range c.gone {
				if strings.Contains(got, text) || !strings.Contains(plain, text) {
					t.Errorf("%s: %q is still there: %v", c.reason, text, strings.Contains(got, text))
				}
			}
		})
	}
	schema := map[string]any{}
	load(t, "deployment/values-schema.yml", &schema)
	docs, err := os.ReadFile("../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range schema {
		if _, ok := cases[name]; !ok {
			t.Errorf("value %s has no test", name)
		}
		if !strings.Contains(string(docs), "`"+name) {
			t.Errorf("docs/install.md does not name value %s", name)
		}
	}
}

// TestConfigKeys: a value of config is a key that the controller knows.
func TestConfigKeys(t *testing.T) {
	schema := struct{ Config map[string]any }{}
	data, err := os.ReadFile("deployment/values-schema.yml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(data, &schema); err != nil {
		t.Fatal(err)
	}
	docs, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`[a-zA-Z`, ]+`) \\|").FindAllStringSubmatch(string(docs), -1) {
		for _, key := range regexp.MustCompile("`([a-zA-Z]+)`").FindAllStringSubmatch(row[1], -1) {
			want = append(want, key[1])
		}
	}
	var got []string
	for key := range schema.Config {
		got = append(got, key)
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/configuration.md against the values (-want +got):\n%s", diff)
	}
}

// TestValuesAreChecked: a wrong value is refused when the manifest is made.
func TestValuesAreChecked(t *testing.T) {
	for _, values := range [][]string{
		{"-v", "image="}, {"--data-value-yaml", "concurrency=0"}, {"-v", "nosuch=1"}, {"-v", "deployment.updateStrategy=Blue"},
	} {
		if _, err := render(t, values...); err == nil {
			t.Errorf("%v is taken", values)
		}
	}
}

func deployment(t *testing.T) appsv1.Deployment {
	t.Helper()
	d := appsv1.Deployment{}
	for _, doc := range strings.Split(mustRender(t), "\n---\n") {
		if strings.Contains(doc, "kind: Deployment\n") {
			if err := yaml.UnmarshalStrict([]byte(doc), &d); err != nil {
				t.Fatal(err)
			}
		}
	}
	return d
}

// TestSidecarHasNoCredentials: what runs other people's tools sees no token, and
// no folder of the controller but the one with its socket.
func TestSidecarHasNoCredentials(t *testing.T) {
	pod := deployment(t).Spec.Template.Spec
	if auto := pod.AutomountServiceAccountToken; auto == nil || *auto {
		t.Error("every container gets a token")
	}
	token := map[string]bool{}
	for _, v := range pod.Volumes {
		token[v.Name] = v.Projected != nil || v.Secret != nil || v.HostPath != nil
	}
	mounts := map[string][]string{}
	for _, c := range pod.Containers {
		for _, m := range c.VolumeMounts {
			mounts[c.Name] = append(mounts[c.Name], m.Name)
		}
	}
	controller, sidecar := pod.Containers[0], pod.Containers[1]
	for _, name := range mounts[sidecar.Name] {
		if token[name] || name != "socket" && slices.Contains(mounts[controller.Name], name) {
			t.Errorf("the sidecar mounts %s", name)
		}
	}
	if !slices.ContainsFunc(mounts[controller.Name], func(n string) bool { return token[n] }) {
		t.Error("the controller has no token either")
	}
	if slices.Contains(sidecar.Args, "--sidecarexec") == slices.Contains(controller.Args, "--sidecarexec") {
		t.Errorf("arguments: controller %v, sidecar %v", controller.Args, sidecar.Args)
	}
	for _, c := range pod.Containers {
		if root := c.SecurityContext.ReadOnlyRootFilesystem; root == nil || !*root {
			t.Errorf("%s may write to its image", c.Name)
		}
	}
	if *controller.SecurityContext.RunAsUser == *sidecar.SecurityContext.RunAsUser {
		t.Error("one user for both containers")
	}
	socket := func(c corev1.Container) string {
		for _, e := range c.Env {
			if e.Name == "KAPPCTRL_SIDECAREXEC_SOCK" {
				return e.Value
			}
		}
		return c.Name + " has none"
	}
	if socket(controller) != socket(sidecar) {
		t.Errorf("sockets %q and %q", socket(controller), socket(sidecar))
	}
}

// TestVersionForClients: kctrl shows the release that templates are told, too.
func TestVersionForClients(t *testing.T) {
	code, err := os.ReadFile("../cmd/garboard/controller.go")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`compatibleVersion = "([0-9.]+)"`).FindSubmatch(code)
	if m == nil {
		t.Fatal("cmd/garboard names no version")
	}
	if got := deployment(t).Annotations["kapp-controller.carvel.dev/version"]; got != "v"+string(m[1]) {
		t.Errorf("annotation %q, in the code %s", got, m[1])
	}
}
