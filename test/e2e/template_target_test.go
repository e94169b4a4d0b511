package e2e

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// otherCluster serves the cluster of the tests under another address, where it says
// to be of release 1.29.7 and to serve target.example.com/v1.
func otherCluster(t *testing.T) *httptest.Server {
	t.Helper()
	cfg := rest.AnonymousClientConfig(env.Config())
	transport, err := rest.TransportFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	host, err := url.Parse(cfg.Host)
	if err != nil {
		t.Fatal(err)
	}
	const group = "target.example.com"
	proxy := &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(host)
			if r.In.URL.Path == "/api" || r.In.URL.Path == "/apis" {
				r.Out.Header.Set("Accept", "application/json") // the plain list
				r.Out.Header.Del("Accept-Encoding")
			}
		},
		ModifyResponse: func(res *http.Response) error {
			if res.Request.URL.Path != "/apis" || res.StatusCode != http.StatusOK {
				return nil
			}
			list := &metav1.APIGroupList{}
			if err := json.NewDecoder(res.Body).Decode(list); err != nil {
				return err
			}
			v := metav1.GroupVersionForDiscovery{GroupVersion: group + "/v1", Version: "v1"}
			list.Groups = append(list.Groups, metav1.APIGroup{Name: group, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v})
			body, pipe := io.Pipe()
			go func() { pipe.CloseWithError(json.NewEncoder(pipe).Encode(list)) }()
			res.Body, res.ContentLength = body, -1
			res.Header.Del("Content-Length")
			return nil
		},
	}
	mux := http.NewServeMux()
	mux.Handle("/", proxy)
	mux.HandleFunc("/version", func(rw http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(rw, `{"major": "1", "minor": "29", "gitVersion": "v1.29.7+vendor.1"}`)
	})
	mux.HandleFunc("/apis/"+group+"/v1", func(rw http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(rw, `{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "%s/v1", "resources": []}`, group)
	})
	s := httptest.NewTLSServer(mux)
	t.Cleanup(s.Close)
	return s
}

// TestFactsOfTheTarget: versions and APIs are those of the cluster that is deployed
// to, not of the controller's.
func TestFactsOfTheTarget(t *testing.T) {
	t.Parallel()
	w, other := newWorld(t), otherCluster(t)
	text, err := env.ServiceAccountKubeconfig(t.Context(), w.ns, "deployer")
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := clientcmd.Load(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, cluster := range kubeconfig.Clusters {
		cluster.Server = other.URL
		cluster.CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: other.Certificate().Raw})
	}
	if text, err = clientcmd.Write(*kubeconfig); err != nil {
		t.Fatal(err)
	}
	w.apply(secret("kubeconfig", "value", string(text)))
	const has = `"target.example.com/v1"`
	specs := map[string]string{
		"helm": templated(chart("templates/cm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata:\n  version: {{ .Capabilities.KubeVersion }}\n  has: {{ .Capabilities.APIVersions.Has "+has+" | quote }}\n"),
			"[{helmTemplate: {name: NAME, kubernetesVersion: {}, kubernetesAPIs: {}}}]"),
		"ytt": templated(map[string]string{
			"schema.yml": "#@data/values-schema\n---\nv: \"\"\napis: [\"\"]\n",
			"cm.yml":     "#@ load(\"@ytt:data\", \"data\")\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}\ndata:\n  version: #@ \"v\" + data.values.v\n  has: #@ str(" + has + " in data.values.apis).lower()\n",
		}, "[{ytt: {valuesFrom: [{downwardAPI: {items: [{name: v, kubernetesVersion: {}}, {name: apis, kubernetesAPIs: {}}]}}]}}]"),
	}
	for name, spec := range specs {
		there, here := name+"-there", name+"-here"
		w.app(here, replaceAll(spec, "NAME", here))
		w.apply("apiVersion: kappctrl.k14s.io/v1alpha1\nkind: App\nmetadata: {name: " + there + "}\nspec:\n  cluster: {namespace: " + w.ns +
			", kubeconfigSecretRef: {name: kubeconfig}}\n" + indent(replaceAll(spec, "NAME", there)))
		w.succeeded(there)
		w.wantConfigMap(there, map[string]string{"version": "v1.29.7", "has": "true"})
		w.succeeded(here)
		if got := w.configMap(here); got["version"] == "v1.29.7" || got["has"] != "false" {
			t.Errorf("%s says %v of the controller's own cluster", here, got)
		}
	}
}
