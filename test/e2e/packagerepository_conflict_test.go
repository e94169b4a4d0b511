package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	packaging "github.com/garboard-dev/garboard/pkg/apis/packaging/v1alpha1"
	"github.com/garboard-dev/garboard/test/testenv"
)

const shared = "p.example.com.1.0.0"

// sharedDoc is a package that two repositories hold.
func sharedDoc(notes, revision string) string {
	meta := ""
	if revision != "" {
		meta = fmt.Sprintf(", annotations: {packaging.carvel.dev/revision: %q}", revision)
	}
	return pkgDoc("p.example.com", "1.0.0", ", releaseNotes: "+notes, meta)
}

// TestRepositoryConflicts: two repositories hold one package. Whoever of them comes
// first, the same one offers it in the end.
func TestRepositoryConflicts(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason           string
		first, second    string
		owner            string
		conflict         string // the reason, for the second one
		secondOfTheOther string // owner when they come in the other order
	}{
		"Identical":   {"the first one keeps it", sharedDoc("same", ""), sharedDoc("same", ""), "first", "", "second"},
		"Numbers":     {"1.10 is above 1.9", sharedDoc("a", "1.9"), sharedDoc("b", "1.10"), "second", "", "second"},
		"Longer":      {"longer wins", sharedDoc("a", "1.0"), sharedDoc("b", "1"), "first", "", "first"},
		"NoRevision":  {"nobody wins", sharedDoc("a", ""), sharedDoc("b", ""), "first", "mismatch in spec.releaseNotes", "second"},
		"Equal":       {"nobody wins", sharedDoc("a", "2"), sharedDoc("b", "2"), "first", "mismatch in spec.releaseNotes", "second"},
		"NotANumber":  {"it cannot be compared", sharedDoc("a", "1"), sharedDoc("b", "1.0-beta"), "first", `annotation packaging.carvel.dev/revision is "1.0-beta", expected whole numbers with dots between, such as 1.2`, "second"},
		"OneRevision": {"any is above none", sharedDoc("a", ""), sharedDoc("b", "0"), "second", "", "second"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRepositories(t)
			w.repo("first", inlineRepository(c.first))
			w.succeeded("first")
			w.repo("second", inlineRepository(c.second, pkgDoc("q.example.com", "1.0.0", "", "")))
			if c.conflict == "" {
				w.succeeded("second")
			} else {
				w.checkConflict(w.failed("second"), c.conflict)
			}
			w.wantOffers(shared, c.owner, "q.example.com.1.0.0", "second")

			other := newRepositories(t)
			other.repo("second", inlineRepository(c.second))
			other.succeeded("second")
			other.repo("first", inlineRepository(c.first))
			other.until("first", func(r *packaging.PackageRepository) string {
				want := v1alpha1.ReconcileSucceeded
				if c.conflict != "" {
					want = v1alpha1.ReconcileFailed
				}
				return repoEnded(r, want)
			})
			other.wantOffers(shared, c.secondOfTheOther)
		})
	}
}

// checkConflict: a conflict is told as kapp-controller tells it, and listed.
func (w repositories) checkConflict(r *packaging.PackageRepository, reason string) {
	w.Helper()
	s := r.Status
	if diff := cmp.Diff([]packaging.PackageConflict{{Kind: "Package", Name: shared, Repository: w.ns + "/first", Reason: reason}}, s.Conflicts); diff != "" {
		w.Errorf("conflicts:\n%s", diff)
	}
	if problem := contains(s.UsefulErrorMessage, "Error: Conflicting resources: Package/"+shared+" is already present but not identical ("+reason+")"); problem != "" {
		w.Error(problem)
	}
	if problem := contains(s.FriendlyDescription, "Reconcile failed: Deploying: Error (see .status.usefulErrorMessage for details)"); problem != "" {
		w.Error(problem)
	}
}

// TestRepositoryConflictEnds: ten more reconciles of two repositories that overlap
// write nothing; the conflict ends with the other repository.
func TestRepositoryConflictEnds(t *testing.T) {
	t.Parallel()
	w := newRepositories(t)
	// Text that only YAML sees makes a new generation.
	generation := func(n int, doc string) string {
		return "syncPeriod: 30s\n" + inlineRepository(doc, fmt.Sprintf("---\n# %d\n", n))
	}
	w.repo("first", generation(0, sharedDoc("a", "")))
	w.succeeded("first")
	w.repo("second", generation(0, sharedDoc("b", "")+metaDoc("p.example.com")))
	w.checkConflict(w.failed("second"), "mismatch in spec.releaseNotes")
	since := time.Now()
	for n := range 10 {
		w.repo("first", generation(n+1, sharedDoc("a", "")))
		w.repo("second", generation(n+1, sharedDoc("b", "")+metaDoc("p.example.com")))
		w.succeeded("first")
		w.failed("second")
	}
	if n := w.writes(since); n != 0 {
		t.Errorf("%d writes of packages, want none", n)
	}
	w.delete("first")
	w.gone("first")
	// After a failure it is tried again within the sync period.
	s := w.succeeded("second").Status
	if len(s.Conflicts) != 0 || s.UsefulErrorMessage != "" {
		t.Errorf("conflicts %v, %q", s.Conflicts, s.UsefulErrorMessage)
	}
	w.wantOffers(shared, "second", "p.example.com", "second")
}

// TestRepositoryTakesOver: a package without an owner, made by hand, is taken over;
// a copy that somebody made of ours under another name is left alone.
func TestRepositoryTakesOver(t *testing.T) {
	t.Parallel()
	w := newRepositories(t)
	w.apply(fmt.Sprintf("apiVersion: internal.packaging.carvel.dev/v1alpha1\nkind: InternalPackage\nmetadata: {name: %s}\nspec: {refName: p.example.com, version: 1.0.0, releaseNotes: by hand, template: {spec: {}}}\n", encodedName("p.example.com.1.0.0")))
	w.repo("repo", inlineRepository(sharedDoc("repo", "")))
	w.succeeded("repo")
	w.wantOffers(shared, "repo")

	copied := w.packages()[0].DeepCopy()
	copied.Name, copied.ResourceVersion, copied.UID = encodedName("copy.example.com.1.0.0"), "", ""
	copied.Spec.RefName, copied.ManagedFields = "copy.example.com", nil
	if err := kube.Create(t.Context(), copied); err != nil {
		t.Fatal(err)
	}
	w.repo("repo", inlineRepository(sharedDoc("changed", "")))
	w.succeeded("repo")
	w.wantOffers(shared, "repo", "copy.example.com.1.0.0", "repo")
	w.delete("repo")
	w.gone("repo")
	w.wantOffers("copy.example.com.1.0.0", "repo")
}

// TestRepositoryEvents: an event when the outcome changes, and none while it stays.
func TestRepositoryEvents(t *testing.T) {
	t.Parallel()
	w := newRepositories(t)
	w.repo("repo", inlineRepository(pkgDoc("a.example.com", "1.0.0", "", ""), pkgDoc("short", "1.0.0", "", "")))
	w.failed("repo")
	w.repo("repo", inlineRepository(pkgDoc("a.example.com", "1.0.0", "", "")))
	w.succeeded("repo")
	want := []string{"Warning ReconcileFailed", "Normal ReconcileSucceeded"}
	testenv.Eventually(t, patience, func(ctx context.Context) string {
		out, err := env.Kubectl(ctx, "get", "events", "-n", w.ns, "--field-selector=involvedObject.kind=PackageRepository", "-o=jsonpath={range .items[*]}{.type} {.reason}{\"\\n\"}{end}")
		if err != nil {
			return err.Error()
		}
		for _, line := range want {
			if !strings.Contains(out, line) {
				return fmt.Sprintf("no event %q in %q", line, out)
			}
		}
		return ""
	})
}
