package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func env(pairs ...string) func(string) string {
	return func(key string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == key {
				return pairs[i+1]
			}
		}
		return ""
	}
}

var both = []string{"KAPPCTRL_SIDECAREXEC_SOCK", "/run/g/s.sock", "KAPPCTRL_SYSTEM_NAMESPACE", "kapp-controller", "KAPPCTRL_API_PORT", "8443"}

func TestParseOptions(t *testing.T) {
	base := Options{
		Concurrency: 10, WaitingSlots: 200, MetricsAddress: ":8080", HealthAddress: "0", ToolTimeout: 15 * time.Minute, CacheBytes: 256 << 20, Socket: "/run/g/s.sock",
		SystemNamespace: "kapp-controller", WorkDir: "/mem/garboard-sidecar", CAData: []byte{},
		LeaderElect: true, LeaseDuration: 15 * time.Second,
		StartAPIServer: true, APIPort: 8443, SystemService: "packaging-api", PriorityAndFairness: true, CipherSuites: []string{},
	}
	cases := map[string]struct {
		reason string
		args   []string
		env    []string
		want   func(*Options)
	}{
		"Defaults":    {"those of kapp-controller", nil, nil, func(*Options) {}},
		"OneDash":     {"existing Deployments write one dash", []string{"-concurrency=4", "-metrics-bind-address=0"}, nil, func(o *Options) { o.Concurrency, o.MetricsAddress = 4, "0" }},
		"TwoDashes":   {"both forms are taken", []string{"--namespace", "t", "--api-request-timeout=30s"}, nil, func(o *Options) { o.Namespace, o.APITimeout = "t", 30*time.Second }},
		"Health":      {"no port is opened that nobody asked for", []string{"-health-probe-bind-address=:8081"}, nil, func(o *Options) { o.HealthAddress = ":8081" }},
		"Cache":       {"more content is kept", []string{"-cache-bytes=1048576"}, nil, func(o *Options) { o.CacheBytes = 1 << 20 }},
		"NoWaiting":   {"a deploy that waits keeps its place", []string{"-waiting-slots=0"}, nil, func(o *Options) { o.WaitingSlots = 0 }},
		"EmptyBind":   {"empty means the default address", []string{"-metrics-bind-address="}, nil, func(*Options) {}},
		"Sidecar":     {"the same binary", []string{"--sidecarexec"}, nil, func(o *Options) { o.Sidecar, o.APIPort = true, 0 }},
		"WorkDir":     {"an own folder wins over the shared volume", nil, []string{"GARBOARD_SIDECAR_WORKDIR", "/own"}, func(o *Options) { o.WorkDir = "/own" }},
		"NoWorkDir":   {"kapp-controller's sidecar has the socket's volume only", nil, []string{"KAPPCTRL_MEM_TMP_DIR", ""}, func(o *Options) { o.WorkDir = "/run/g/garboard-sidecar" }},
		"ClusterCA":   {"for service accounts", nil, []string{"KAPPCTRL_KUBERNETES_CA_DATA", "pem"}, func(o *Options) { o.CAData = []byte("pem") }},
		"ServiceHost": {"for noProxy", nil, []string{"KUBERNETES_SERVICE_HOST", "10.0.0.1"}, func(o *Options) { o.APIServerHost = "10.0.0.1" }},
	}
	for name, c := range map[string]struct {
		reason string
		args   []string
		env    []string
		want   func(*Options)
	}{
		"NoAPI":   {"then it needs no port", []string{"-start-api-server=false"}, []string{"KAPPCTRL_API_PORT", ""}, func(o *Options) { o.StartAPIServer, o.APIPort = false, 0 }},
		"Service": {"another name of the Service", nil, []string{"KAPPCTRL_SYSTEM_SERVICE", "other"}, func(o *Options) { o.SystemService = "other" }},
		"Suites": {"with spaces too", []string{"-tls-cipher-suites=TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"}, nil, func(o *Options) {
			o.CipherSuites = []string{"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"}
		}},
		"Lease":      {"a shorter one", []string{"-leader-elect-lease-duration=3s"}, nil, func(o *Options) { o.LeaseDuration = 3 * time.Second }},
		"Alone":      {"one instance only", []string{"-leader-elect=false"}, nil, func(o *Options) { o.LeaderElect = false }},
		"Fairness":   {"for clusters that do not have it", []string{"-enable-api-priority-and-fairness=false"}, nil, func(o *Options) { o.PriorityAndFairness = false }},
		"Kubeconfig": {"outside a cluster", nil, []string{"KUBECONFIG", "/a:/b"}, func(o *Options) { o.Kubeconfig = "/a" }},
	} {
		cases[name] = c
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			want := base
			c.want(&want)
			got, err := parseOptions(c.args, env(append(c.env, append([]string{"KAPPCTRL_MEM_TMP_DIR", "/mem"}, both...)...)...), &bytes.Buffer{})
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%s: error %v (-want +got):\n%s", c.reason, err, diff)
			}
		})
	}
}

func TestRunRefusesArguments(t *testing.T) {
	cases := map[string]struct {
		reason string
		args   []string
		env    []string
		want   []string
	}{
		"Nothing":     {"both settings that have no default are named at once", nil, nil, []string{"KAPPCTRL_SIDECAREXEC_SOCK", "KAPPCTRL_SYSTEM_NAMESPACE"}},
		"Concurrency": {"bounds are told", []string{"-concurrency=0"}, both, []string{"-concurrency 0", "1 to 1000"}},
		"Slots":       {"and of the waiting slots", []string{"-waiting-slots=1001"}, both, []string{"-waiting-slots 1001", "0 to 1000"}},
		"Unknown":     {"a mistyped flag is not ignored", []string{"-concurency=4"}, both, []string{"-concurency"}},
		"Operand":     {"nor is an operand", []string{"serve"}, both, []string{`"serve"`}},
		"NoPort":      {"kapp-controller's text", nil, append([]string{"KAPPCTRL_API_PORT", ""}, both...), []string{"Expected to find KAPPCTRL_API_PORT env var"}},
		"LowPort":     {"kapp-controller's text", nil, append([]string{"KAPPCTRL_API_PORT", "443"}, both...), []string{"error initializing API Port to 443 - try passing a port above 1023"}},
		"NoNumber":    {"a port is a number", nil, append([]string{"KAPPCTRL_API_PORT", "api"}, both...), []string{`KAPPCTRL_API_PORT "api"`}},
		"Suites":      {"kapp-controller's text", []string{"-tls-cipher-suites=x"}, both, []string{"unable to parse TLSCipherSuites: ", "-tls-cipher-suites"}},
		"Lease":       {"bounds are told", []string{"-leader-elect-lease-duration=1s"}, both, []string{"-leader-elect-lease-duration 1s", "3s to 10m"}},
		"Negative":    {"a time limit is not negative", []string{"-tool-timeout=-1s"}, both, []string{"-tool-timeout -1s"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if code := run(c.args, env(c.env...), &out); code != 2 {
				t.Errorf("%s: exit code %d, want 2", c.reason, code)
			}
			for _, text := range c.want {
				if !strings.Contains(out.String(), text) {
					t.Errorf("%s: %q does not say %q", c.reason, out.String(), text)
				}
			}
		})
	}
}
