// Package access turns what an App says about identity and cluster into a REST
// configuration and an http client that all deploys of that identity share.
//
// A service account's token is looked up for each request, so a deploy that
// outlives its token, or whose service account is made anew, goes on. No client
// made here limits its own rate: the API server's priority and fairness does.
package access

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/discovery"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
)

// UserAgent names the requests. The API server takes the field manager of an
// update from the part before the slash, and users' policies expect kapp there.
const UserAgent = "kapp/v0.64.2 (garboard)"

// unusedFor is how long a client is kept without use.
const unusedFor = time.Hour

// errNoIdentity refuses a deploy that would run as the controller itself.
var errNoIdentity = errors.New("Expected service account or cluster specified")

// Core is what access reads from the controller's own cluster, with the
// controller's rights. kubernetes.Interface satisfies it.
type Core interface {
	CoreV1() corev1client.CoreV1Interface
	Discovery() discovery.DiscoveryInterfaces
}

// Options tune a Resolver.
type Options struct {
	// CAData is the PEM bundle to trust for the controller's own cluster. Empty:
	// what the base configuration says.
	CAData []byte
	// Now is the clock. Nil: time.Now.
	Now func() time.Time
}

// Request says who deploys where, as an App does.
type Request struct {
	// Namespace is the App's.
	Namespace string
	// ServiceAccountName wins over Cluster.
	ServiceAccountName string
	Cluster            *v1alpha1.AppCluster
	// DefaultNamespace is the App's spec.defaultNamespace, or empty.
	DefaultNamespace string
}

// Target is a cluster seen by an identity.
type Target struct {
	// Config holds no credentials; HTTP adds them. Not to be changed.
	Config *rest.Config
	HTTP   *http.Client
	// Key names the pair of cluster and identity.
	Key string
	// Namespace is kapp's --namespace: where objects go that name none. It is
	// always set, also where kapp would find it by itself.
	Namespace string
	// AppNamespace is kapp's --app-namespace: where kapp keeps its records.
	// Empty: Namespace.
	AppNamespace string
}

// Resolver gives Targets. It is safe for concurrent use.
type Resolver struct {
	base *rest.Config
	core Core
	now  func() time.Time

	mu      sync.Mutex // guards all below
	clients map[string]*client
	swept   time.Time
}

// client is what is shared by all Targets of one Key.
type client struct {
	config *rest.Config
	http   *http.Client
	tokens *tokenSource // nil for a kubeconfig
	used   time.Time
}

// New returns a Resolver for the cluster that base reaches. Credentials of base
// are never used for a Target.
func New(base *rest.Config, core Core, opts Options) *Resolver {
	cfg := rest.AnonymousClientConfig(base)
	if len(opts.CAData) > 0 {
		cfg.CAData, cfg.CAFile = opts.CAData, ""
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Resolver{base: cfg, core: core, now: opts.Now, clients: map[string]*client{}}
}

// Resolve checks that the identity exists and returns where and as whom to
// deploy. Its errors are what a user reads.
func (r *Resolver) Resolve(ctx context.Context, req Request) (Target, error) {
	switch {
	case req.Namespace == "":
		return Target{}, errors.New("Expected namespace to be specified")
	case req.ServiceAccountName != "":
		return r.serviceAccount(ctx, req)
	case req.Cluster != nil:
		return r.kubeconfig(ctx, req)
	}
	return Target{}, errNoIdentity
}

func (r *Resolver) serviceAccount(ctx context.Context, req Request) (Target, error) {
	key := "serviceaccount/" + req.Namespace + "/" + req.ServiceAccountName
	c, err := r.client(key, func() (*client, error) {
		tokens := newTokenSource(r.core.CoreV1().ServiceAccounts(req.Namespace), req.ServiceAccountName, r.now)
		cfg := rest.CopyConfig(r.base)
		cfg.WrapTransport = func(rt http.RoundTripper) http.RoundTripper {
			return &tokenTransport{tokens: tokens, next: rt}
		}
		return newClient(cfg, tokens)
	})
	if err != nil {
		return Target{}, err
	}
	if err := c.tokens.check(ctx); err != nil {
		return Target{}, err
	}
	ns := req.Namespace
	if req.DefaultNamespace != "" {
		ns = req.DefaultNamespace
	}
	return Target{Config: c.config, HTTP: c.http, Key: key, Namespace: ns, AppNamespace: req.Namespace}, nil
}

func (r *Resolver) kubeconfig(ctx context.Context, req Request) (Target, error) {
	data, err := r.kubeconfigData(ctx, req.Namespace, req.Cluster.KubeconfigSecretRef)
	if err != nil {
		return Target{}, err
	}
	config, contextNamespace, err := restrictedConfig(data, r.base.Host)
	if err != nil {
		return Target{}, err
	}
	sum := sha256.Sum256(data)
	key := "kubeconfig/" + hex.EncodeToString(sum[:])
	c, err := r.client(key, func() (*client, error) { return newClient(config, nil) })
	if err != nil {
		return Target{}, err
	}
	t := Target{Config: c.config, HTTP: c.http, Key: key, Namespace: contextNamespace}
	switch named, fallback := req.Cluster.Namespace, req.DefaultNamespace; {
	case named != "" && fallback != "":
		t.Namespace, t.AppNamespace = fallback, named
	case named != "":
		t.Namespace, t.AppNamespace = named, named
	case fallback != "":
		t.Namespace, t.AppNamespace = fallback, contextNamespace
	}
	return t, nil
}

// client returns the client of key, made by build if there is none, and lets go
// of clients that nobody asked for in a long time.
func (r *Resolver) client(key string, build func() (*client, error)) (*client, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if now.Sub(r.swept) > unusedFor/4 {
		r.swept = now
		for k, c := range r.clients {
			if now.Sub(c.used) > unusedFor {
				c.http.CloseIdleConnections()
				delete(r.clients, k)
			}
		}
	}
	c, ok := r.clients[key]
	if !ok {
		var err error
		if c, err = build(); err != nil {
			return nil, err
		}
		r.clients[key] = c
	}
	c.used = now
	return c, nil
}

// newClient builds the http client of cfg. What it returns as configuration is
// for clients that are given the http client: it has no credentials.
func newClient(cfg *rest.Config, tokens *tokenSource) (*client, error) {
	cfg.UserAgent = UserAgent
	cfg.QPS, cfg.Burst, cfg.RateLimiter = -1, 0, nil
	// A deploy follows logs for as long as it runs; its own context bounds it.
	cfg.Timeout = 0
	h, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("Building Kubernetes client: %w", err)
	}
	plain := rest.AnonymousClientConfig(cfg)
	plain.WrapTransport = nil
	return &client{config: plain, http: h, tokens: tokens}, nil
}
