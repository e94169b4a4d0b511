package certs

import (
	"bytes"
	"sync"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
)

// Provider is the certificate that is served at the moment. New connections take up
// a new one; those that are open stay. Safe for concurrent use.
type Provider struct {
	ready chan struct{} // closed with the first certificate

	mu        sync.RWMutex // guards what follows
	cert, key []byte
	listeners []dynamiccertificates.Listener
}

// NewProvider returns a provider that has no certificate yet.
func NewProvider() *Provider { return &Provider{ready: make(chan struct{})} }

// Ready is closed when there is a certificate.
func (p *Provider) Ready() <-chan struct{} { return p.ready }

// Name is for logs.
func (p *Provider) Name() string { return "packaging-api" }

// CurrentCertKeyContent returns certificate and key in PEM.
func (p *Provider) CurrentCertKeyContent() (certPEM, keyPEM []byte) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.cert, p.key
}

// AddListener is told of each change.
func (p *Provider) AddListener(l dynamiccertificates.Listener) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listeners = append(p.listeners, l)
}

// set says whether that is another certificate than before.
func (p *Provider) set(certPEM, keyPEM []byte) bool {
	p.mu.Lock()
	if bytes.Equal(p.cert, certPEM) && bytes.Equal(p.key, keyPEM) {
		p.mu.Unlock()
		return false
	}
	if p.cert == nil {
		close(p.ready)
	}
	p.cert, p.key = certPEM, keyPEM
	listeners := p.listeners
	p.mu.Unlock()
	for _, l := range listeners {
		l.Enqueue()
	}
	return true
}
