package repository_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/garboard-dev/garboard/pkg/repository"
)

// FuzzFilter: whatever a repository prints, what is taken of it is stored under a
// name that can be read back, and reading it again gives the same.
func FuzzFilter(f *testing.F) {
	f.Add([]byte(pkg("a.example.com", "1.0.0", ", unknown: [1]", ", labels: {a: b}") + "---\n" + metadata("a.example.com", "displayName: A")))
	f.Add([]byte("a: &a [x]\nb: [*a, *a]\n---\nnull\n---\n- 1\n"))
	f.Add([]byte(pkg("a.example.com", "1.0.0", ", valuesSchema: {openAPIv3: {a: 1e3, b: [null]}}, releasedAt: 2021-05-05T18:57:06Z", "")))
	f.Fuzz(func(t *testing.T, stream []byte) {
		c, err := repository.Filter(stream)
		if err != nil || c.Len() == 0 {
			return
		}
		text, err := repository.Encode(c)
		if err != nil {
			t.Fatal(err)
		}
		again, err := repository.Filter(text)
		if err != nil || len(again.Problems) > 0 || again.Len() != c.Len() {
			t.Fatalf("%v %v: %d objects, were %d", err, again.Problems, again.Len(), c.Len())
		}
		first, second := mine.Own(c), mine.Own(again)
		for i, o := range first {
			if action, why := repository.Decide(o, second[i]); action != repository.Keep {
				t.Fatalf("%s changed: %s %s %v", o.Key, action, why, equality.Semantic.DeepEqual(o.Stored, second[i].Stored))
			}
			if !mine.Owns(o) {
				t.Fatalf("%s would not be found again", o.Key)
			}
		}
	})
}

// FuzzRevision: of two repositories at most one wins, whoever comes first.
func FuzzRevision(f *testing.F) {
	for _, pair := range [][2]string{{"1.9", "1.10"}, {"1", "1.0"}, {"1.0-beta", "1"}, {"", "1"}, {"-1", "0"}} {
		f.Add(pair[0], pair[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		x := one(t, mine, pkg("p.example.com", "1.0.0", "", ""))
		y := one(t, theirs, pkg("p.example.com", "1.0.0", ", releaseNotes: other", ""))
		x.GetAnnotations()[repository.RevisionAnnotation], y.GetAnnotations()[repository.RevisionAnnotation] = a, b
		xOverY, _ := repository.Decide(y, x)
		yOverX, _ := repository.Decide(x, y)
		if (xOverY == repository.Update) == (yOverX == repository.Update) && (xOverY != repository.Conflict || yOverX != repository.Conflict) {
			t.Errorf("%q over %q: %s, the other way round: %s", a, b, xOverY, yOverX)
		}
	})
}
