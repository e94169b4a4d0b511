package fetch

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
)

// untrusted are the words of Go, git and curl for a certificate of an unknown
// authority.
var untrusted = []string{
	"x509: certificate signed by unknown authority",
	"server certificate verification failed",
	"unable to get local issuer certificate",
	"self-signed certificate", "self signed certificate",
}

const (
	caHint  = "(hint: The CA Certificate from URL is unknown/invalid. Add valid CA certificate to the kapp-controller configuration to reconcile successfully)"
	caWhere = "(hint: the configuration is the Secret kapp-controller-config in the controller's namespace, key caCerts)"
)

// hint says below the stderr of a failure what may help.
func hint(stderr string, empty []placeholder) string {
	var hints []string
	for _, words := range untrusted {
		if strings.Contains(stderr, words) {
			hints = append(hints, caHint, caWhere)
			break
		}
	}
	for _, p := range empty {
		hints = append(hints, p.hint())
	}
	if hints == nil {
		return stderr
	}
	if stderr != "" {
		stderr = strings.TrimSuffix(stderr, "\n") + "\n"
	}
	return stderr + strings.Join(hints, "\n") + "\n"
}

// pullSecret is the annotation that asks secretgen-controller to fill a Secret.
const pullSecret = "secretgen.carvel.dev/image-pull-secret"

// placeholder is a Secret that has no registry credentials.
type placeholder struct {
	name string
	// filled says that a controller is asked to fill it.
	filled bool
}

func asPlaceholder(s *corev1.Secret) (placeholder, bool) {
	_, asked := s.Annotations[pullSecret]
	p := placeholder{s.Name, asked}
	if len(s.Data) == 0 {
		return p, true
	}
	var config dockerConfig
	if s.Type != corev1.SecretTypeDockerConfigJson || json.Unmarshal(s.Data[corev1.DockerConfigJsonKey], &config) != nil {
		return p, false
	}
	return p, len(config.Auths) == 0
}

func (p placeholder) hint() string {
	if p.filled {
		return fmt.Sprintf("(hint: secret '%s' is a placeholder without registry credentials yet; secretgen-controller fills it from SecretExports that are offered to this namespace, and then this is fetched again at once)", p.name)
	}
	return fmt.Sprintf("(hint: secret '%s' has no registry credentials; once it has, this is fetched again at once)", p.name)
}

// warnings is what a user should know of a fetch that worked.
func warnings(sources []v1alpha1.AppFetch, given []credentials) string {
	var b strings.Builder
	for i, src := range sources {
		if src.Git == nil || src.Inline != nil || src.Image != nil || src.HTTP != nil {
			continue
		}
		host, ssh := sshHost(src.Git.URL)
		if _, known := given[i].data[keyHosts]; !ssh || known {
			continue
		}
		fmt.Fprintf(&b, "Warning: source %d: whether '%s' is the right host was not checked (hint: put its host keys into the Secret, key %s)\n", i, host, keyHosts)
	}
	return b.String()
}

// sshHost returns the host of an address for ssh.
func sshHost(address string) (string, bool) {
	if strings.Contains(address, "://") {
		u, err := url.Parse(address)
		if err != nil || !strings.EqualFold(u.Scheme, "ssh") {
			return "", false
		}
		return u.Host, true
	}
	host, _, found := strings.Cut(address, ":")
	if _, behind, user := strings.Cut(host, "@"); user {
		host = behind
	}
	return host, found
}
