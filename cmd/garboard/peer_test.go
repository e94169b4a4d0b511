package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestPeerOptions: all flags and variables that kapp-controller has, together.
func TestPeerOptions(t *testing.T) {
	got, err := parseOptions([]string{
		"-concurrency=4", "-namespace=team-a", "-packaging-global-namespace=global", "-metrics-bind-address=:9090",
		"-dangerous-enable-pprof=true", "-api-request-timeout=30s", "-enable-api-priority-and-fairness=false", "-sidecarexec=false",
		"-start-api-server=true", "-tls-cipher-suites=TLS_AES_128_GCM_SHA256", "-kubeconfig=/etc/kubeconfig",
	}, env(
		"KAPPCTRL_MEM_TMP_DIR", "/etc/kappctrl-mem-tmp", "KAPPCTRL_SIDECAREXEC_SOCK", "/etc/kappctrl-mem-tmp/sidecarexec.sock",
		"KAPPCTRL_SYSTEM_NAMESPACE", "kapp-controller", "KAPPCTRL_SYSTEM_SERVICE", "packaging-api", "KAPPCTRL_API_PORT", "8443",
		"KAPPCTRL_KUBERNETES_CA_DATA", "pem", "KUBERNETES_SERVICE_HOST", "10.96.0.1", "KUBERNETES_SERVICE_PORT", "443",
	), &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	want := Options{
		Concurrency: 4, Namespace: "team-a", GlobalNamespace: "global", MetricsAddress: ":9090", Pprof: true, APITimeout: 30 * time.Second,
		PriorityAndFairness: false, StartAPIServer: true, CipherSuites: []string{"TLS_AES_128_GCM_SHA256"}, Kubeconfig: "/etc/kubeconfig",
		WorkDir: "/etc/kappctrl-mem-tmp/garboard-sidecar", Socket: "/etc/kappctrl-mem-tmp/sidecarexec.sock",
		SystemNamespace: "kapp-controller", SystemService: "packaging-api", APIPort: 8443, CAData: []byte("pem"), APIServerHost: "10.96.0.1",
	}
	// What kapp-controller does not have keeps its default.
	want.WaitingSlots, want.HealthAddress, want.ToolTimeout = got.WaitingSlots, "0", got.ToolTimeout
	want.LeaderElect, want.LeaseDuration, want.CacheBytes = true, got.LeaseDuration, got.CacheBytes
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
