package access

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/tool/yamlsize"
)

// hostPortVar in a kubeconfig stands for the controller's own cluster.
const hostPortVar = "${KAPP_KUBERNETES_SERVICE_HOST_PORT}"

// defaultKey is the Secret's key that holds the kubeconfig.
const defaultKey = "value"

func (r *Resolver) kubeconfigData(ctx context.Context, namespace string, ref *v1alpha1.AppClusterKubeconfigSecretRef) ([]byte, error) {
	if ref == nil {
		return nil, errors.New("Expected kubeconfig secret reference to be specified")
	}
	secret, err := r.core.CoreV1().Secrets(namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("Getting kubeconfig secret: %w", err)
	}
	key := ref.Key
	if key == "" {
		key = defaultKey
	}
	data, ok := secret.Data[key]
	if !ok {
		return nil, fmt.Errorf("Expected to find key '%s' in secret (keys: %s)", key, strings.Join(slices.Sorted(maps.Keys(secret.Data)), ", "))
	}
	return data, nil
}

// restrictedConfig reads a kubeconfig without what would act on this machine:
// programs, files and plugins. It also returns the namespace of the current
// context, which is default if it names none.
func restrictedConfig(data []byte, ownHost string) (*rest.Config, string, error) {
	if err := yamlsize.Check(data); err != nil {
		return nil, "", fmt.Errorf("Parsing kubeconfig: %w", err)
	}
	text := strings.ReplaceAll(string(data), hostPortVar, hostPort(ownHost))
	full, err := clientcmd.Load([]byte(text))
	if err != nil {
		return nil, "", fmt.Errorf("Parsing kubeconfig: %w", err)
	}
	if len(full.Clusters) == 0 {
		return nil, "", errors.New("Expected to find at least one cluster in kubeconfig")
	}
	if err := usable(full); err != nil {
		return nil, "", err
	}
	direct := clientcmd.NewNonInteractiveClientConfig(*restrict(full), full.CurrentContext, &clientcmd.ConfigOverrides{}, nil)
	config, err := direct.ClientConfig()
	if err != nil {
		return nil, "", fmt.Errorf("Building Kubernetes config (explicit config given): %w", err)
	}
	namespace, _, err := direct.Namespace()
	if err != nil {
		return nil, "", fmt.Errorf("Building Kubernetes config (explicit config given): %w", err)
	}
	return config, namespace, nil
}

// restrict copies what is known to be harmless, so that a field of a later
// client-go stays out until it was looked at.
func restrict(full *clientcmdapi.Config) *clientcmdapi.Config {
	out := clientcmdapi.NewConfig()
	out.CurrentContext = full.CurrentContext
	for name, c := range full.Clusters {
		out.Clusters[name] = &clientcmdapi.Cluster{
			Server:                   c.Server,
			TLSServerName:            c.TLSServerName,
			InsecureSkipTLSVerify:    c.InsecureSkipTLSVerify,
			CertificateAuthorityData: c.CertificateAuthorityData,
			ProxyURL:                 c.ProxyURL,
		}
	}
	for name, u := range full.AuthInfos {
		out.AuthInfos[name] = &clientcmdapi.AuthInfo{
			ClientCertificateData: u.ClientCertificateData,
			ClientKeyData:         u.ClientKeyData,
			Token:                 u.Token,
			Impersonate:           u.Impersonate,
			ImpersonateGroups:     u.ImpersonateGroups,
			ImpersonateUserExtra:  u.ImpersonateUserExtra,
			Username:              u.Username,
			Password:              u.Password,
		}
	}
	for name, c := range full.Contexts {
		out.Contexts[name] = &clientcmdapi.Context{Cluster: c.Cluster, AuthInfo: c.AuthInfo, Namespace: c.Namespace}
	}
	return out
}

// usable fails if the current context lives on fields that are not used here:
// without them requests would be anonymous, or fail for no visible reason.
func usable(full *clientcmdapi.Config) error {
	current := full.Contexts[full.CurrentContext]
	if current == nil {
		return nil // reported by client-go
	}
	if u := full.AuthInfos[current.AuthInfo]; u != nil {
		has := u.Token != "" || u.Username != "" || len(u.ClientCertificateData) > 0
		if fields := ignored(u); !has && len(fields) > 0 {
			return fmt.Errorf("Building Kubernetes config: user '%s' of the kubeconfig has only %s, which is not used here "+
				"(hint: give it token, or client-certificate-data and client-key-data)", current.AuthInfo, strings.Join(fields, " and "))
		}
	}
	if c := full.Clusters[current.Cluster]; c != nil && c.CertificateAuthority != "" && len(c.CertificateAuthorityData) == 0 && !c.InsecureSkipTLSVerify {
		return fmt.Errorf("Building Kubernetes config: cluster '%s' of the kubeconfig has certificate-authority, which names a file and is not used here "+
			"(hint: give it certificate-authority-data)", current.Cluster)
	}
	return nil
}

// ignored are the fields of a user that would run programs or read files here.
func ignored(u *clientcmdapi.AuthInfo) (fields []string) {
	for name, set := range map[string]bool{
		"exec": u.Exec != nil, "auth-provider": u.AuthProvider != nil, "tokenFile": u.TokenFile != "",
		"client-certificate": u.ClientCertificate != "", "client-key": u.ClientKey != "",
	} {
		if set {
			fields = append(fields, name)
		}
	}
	slices.Sort(fields)
	return fields
}

// hostPort cuts the scheme and path off an API server's address.
func hostPort(host string) string {
	if _, rest, ok := strings.Cut(host, "://"); ok {
		host = rest
	}
	host, _, _ = strings.Cut(host, "/")
	return host
}
