package sidecar

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/garboard-dev/garboard/pkg/workdir"
)

// bundleName is the file of system and given certificates in osConfig's folder.
const bundleName = "ca-bundle.crt"

// systemBundles is where distributions keep the certificates that are trusted.
var systemBundles = []string{
	"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem",
}

// osConfig is what tools find of certificates and proxies. It lasts as long as the
// process.
type osConfig struct {
	log    *slog.Logger
	dir    *workdir.Dir
	system string // file with the system's certificates, or empty

	mu    sync.Mutex // serializes changes
	proxy atomic.Pointer[Proxy]
	// bundle is the file that tools are pointed to, or empty.
	bundle atomic.Pointer[string]
}

func newOSConfig(dir *workdir.Dir, log *slog.Logger) *osConfig {
	c := &osConfig{dir: dir, log: log}
	for _, f := range append([]string{os.Getenv("SSL_CERT_FILE")}, systemBundles...) {
		if info, err := os.Stat(f); err == nil && info.Mode().IsRegular() {
			c.system = f
			break
		}
	}
	c.bundle.Store(&c.system)
	c.proxy.Store(&Proxy{})
	return c
}

// applyCACerts makes tools trust pem besides the system's certificates; an empty
// pem goes back to the system's. Tools that run keep what they have read.
func (c *osConfig) applyCACerts(pem string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log.Info("Applying CA certs", "bytes", len(pem))
	if pem == "" {
		c.bundle.Store(&c.system)
		return nil
	}
	var bundle []byte
	if c.system != "" {
		var err error
		if bundle, err = os.ReadFile(c.system); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("read the system's CA certificates: %w", err)
		}
	}
	bundle = append(append(append(bundle, '\n'), pem...), '\n')
	if err := c.dir.Replace(bundleName, bundle); err != nil {
		return fmt.Errorf("write CA certificates: %w", err)
	}
	file := filepath.Join(c.dir.Path(), bundleName)
	c.bundle.Store(&file)
	return nil
}

// applyProxy sets the proxy variables of tools; an empty value clears one. Values
// may hold passwords, so they are not logged.
func (c *osConfig) applyProxy(p Proxy) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range p.variables() {
		if v.value == "" {
			c.log.Info("Clearing " + v.name)
		} else {
			c.log.Info("Setting " + v.name)
		}
	}
	c.proxy.Store(&p)
}

type variable struct{ name, upper, value string }

func (p Proxy) variables() []variable {
	return []variable{
		{"http_proxy", "HTTP_PROXY", p.HTTPProxy},
		{"https_proxy", "HTTPS_PROXY", p.HTTPSProxy},
		{"no_proxy", "NO_PROXY", p.NoProxy},
	}
}

// env is what tools with network access get, what git gets besides, and the files
// that both name.
func (c *osConfig) env() (env []string, git [][2]string, files []string) {
	for _, v := range c.proxy.Load().variables() {
		if v.value != "" {
			env = append(env, v.name+"="+v.value, v.upper+"="+v.value)
		}
	}
	if file := *c.bundle.Load(); file != "" {
		env = append(env, "SSL_CERT_FILE="+file, "CURL_CA_BUNDLE="+file)
		// Not GIT_SSL_CAINFO, which would hide an authority that a source has for
		// its own host.
		git = append(git, [2]string{"http.sslCAInfo", file})
		files = append(files, file)
	}
	return env, git, files
}
