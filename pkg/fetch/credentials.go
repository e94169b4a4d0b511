package fetch

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
)

// use is what a Secret is used for.
type use struct {
	// what names the use, to users and in the names of derived documents.
	what string
	// known has the keys that vendir takes for it; it fails for any other.
	known []string
	// own has the keys that are used here.
	own []string
	// registry says that registry credentials as docker has them are taken, too.
	registry bool
	// host is the one registry of a Helm chart; vendir takes credentials for one.
	host string
}

// Keys of Secrets.
const (
	keyUser, keyPassword      = "username", "password"
	keySSH, keyHosts          = "ssh-privatekey", "ssh-knownhosts"
	keyFluxSSH, keyFluxHosts  = "identity", "known_hosts"
	keyFluxPublic             = "identity.pub"
	keyBearer, keyCA          = "bearerToken", "ca.crt"
	keyHost, keyToken, keyIDT = "hostname", "token", "identity-token"
)

var (
	ofRegistry = use{what: "registry", known: []string{keyHost, keyUser, keyPassword, keyToken, keyIDT}, registry: true}
	ofHTTP     = use{what: "http", known: []string{keyUser, keyPassword, keyToken}}
	ofGit      = use{what: "git", known: []string{keySSH, keyHosts, keyUser, keyPassword}, own: []string{keyFluxSSH, keyFluxHosts, keyFluxPublic, keyBearer, keyCA}}
	ofHelm     = use{what: "helm", known: []string{keyUser, keyPassword}}
	ofHelmOCI  = use{what: "helm registry", known: []string{keyHost, keyUser, keyPassword}, registry: true}
)

// credentialsOf returns the Secret of src, nil for none, and what it is used for.
func credentialsOf(src v1alpha1.AppFetch) (*v1alpha1.AppFetchLocalRef, use) {
	switch {
	case src.Inline != nil:
	case src.Image != nil:
		return src.Image.SecretRef, ofRegistry
	case src.HTTP != nil:
		return src.HTTP.SecretRef, ofHTTP
	case src.Git != nil:
		return src.Git.SecretRef, ofGit
	case src.HelmChart != nil:
		if src.HelmChart.Repository == nil {
			return nil, use{}
		}
		repo := *src.HelmChart.Repository
		if rest, oci := strings.CutPrefix(repo.URL, "oci://"); oci {
			u := ofHelmOCI
			u.host, _, _ = strings.Cut(rest, "/")
			return repo.SecretRef, u
		}
		return repo.SecretRef, ofHelm
	case src.ImgpkgBundle != nil:
		return src.ImgpkgBundle.SecretRef, ofRegistry
	}
	return nil, use{}
}

// credentials is what a source uses of its Secret.
type credentials struct {
	// name is that of the document for vendir; "" means none.
	name string
	kind corev1.SecretType
	// data is what vendir gets.
	data map[string][]byte
	// secret is the name of the Secret, and bearer and ca are keys of it that
	// vendir does not know.
	secret     string
	bearer, ca []byte
}

// choose returns what u takes of s. Other keys are left out, as vendir would fail
// for one; a Secret without any that is known is a mistake, and an error.
func (u use) choose(s *corev1.Secret) (credentials, error) {
	c := credentials{name: s.Name, kind: s.Type, data: s.Data, secret: s.Name}
	if u.registry && s.Type == corev1.SecretTypeDockerConfigJson {
		return u.chooseHost(s, c)
	}
	c.data = map[string][]byte{}
	unknown := ""
	for _, key := range slices.Sorted(maps.Keys(s.Data)) {
		switch {
		case slices.Contains(u.known, key):
			c.data[key] = s.Data[key]
		case !slices.Contains(u.own, key):
			unknown = key
		}
	}
	if u.what == ofGit.what {
		c.bearer, c.ca = s.Data[keyBearer], s.Data[keyCA]
		alias(c.data, s.Data, keySSH, keyFluxSSH)
		alias(c.data, s.Data, keyHosts, keyFluxHosts)
	}
	if len(c.data) == 0 && len(c.bearer) == 0 && len(c.ca) == 0 && unknown != "" {
		return c, fmt.Errorf("Unknown secret field '%s' in secret '%s' (hint: keys for %s are %s)", unknown, s.Name, u.what, strings.Join(append(slices.Clone(u.known), u.own...), ", "))
	}
	if len(c.data) != len(s.Data) || !maps.EqualFunc(c.data, s.Data, slices.Equal) {
		// No Secret has a name with a space, so this one is nobody else's.
		c.name = s.Name + " (" + u.what + ")"
	}
	return c, nil
}

// alias takes a value under another name, unless it is there under its own.
func alias(to, from map[string][]byte, key, other string) {
	if value, found := from[other]; found && to[key] == nil {
		to[key] = value
	}
}

// dockerConfig is a Secret of the type kubernetes.io/dockerconfigjson.
type dockerConfig struct {
	Auths map[string]struct{ Username, Password, Auth string }
}

// chooseHost takes the credentials for u's one registry out of those for many: vendir
// takes only one for a chart. Whatever cannot be read is left to vendir to report.
func (u use) chooseHost(s *corev1.Secret, c credentials) (credentials, error) {
	var config dockerConfig
	if u.host == "" || json.Unmarshal(s.Data[corev1.DockerConfigJsonKey], &config) != nil || len(config.Auths) < 2 {
		return c, nil
	}
	for _, at := range slices.Sorted(maps.Keys(config.Auths)) {
		if registryHost(at) != u.host {
			continue
		}
		auth := config.Auths[at]
		if auth.Password == "" {
			plain, err := base64.StdEncoding.DecodeString(auth.Auth)
			user, password, found := strings.Cut(string(plain), ":")
			if err != nil || !found {
				return c, fmt.Errorf("Expected auth of '%s' in secret '%s' to be 'username:password' in base64, but it is not", at, s.Name)
			}
			auth.Username, auth.Password = user, password
		}
		return credentials{
			name: s.Name + " (" + u.what + " " + u.host + ")", kind: corev1.SecretTypeOpaque, secret: s.Name,
			data: map[string][]byte{keyUser: []byte(auth.Username), keyPassword: []byte(auth.Password)},
		}, nil
	}
	return credentials{secret: s.Name}, nil // anonymous, as for images
}

// registryHost is the host, with its port, that an entry of a docker configuration is
// for: an address, or a host with or without a path.
func registryHost(entry string) string {
	if u, err := url.Parse(entry); err == nil && u.Host != "" {
		return u.Host
	}
	host, _, _ := strings.Cut(entry, "/")
	return host
}
