//go:build linux

package sidecar_test

import (
	"strings"
	"testing"

	"github.com/garboard-dev/garboard/pkg/sidecar"
	"github.com/garboard-dev/garboard/pkg/tool"
)

// fetch runs a vendir that shows the names in its cache and adds one. secret stands
// for a part of the configuration.
func fetch(t *testing.T, r *rig, owner, secret, add string) (before string) {
	t.Helper()
	w := r.open(t, owner)
	c := command("vendir", "lscache", "addcache "+add, "exit 0", "# "+secret)
	c.Cache = tool.CacheParts
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

// result runs a vendir that prints a word and leaves a file, a folder and a link,
// and returns what is there after it and how many processes that took.
func result(t *testing.T, r *rig, owner, word string) (tree string, starts int64) {
	t.Helper()
	before, err := r.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w := r.open(t, owner)
	c := command("vendir", "mkdir d 700", "write d/f "+word, "link d/f l", "env", "exit 0")
	c.Dir, c.Cache = "src", tool.CacheAll
	if out, code := do(t, w, c); code != 0 || !strings.Contains(out, "HOME=") {
		t.Fatal(code, out)
	}
	out, code := do(t, w, command("ytt", "cat src/l", "ls src/d"))
	if code != 0 {
		t.Fatal(out)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	after, err := r.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return out, after.Starts["vendir"] - before.Starts["vendir"]
}

// TestCacheOfResults: what always gives the same is run once, for one owner with one
// input.
func TestCacheOfResults(t *testing.T) {
	r := start(t, func(o *sidecar.ServerOptions) { o.CacheBytes = 25_000 })
	for _, s := range []struct {
		reason, owner, word string
		starts              int64
	}{
		{"the first run", "one", "a", 1},
		{"the same again", "one", "a", 0},
		{"another owner", "two", "a", 1},
		{"another input", "one", "b", 1},
		{"the first input, which the other replaced", "one", "a", 1},
		{"larger than the cache", "big", strings.Repeat("x", 30_000), 1},
		{"larger than the cache, again", "big", strings.Repeat("x", 30_000), 1},
	} {
		tree, starts := result(t, r, s.owner, s.word)
		if tree != s.word+"f\n" || starts != s.starts {
			t.Errorf("%s: %d starts, want %d; tree %.80q", s.reason, starts, s.starts, tree)
		}
	}
	if err := r.Forget(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	if _, starts := result(t, r, "one", "a"); starts != 1 {
		t.Error("the result outlived Forget")
	}
	for _, owner := range []string{"three", "four", "one"} { // three goes when one comes back
		result(t, r, owner, strings.Repeat("y", 9_000))
	}
	if st, err := r.Stats(t.Context()); err != nil || st.CacheBytes > 25_000 || st.CacheBytes == 0 {
		t.Errorf("%+v, %v", st, err)
	}
	if _, starts := result(t, r, "one", strings.Repeat("y", 9_000)); starts != 0 {
		t.Error("the newest was evicted")
	}
	if _, starts := result(t, r, "two", "a"); starts != 1 {
		t.Error("the oldest was not evicted")
	}
}

// TestCacheOfFailures: neither a failed run nor refused content is given again.
func TestCacheOfFailures(t *testing.T) {
	r := start(t)
	for name, script := range map[string][]string{"Exit": {"exit 1"}, "Refused": {"link /etc/passwd l", "exit 0"}} {
		for range 2 {
			w := r.open(t, name)
			c := command("vendir", script...)
			c.Dir, c.Cache = "src", tool.CacheAll
			if res, err := w.Run(t.Context(), c); err == nil && res.ExitCode == 0 {
				t.Errorf("%s: success", name)
			}
		}
	}
	if st, err := r.Stats(t.Context()); err != nil || st.Starts["vendir"] != 4 {
		t.Errorf("%+v, %v", st, err)
	}
}
