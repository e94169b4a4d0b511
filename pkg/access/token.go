package access

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

const (
	// tokenSeconds is the life asked for; the API server may give less or more.
	tokenSeconds = 7200
	// checkedFor is how long a service account that was seen counts as there.
	// Shorter than any sync period, so it only saves requests when many Apps of
	// one service account run at once; a wrong guess ends in a 401, which heals.
	checkedFor = 10 * time.Second
	// refreshJitter spreads the refreshes of tokens that were made together.
	refreshJitter = 10 * time.Second
)

// tokenSource gives the current token of one service account.
type tokenSource struct {
	accounts corev1client.ServiceAccountInterface
	name     string
	now      func() time.Time

	mu      sync.Mutex // guards all below; held while asking, so that one asks for all
	uid     types.UID
	checked time.Time
	token   string
	refresh time.Time
	expires time.Time
}

func newTokenSource(accounts corev1client.ServiceAccountInterface, name string, now func() time.Time) *tokenSource {
	return &tokenSource{accounts: accounts, name: name, now: now}
}

// check fails if the service account is gone or gets no token.
func (s *tokenSource) check(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now().Sub(s.checked) > checkedFor {
		if err := s.lookUp(ctx); err != nil {
			return err
		}
	}
	_, err := s.current(ctx)
	return err
}

// Token returns a token to use now.
func (s *tokenSource) Token(ctx context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current(ctx)
}

// Replace returns another token than refused, which the API server answered
// with 401: its service account was deleted, and perhaps made anew.
func (s *tokenSource) Replace(ctx context.Context, refused string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.token == refused {
		s.token = ""
		if err := s.lookUp(ctx); err != nil {
			return "", err
		}
	}
	return s.current(ctx)
}

func (s *tokenSource) lookUp(ctx context.Context) error {
	sa, err := s.accounts.Get(ctx, s.name, metav1.GetOptions{})
	if err != nil {
		s.checked = time.Time{}
		return fmt.Errorf("Getting service account: %w", err)
	}
	if sa.UID != s.uid {
		s.uid, s.token = sa.UID, ""
	}
	s.checked = s.now()
	return nil
}

func (s *tokenSource) current(ctx context.Context) (string, error) {
	now := s.now()
	if s.token != "" && now.Before(s.refresh) {
		return s.token, nil
	}
	seconds := int64(tokenSeconds)
	req := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	res, err := s.accounts.CreateToken(ctx, s.name, req, metav1.CreateOptions{})
	if err != nil {
		if s.token != "" && now.Before(s.expires) {
			return s.token, nil
		}
		return "", fmt.Errorf("Get service account token: Fetch token: %w", err)
	}
	s.token, s.expires = res.Status.Token, res.Status.ExpirationTimestamp.Time
	life := min(s.expires.Sub(now), tokenSeconds*time.Second)
	s.refresh = now.Add(life/2 - rand.N(refreshJitter))
	return s.token, nil
}

// tokenTransport adds the current token to each request.
type tokenTransport struct {
	tokens *tokenSource
	next   http.RoundTripper
}

// RoundTrip sends req, and once more with another token after a 401.
func (t *tokenTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	token, err := t.tokens.Token(req.Context())
	if err != nil {
		return nil, err
	}
	res, err := t.next.RoundTrip(withToken(req, token, req.Body))
	if err != nil || res.StatusCode != http.StatusUnauthorized || (req.Body != nil && req.GetBody == nil) {
		return res, err
	}
	other, err := t.tokens.Replace(req.Context(), token)
	if err != nil {
		drain(res)
		return nil, err
	}
	body := req.Body
	if req.GetBody != nil {
		if body, err = req.GetBody(); err != nil {
			return res, nil
		}
	}
	drain(res)
	return t.next.RoundTrip(withToken(req, other, body))
}

func withToken(req *http.Request, token string, body io.ReadCloser) *http.Request {
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer "+token)
	req.Body = body
	return req
}

// drain lets the connection be used again.
func drain(res *http.Response) {
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10))
	_ = res.Body.Close()
}
