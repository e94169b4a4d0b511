// Command garboard-resolve prints the digest of an image without fetching it, in the
// sidecar, where it is installed as resolve. So an image that did not change is not
// fetched again. Standard input is a JSON object; nothing of it is printed but the
// name of the image.
package main

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "resolve: Error: %v\n", err)
		os.Exit(1)
	}
}

// input says which image, and how to log in to its registry.
type input struct {
	Image   string          `json:"image"`
	SkipTLS bool            `json:"skipTLS"`
	Auths   map[string]auth `json:"auths"`
	Any     *auth           `json:"any"`
}

type auth struct {
	Username      string `json:"username"`
	Password      string `json:"password"`
	Auth          string `json:"auth"`
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

func run(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	var in input
	if err := json.NewDecoder(stdin).Decode(&in); err != nil {
		return fmt.Errorf("read what to resolve: %w", err)
	}
	ref, err := name.ParseReference(in.Image)
	if err != nil {
		return fmt.Errorf("resolve %s: %w", in.Image, err)
	}
	login, err := in.login(ref.Context())
	if err != nil {
		return fmt.Errorf("resolve %s: %w", in.Image, err)
	}
	found, err := remote.Head(ref, remote.WithContext(ctx), remote.WithAuth(login), remote.WithTransport(transport(in.SkipTLS)))
	if err != nil {
		return fmt.Errorf("resolve %s: %w", in.Image, err)
	}
	_, err = fmt.Fprintln(stdout, found.Digest)
	return err
}

// transport takes proxies and certificates from the environment.
func transport(skipTLS bool) http.RoundTripper {
	t, ok := remote.DefaultTransport.(*http.Transport)
	if !ok {
		return remote.DefaultTransport
	}
	t = t.Clone()
	if skipTLS {
		// An administrator listed the host in dangerousSkipTLSVerify.
		t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}
	}
	return t
}

// login picks the credentials whose entry names the image's registry and, where it
// has a path, the longest that the image's name begins with.
func (in input) login(repo name.Repository) (authn.Authenticator, error) {
	best, length := in.Any, -1
	for entry, a := range in.Auths {
		host, path := split(entry)
		if host == repo.RegistryStr() && len(path) > length && within(repo.RepositoryStr(), path) {
			best, length = &a, len(path)
		}
	}
	if best == nil {
		return authn.Anonymous, nil
	}
	config := authn.AuthConfig{Username: best.Username, Password: best.Password, IdentityToken: best.IdentityToken, RegistryToken: best.RegistryToken}
	if best.Auth != "" && config.Username == "" && config.Password == "" {
		plain, err := base64.StdEncoding.DecodeString(best.Auth)
		user, password, found := strings.Cut(string(plain), ":")
		if err != nil || !found {
			return nil, fmt.Errorf("the credentials for its registry cannot be read")
		}
		config.Username, config.Password = user, strings.TrimRight(password, "\x00")
	}
	return authn.FromConfig(config), nil
}

// split returns host and path of an entry, which may be an address. The path of an
// API version is none.
func split(entry string) (host, path string) {
	if u, err := url.Parse(entry); err == nil && u.Host != "" {
		entry = u.Host + u.Path
	}
	host, path, _ = strings.Cut(entry, "/")
	path = strings.Trim(path, "/")
	if path == "v1" || path == "v2" {
		path = ""
	}
	if host == "docker.io" {
		host = name.DefaultRegistry
	}
	return host, path
}

func within(repository, path string) bool {
	return path == "" || repository == path || strings.HasPrefix(repository, path+"/")
}
