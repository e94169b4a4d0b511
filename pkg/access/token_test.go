package access_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/garboard-dev/garboard/pkg/access"
)

// double is an API server that knows one service account and takes only its
// newest tokens. A real one takes tokens of a deleted account for some seconds.
type double struct {
	t   *testing.T
	mu  sync.Mutex // guards all below
	uid types.UID  // empty: there is none
	// life is that of the tokens.
	life           time.Duration
	now            time.Time
	issued         int
	failTokens     bool
	gets, refusals int
	bodies         []string
}

func (d *double) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	reply := func(code int, obj any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		if err := json.NewEncoder(w).Encode(obj); err != nil {
			d.t.Error(err)
		}
	}
	missing := metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Reason: metav1.StatusReasonNotFound, Code: 404, Message: `serviceaccounts "sa" not found`,
	}
	switch {
	case strings.HasSuffix(req.URL.Path, "/serviceaccounts/sa"):
		d.gets++
		if d.uid == "" {
			reply(404, missing)
			return
		}
		reply(200, corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "sa", UID: d.uid}})
	case strings.HasSuffix(req.URL.Path, "/serviceaccounts/sa/token"):
		if d.uid == "" || d.failTokens {
			reply(404, missing)
			return
		}
		d.issued++
		reply(201, authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{
			Token: fmt.Sprintf("%s/%d", d.uid, d.issued), ExpirationTimestamp: metav1.NewTime(d.now.Add(d.life)),
		}})
	default:
		token := strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer ")
		if uid, _, _ := strings.Cut(token, "/"); d.uid == "" || uid != string(d.uid) {
			d.refusals++
			reply(401, metav1.Status{Reason: metav1.StatusReasonUnauthorized, Code: 401})
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			d.t.Error(err)
		}
		d.bodies = append(d.bodies, string(body))
		reply(200, map[string]string{"token": token})
	}
}

func (d *double) set(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

func newDouble(t *testing.T) (*double, *access.Resolver) {
	t.Helper()
	d := &double{t: t, uid: "u1", life: time.Hour, now: time.Now()}
	server := httptest.NewServer(d)
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL, QPS: -1}
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	clock := func() time.Time { d.mu.Lock(); defer d.mu.Unlock(); return d.now }
	return d, access.New(config, core, access.Options{Now: clock})
}

// post sends a body and returns the token that was accepted.
func post(t *testing.T, target access.Target) (string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, target.Config.Host+"/x", strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	res, err := target.HTTP.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	var out map[string]string
	if err := json.NewDecoder(res.Body).Decode(&out); err != nil || res.StatusCode != http.StatusOK {
		return "", fmt.Errorf("status %d: %w", res.StatusCode, err)
	}
	return out["token"], nil
}

var account = access.Request{Namespace: "ns", ServiceAccountName: "sa"}

// An account made anew costs one refusal, also for a client given out before.
func TestAccountMadeAnew(t *testing.T) {
	d, r := newDouble(t)
	target, err := r.Resolve(t.Context(), account)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"u1/1", "u1/1", "u2/2", "u2/2"} {
		if i == 2 {
			d.set(func() { d.uid = "u2" })
		}
		if got, err := post(t, target); err != nil || got != want {
			t.Errorf("request %d: token %q, %v; want %q", i, got, err, want)
		}
	}
	if d.refusals != 1 || strings.Join(d.bodies, " ") != "body body body body" {
		t.Errorf("%d refusals, bodies %q", d.refusals, d.bodies)
	}
	if _, err := r.Resolve(t.Context(), account); err != nil {
		t.Error(err)
	}

	d.set(func() { d.uid = "" })
	if _, err := post(t, target); err == nil || !strings.Contains(err.Error(), `Getting service account: serviceaccounts "sa" not found`) {
		t.Errorf("error %v", err)
	}
	if _, err := r.Resolve(t.Context(), account); err == nil || err.Error() != `Getting service account: serviceaccounts "sa" not found` {
		t.Errorf("error %v", err)
	}
}

// Tokens are refreshed between half of their life and its end, within one
// client, and an old one serves as long as it lives.
func TestTokenRefresh(t *testing.T) {
	d, r := newDouble(t)
	target, err := r.Resolve(t.Context(), account)
	if err != nil {
		t.Fatal(err)
	}
	steps := []struct {
		reason string
		after  time.Duration
		fail   bool
		want   string
	}{
		{"young", 29 * time.Minute, false, "u1/1"},
		{"no new one to be had", 2 * time.Minute, true, "u1/1"},
		{"past half of its life", 0, false, "u1/2"},
		{"the new one is young", 29 * time.Minute, false, "u1/2"},
		{"past its end", 2 * time.Hour, false, "u1/3"},
	}
	for _, s := range steps {
		d.set(func() { d.now, d.failTokens = d.now.Add(s.after), s.fail })
		if got, err := post(t, target); err != nil || got != s.want {
			t.Errorf("%s: token %q, %v; want %q", s.reason, got, err, s.want)
		}
	}
	d.set(func() { d.now, d.failTokens = d.now.Add(2*time.Hour), true })
	if _, err := r.Resolve(t.Context(), account); err == nil || err.Error() != `Get service account token: Fetch token: serviceaccounts "sa" not found` {
		t.Errorf("error %v", err)
	}
}

// Many Apps of one account that run at once share one look and one token.
func TestOneLookForAll(t *testing.T) {
	d, r := newDouble(t)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			target, err := r.Resolve(t.Context(), account)
			if err == nil {
				_, err = post(t, target)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if d.gets != 1 || d.issued != 1 {
		t.Errorf("%d looks, %d tokens", d.gets, d.issued)
	}
}
