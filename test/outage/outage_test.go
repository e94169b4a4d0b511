package outage

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/pem"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/test/testenv"
)

const (
	lease       = "garboard"
	certsSecret = "packaging-api-certs"
)

// TestOutages: clients that write, list and watch all the time get no wrong answer
// whatever fails, and errors only while nothing could answer.
func TestOutages(t *testing.T) {
	env.WaitForAPI(t)
	c := newClients(t)
	end := c.start()
	c.goOn("the start")

	second, err := garboard.StartReplica(t.Context(), "controller-2")
	if err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, patience, func(context.Context) string {
		if log := second.LogTail(1000); !bytes.Contains([]byte(log), []byte(`"msg":"Serving packages"`)) {
			return "the second instance does not serve"
		}
		return ""
	})
	c.goOn("the second instance came")

	// The other serves at once; it reconciles when the Lease has run out.
	first := holder(t)
	c.outage("the leader was killed", garboard.Controller.Kill)
	testenv.Eventually(t, patience, func(context.Context) string {
		if holder(t) == first {
			return "the killed instance still leads"
		}
		return ""
	})
	if err := garboard.Controller.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.goOn("the killed instance came back")

	rotate(t)
	c.goOn("the certificates were rotated")

	c.outage("the APIService was patched by hand", func() { breakBundle(t) })

	c.outage("etcd was restarted", func() {
		if err := env.RestartEtcd(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	reconciles(t, c.ns)
	c.goOn("all of it")
	end()
	c.judge()
}

func holder(t *testing.T) string {
	t.Helper()
	l, err := env.Core.CoordinationV1().Leases(testenv.SystemNamespace).Get(t.Context(), lease, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

// rotate deletes the Secret with the certificates and waits until new ones serve.
func rotate(t *testing.T) {
	t.Helper()
	secrets := env.Core.CoreV1().Secrets(testenv.SystemNamespace)
	before, err := secrets.Get(t.Context(), certsSecret, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := secrets.Delete(t.Context(), certsSecret, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, patience, func(ctx context.Context) string {
		now, err := secrets.Get(ctx, certsSecret, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if bytes.Equal(now.Data["tls.crt"], before.Data["tls.crt"]) {
			return "the certificate is the old one"
		}
		served, err := garboard.ServedCertificate(ctx)
		if err != nil {
			return err.Error()
		}
		if block, _ := pem.Decode(now.Data["tls.crt"]); block == nil || !bytes.Equal(block.Bytes, served) {
			return "the new certificate is not served"
		}
		return ""
	})
}

// breakBundle makes kube-apiserver trust nobody and waits until that is mended.
func breakBundle(t *testing.T) {
	t.Helper()
	apis := env.Dynamic.Resource(testenv.APIServices)
	junk := base64.StdEncoding.EncodeToString([]byte("random-data"))
	if _, err := apis.Patch(t.Context(), testenv.PackagingAPI, types.MergePatchType, []byte(`{"spec":{"caBundle":"`+junk+`"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, patience, func(ctx context.Context) string {
		api, err := apis.Get(ctx, testenv.PackagingAPI, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if bundle, _, _ := unstructured.NestedString(api.Object, "spec", "caBundle"); bundle == junk {
			return "the bundle is still broken"
		}
		return ""
	})
	env.WaitForAPI(t)
}

// reconciles deploys an App.
func reconciles(t *testing.T, ns string) {
	t.Helper()
	env.MustApply(t, ns, testenv.Deployer+`---
apiVersion: kappctrl.k14s.io/v1alpha1
kind: App
metadata: {name: after}
spec:
  serviceAccountName: deployer
  fetch: [{inline: {paths: {a.yml: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: after}\n"}}}]
  template: [{ytt: {}}]
  deploy: [{kapp: {}}]
`)
	testenv.Eventually(t, patience, func(ctx context.Context) string {
		app := &v1alpha1.App{}
		if err := kube.Get(ctx, client.ObjectKey{Namespace: ns, Name: "after"}, app); err != nil {
			return err.Error()
		}
		if app.Status.FriendlyDescription != "Reconcile succeeded" {
			return app.Status.FriendlyDescription + app.Status.UsefulErrorMessage
		}
		return ""
	})
}
