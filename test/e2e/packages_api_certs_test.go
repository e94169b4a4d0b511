package e2e

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	data "github.com/garboard-dev/garboard/pkg/apis/datapackaging/v1alpha1"
	"github.com/garboard-dev/garboard/test/testenv"
)

// Tests in this file change what all share, so none is parallel.

const certsSecret = "packaging-api-certs"

func (c catalog) secret() *corev1.Secret {
	c.Helper()
	s, err := env.Core.CoreV1().Secrets(testenv.SystemNamespace).Get(c.Context(), certsSecret, metav1.GetOptions{})
	if err != nil {
		c.Fatal(err)
	}
	return s
}

// bundle returns whom kube-apiserver trusts.
func (c catalog) bundle() []byte {
	c.Helper()
	api, err := env.Dynamic.Resource(testenv.APIServices).Get(c.Context(), testenv.PackagingAPI, metav1.GetOptions{})
	if err != nil {
		c.Fatal(err)
	}
	text, _, _ := unstructured.NestedString(api.Object, "spec", "caBundle")
	out, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		c.Fatal(err)
	}
	return out
}

// steady lists packages over and over until it is ended, and returns what failed.
func (c catalog) steady() (end func() (answers int, failures []string)) {
	ctx, cancel := context.WithCancel(c.Context())
	var (
		wg       sync.WaitGroup
		answers  int
		failures []string
	)
	wg.Go(func() {
		for ctx.Err() == nil {
			err := c.List(ctx, &data.PackageList{}, client.InNamespace(c.ns))
			switch {
			case err == nil:
				answers++
			case ctx.Err() == nil:
				failures = append(failures, err.Error())
			}
		}
	})
	return func() (int, []string) {
		cancel()
		wg.Wait()
		return answers, failures
	}
}

func (c catalog) noFailure(end func() (int, []string)) {
	c.Helper()
	answers, failures := end()
	if len(failures) > 0 || answers == 0 {
		c.Errorf("%d answers, %d failures: %s", answers, len(failures), strings.Join(failures[:min(3, len(failures))], "\n"))
	}
}

// TestBundleHeals: a bundle that somebody breaks is made right, without a restart.
func TestBundleHeals(t *testing.T) {
	c := newCatalog(t)
	for _, patch := range []string{`{"spec":{"caBundle":"cmFuZG9tLWRhdGE="}}`, `{"spec":{"caBundle":null,"insecureSkipTLSVerify":true}}`} {
		before := c.bundle()
		if _, err := env.Dynamic.Resource(testenv.APIServices).Patch(t.Context(), testenv.PackagingAPI, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		testenv.Eventually(t, patience, func(context.Context) string {
			if !bytes.Equal(c.bundle(), before) {
				return "the bundle is another"
			}
			return ""
		})
		env.WaitForAPI(t)
		testenv.Eventually(t, patience, func(ctx context.Context) string {
			if err := c.List(ctx, &data.PackageList{}, client.InNamespace(c.ns)); err != nil {
				return err.Error()
			}
			return ""
		})
	}
}

// TestCASecretDeleted: a new CA comes beside the old one, and no request fails.
func TestCASecretDeleted(t *testing.T) {
	c := newCatalog(t)
	before := c.secret()
	end := c.steady()
	if err := env.Core.CoreV1().Secrets(testenv.SystemNamespace).Delete(t.Context(), certsSecret, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	untilServed(t, c, func() []byte {
		s, err := env.Core.CoreV1().Secrets(testenv.SystemNamespace).Get(t.Context(), certsSecret, metav1.GetOptions{})
		if err != nil || bytes.Equal(s.Data["tls.crt"], before.Data["tls.crt"]) {
			return nil
		}
		return s.Data["tls.crt"]
	})
	bundle := c.bundle()
	if !bytes.HasSuffix(bundle, before.Data["ca.crt"]) || bytes.Equal(bundle, before.Data["ca.crt"]) || !bytes.Equal(bundle, c.secret().Data["ca.crt"]) {
		t.Errorf("the bundle has %d certificates: not the new and the old", bytes.Count(bundle, []byte("BEGIN")))
	}
	c.noFailure(end)
}

// TestLeafNearItsEnd: a certificate that ends in 29 days is replaced by one of the
// same CA, and no request fails.
func TestLeafNearItsEnd(t *testing.T) {
	c := newCatalog(t)
	s := c.secret()
	cas := s.Data["ca.crt"]
	end := c.steady()
	s.Data["tls.crt"], s.Data["tls.key"] = shortLeaf(t, cas, s.Data["ca.key"])
	short := s.Data["tls.crt"]
	if _, err := env.Core.CoreV1().Secrets(testenv.SystemNamespace).Update(t.Context(), s, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	untilServed(t, c, func() []byte {
		if leaf := c.secret().Data["tls.crt"]; !bytes.Equal(leaf, short) {
			return leaf
		}
		return nil
	})
	if !bytes.Equal(c.secret().Data["ca.crt"], cas) {
		t.Error("the CA was replaced too")
	}
	c.noFailure(end)
}

// untilServed waits until the controller says that it serves with the certificate
// that wanted returns.
func untilServed(t *testing.T, c catalog, wanted func() []byte) {
	t.Helper()
	testenv.Eventually(t, patience, func(ctx context.Context) string {
		leaf := wanted()
		if leaf == nil {
			return "there is no new certificate"
		}
		served, err := garboard.ServedCertificate(ctx)
		if err != nil {
			return err.Error()
		}
		if block, _ := pem.Decode(leaf); !bytes.Equal(block.Bytes, served) {
			return "it is not served"
		}
		return ""
	})
	if err := c.List(t.Context(), &data.PackageList{}, client.InNamespace(c.ns)); err != nil {
		t.Error(err)
	}
}

// shortLeaf returns a serving certificate of the CA that ends in 29 days.
func shortLeaf(t *testing.T, caPEM, caKeyPEM []byte) (certPEM, keyPEM []byte) {
	t.Helper()
	caBlock, _ := pem.Decode(caPEM)
	keyBlock, _ := pem.Decode(caKeyPEM)
	ca, err := x509.ParseCertificate(caBlock.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	caKey, err := x509.ParseECPrivateKey(keyBlock.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(29 * 24 * time.Hour),
		DNSNames: []string{"packaging-api." + testenv.SystemNamespace + ".svc"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca, key.Public(), caKey)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
}

// holder returns who holds the Lease.
func holder(ctx context.Context) (string, error) {
	lease, err := env.Core.CoordinationV1().Leases(testenv.SystemNamespace).Get(ctx, "garboard", metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if lease.Spec.HolderIdentity == nil {
		return "", errors.New("nobody holds the Lease")
	}
	return *lease.Spec.HolderIdentity, nil
}

// TestRollingUpdate: a second instance comes, the first goes, and comes back. All
// serve, one leads, and no request fails.
func TestRollingUpdate(t *testing.T) {
	c := newCatalog(t)
	first, err := holder(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before := c.bundle()
	end := c.steady()
	second, err := garboard.StartReplica(t.Context(), "controller-2")
	if err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, patience, func(context.Context) string { return contains(second.LogTail(1000), `"msg":"Serving packages"`) })
	if now, err := holder(t.Context()); err != nil || now != first {
		t.Errorf("%s leads, not %s: %v", now, first, err)
	}
	if strings.Contains(second.LogTail(1000), "Told kube-apiserver") {
		t.Error("an instance that does not lead wrote the APIService")
	}

	if err := garboard.Controller.Stop(time.Minute); err != nil {
		t.Error(err)
	}
	testenv.Eventually(t, patience, func(ctx context.Context) string {
		now, err := holder(ctx)
		if err != nil {
			return err.Error()
		}
		if now == first {
			return "the first instance still leads"
		}
		return ""
	})
	w := newWorld(t)
	w.app("led", yttApp(map[string]string{"a.yml": cm("led")}))
	w.succeeded("led")

	if err := garboard.Controller.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, patience, func(ctx context.Context) string {
		if _, err := garboard.ServedCertificate(ctx); err != nil {
			return err.Error()
		}
		return ""
	})
	if err := second.Stop(time.Minute); err != nil {
		t.Error(err)
	}
	testenv.Eventually(t, patience, func(ctx context.Context) string {
		if now, err := holder(ctx); err != nil || now != first {
			return fmt.Sprintf("%s leads, not %s: %v", now, first, err)
		}
		return ""
	})
	if !bytes.Equal(c.bundle(), before) {
		t.Error("the bundle changed")
	}
	c.noFailure(end)
}

// TestKappControllersRole: with the rights that kapp-controller's manifest gives,
// Apps run and packages are served; what is missing is said.
func TestKappControllersRole(t *testing.T) {
	c := newCatalog(t)
	ctx := t.Context()
	roles, cluster := env.Core.RbacV1().RoleBindings(testenv.SystemNamespace), env.Core.RbacV1().ClusterRoles()
	binding, err := roles.Get(ctx, "kapp-controller-system", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	role, err := cluster.Get(ctx, "kapp-controller-cluster-role", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	narrow := role.DeepCopy()
	narrow.Rules = nil
	for _, rule := range role.Rules {
		switch rule.Resources[0] {
		case "apiservices":
			rule.ResourceNames, rule.Verbs = nil, []string{"get", "update"}
		case "mutatingadmissionpolicies":
			rule.Resources, rule.Verbs = []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"}, []string{"list", "watch"}
		}
		narrow.Rules = append(narrow.Rules, rule)
	}
	if _, err := cluster.Update(ctx, narrow, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := roles.Delete(ctx, binding.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	restore := func() error {
		_, err := cluster.Patch(context.Background(), role.Name, types.JSONPatchType,
			fmt.Appendf(nil, `[{"op":"replace","path":"/rules","value":%s}]`, jsonOf(t, role.Rules)), metav1.PatchOptions{})
		_, bindErr := roles.Create(context.Background(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: binding.Name}, RoleRef: binding.RoleRef, Subjects: binding.Subjects,
		}, metav1.CreateOptions{})
		return errors.Join(err, bindErr)
	}
	defer func() {
		if err := restore(); err != nil {
			t.Error(err)
		}
		if err := garboard.Controller.Restart(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	garboard.Controller.Kill()
	began := logSize(t, garboard.Controller.LogFile())
	s := c.secret()
	s.Data = nil // not to be read, and not to be replaced
	if _, err := env.Core.CoreV1().Secrets(testenv.SystemNamespace).Update(ctx, s, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := garboard.Controller.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, patience, func(ctx context.Context) string {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		if err := c.Create(ctx, c.pkg(c.ns, "web", "1.0.0")); err != nil {
			return err.Error()
		}
		return ""
	})
	c.wantVersions(c.ns, "web 1.0.0")
	w := newWorld(t)
	w.app("one", yttApp(map[string]string{"a.yml": cm("one")}))
	w.succeeded("one")
	log, err := os.ReadFile(garboard.Controller.LogFile())
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"Reconciling without leader election", "serves with a certificate in memory", `"part":"ValidatingAdmissionPolicy"`} {
		if problem := contains(string(log[began:]), text); problem != "" {
			t.Error(problem)
		}
	}
}

func logSize(t *testing.T, name string) int64 {
	t.Helper()
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}
