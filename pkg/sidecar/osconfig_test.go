//go:build linux

package sidecar_test

import (
	"crypto/tls"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/garboard-dev/garboard/pkg/sidecar"
	"github.com/garboard-dev/garboard/pkg/tool"
)

func TestProxy(t *testing.T) {
	r := start(t)
	w := r.open(t, "")
	if err := r.ApplyProxy(t.Context(), sidecar.Proxy{HTTPProxy: "http://robot:p%ssw0rd@proxy.example:3128", NoProxy: "10.0.0.1"}); err != nil {
		t.Fatal(err)
	}
	out, _ := do(t, w, command("vendir", "env"))
	for _, want := range []string{
		"http_proxy=http://robot:p%ssw0rd@proxy.example:3128\n", "HTTP_PROXY=http://robot:p%ssw0rd@proxy.example:3128\n",
		"no_proxy=10.0.0.1\n", "NO_PROXY=10.0.0.1\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %q in\n%s", want, out)
		}
	}
	if strings.Contains(strings.ToLower(out), "https_proxy") {
		t.Error("https_proxy is set")
	}
	if out, _ := do(t, w, command("ytt", "env")); strings.Contains(out, "ssw0rd") {
		t.Error("a tool without network has the proxy's password")
	}
	if err := r.ApplyProxy(t.Context(), sidecar.Proxy{}); err != nil {
		t.Fatal(err)
	}
	if out, _ := do(t, w, command("vendir", "env")); strings.Contains(strings.ToLower(out), "_proxy=") {
		t.Errorf("not cleared:\n%s", out)
	}
	logs := r.logs.String()
	for _, want := range []string{`msg="Setting http_proxy"`, `msg="Clearing https_proxy"`, `msg="Setting no_proxy"`, `msg="Clearing http_proxy"`} {
		if !strings.Contains(logs, want) {
			t.Errorf("log lacks %s", want)
		}
	}
	if strings.Contains(logs, "ssw0rd") {
		t.Errorf("log has the password:\n%s", logs)
	}
}

func TestCACerts(t *testing.T) {
	system := filepath.Join(t.TempDir(), "system.crt")
	if err := os.WriteFile(system, []byte("# system's\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SSL_CERT_FILE", system)
	srv := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer srv.Close()
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}))

	r := start(t)
	w := r.open(t, "")
	get := func() (string, int) { return do(t, w, command("vendir", "get "+srv.URL)) }
	if out, code := get(); code != 1 || !strings.Contains(out, "certificate signed by unknown authority") {
		t.Errorf("before: %d, %s", code, out)
	}
	if err := r.ApplyCACerts(t.Context(), ca); err != nil {
		t.Fatal(err)
	}
	if out, code := get(); code != 0 {
		t.Errorf("with the CA: %d, %s", code, out)
	}
	out, _ := do(t, w, command("vendir", "cat "+r.opts.WorkDir+"/os/ca-bundle.crt"))
	if out != "# system's\n\n"+ca+"\n" {
		t.Errorf("bundle is\n%s", out)
	}
	if err := r.ApplyCACerts(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if out, code := get(); code != 1 {
		t.Errorf("after: %d, %s", code, out)
	}
	if !strings.Contains(r.logs.String(), `msg="Applying CA certs"`) {
		t.Error("not logged")
	}
}

// get is a verb of the test tool.
func get(url string) error {
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{}}}
	resp, err := client.Get(url)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// TestLogHasNoInput: neither arguments nor input nor variables are logged.
func TestLogHasNoInput(t *testing.T) {
	r := start(t)
	w := r.open(t, "")
	c := command("helm", "# hunter2", "exit 1")
	c.Args = append(c.Args, "--namespace", "hunter2")
	c.Env = []string{"KUBERNETES_SERVICE_HOST=hunter2"}
	c.Stdin = []byte("exit 1\n# hunter2")
	do(t, w, c)
	_, _ = w.Run(t.Context(), tool.Command{Name: "helm", Args: []string{"template", "--token=hunter2"}})
	if logs := r.logs.String(); !strings.Contains(logs, "Tool exited") || strings.Contains(logs, "hunter2") {
		t.Errorf("log:\n%s", logs)
	}
}
