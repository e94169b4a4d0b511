//go:build linux

package sidecar_test

import (
	"strings"
	"testing"

	"github.com/garboard-dev/garboard/pkg/sidecar"
)

// fetch runs a vendir that shows the names in its cache and adds one. secret stands
// for a part of the configuration.
func fetch(t *testing.T, r *rig, owner, secret, add string) (before string) {
	t.Helper()
	w := r.open(t, owner)
	c := command("vendir", "lscache", "addcache "+add, "exit 0", "# "+secret)
	out, code := do(t, w, c)
	if code != 0 {
		t.Fatal(out)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(out), " ")
}

func TestCache(t *testing.T) {
	r := start(t)
	steps := []struct{ reason, owner, secret, add, want string }{
		{"a first fetch finds nothing", "one", "a", "100", ""},
		{"the same fetch finds what was kept", "one", "a", "100", "f100"},
		{"another owner has its own", "two", "a", "100", ""},
		{"with another credential all is fetched anew", "one", "b", "100", ""},
		{"and the old is gone when that comes back", "one", "a", "100", ""},
		{"the other owner keeps its own", "two", "a", "100", "f100"},
	}
	// The input must be the same for the same cache, so each step adds the same.
	for _, s := range steps {
		if got := fetch(t, r, s.owner, s.secret, s.add); got != s.want {
			t.Errorf("cache has %q, want %q: %s", got, s.want, s.reason)
		}
	}
	if err := r.Forget(t.Context(), "two"); err != nil {
		t.Fatal(err)
	}
	if got := fetch(t, r, "two", "a", "100"); got != "" {
		t.Errorf("cache has %q after Forget", got)
	}
}

func TestCacheIsBounded(t *testing.T) {
	r := start(t, func(o *sidecar.ServerOptions) { o.CacheBytes = 25_000 })
	for _, owner := range []string{"one", "two", "one", "three"} { // two is the oldest
		fetch(t, r, owner, "", "10000")
	}
	st, err := r.Stats(t.Context())
	if err != nil || st.CacheBytes != 20_000 {
		t.Errorf("%+v, %v", st, err)
	}
	if got := fetch(t, r, "one", "", "10000"); got != "f10000" {
		t.Errorf("one has %q", got)
	}
	if got := fetch(t, r, "two", "", "10000"); got != "" {
		t.Errorf("two has %q", got)
	}
}
