package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// tokenSeconds is the life of a service account token: longer than any run.
const tokenSeconds = 24 * 60 * 60

// writeCredentials writes NAME.crt, NAME.key and NAME.kubeconfig.
func (c *ControlPlane) writeCredentials(name, user string, groups ...string) error {
	pair, err := c.ca.Client(user, groups...)
	if err != nil {
		return err
	}
	content, err := c.kubeconfig("default", &clientcmdapi.AuthInfo{
		ClientCertificateData: pair.CertPEM,
		ClientKeyData:         pair.KeyPEM,
	})
	return errors.Join(err,
		os.WriteFile(c.path(name+".crt"), pair.CertPEM, 0o600),
		os.WriteFile(c.path(name+".key"), pair.KeyPEM, 0o600),
		os.WriteFile(c.path(name+".kubeconfig"), content, 0o600))
}

// ServiceAccountKubeconfig returns the content of a kubeconfig that acts as an
// existing service account, with its namespace as the default one.
func (c *ControlPlane) ServiceAccountKubeconfig(ctx context.Context, namespace, name string) ([]byte, error) {
	token, err := c.ServiceAccountToken(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	return c.kubeconfig(namespace, &clientcmdapi.AuthInfo{Token: token})
}

// ServiceAccountToken returns a token of an existing service account.
func (c *ControlPlane) ServiceAccountToken(ctx context.Context, namespace, name string) (string, error) {
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return "", err
	}
	seconds := int64(tokenSeconds)
	req := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	res, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, req, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("token for service account %s/%s: %w", namespace, name, err)
	}
	return res.Status.Token, nil
}

func (c *ControlPlane) kubeconfig(namespace string, auth *clientcmdapi.AuthInfo) ([]byte, error) {
	const name = "garboard-test"
	return clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: c.URL(), CertificateAuthorityData: c.ca.CertPEM}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: auth},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name, Namespace: namespace}},
		CurrentContext: name,
	})
}
