package repository_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/garboard-dev/garboard/pkg/repository"
	"github.com/garboard-dev/garboard/test/golden"
)

// pkg is a Package's document; extra is put into its spec, meta into its metadata.
func pkg(name, version, extra, meta string) string {
	return fmt.Sprintf("apiVersion: data.packaging.carvel.dev/v1alpha1\nkind: Package\nmetadata: {name: %[1]s.%[2]s%[4]s}\nspec: {refName: %[1]s, version: %[2]s, template: {spec: {}}%[3]s}\n", name, version, extra, meta)
}

func metadata(name, spec string) string {
	return fmt.Sprintf("apiVersion: data.packaging.carvel.dev/v1alpha1\nkind: PackageMetadata\nmetadata: {name: %s}\nspec: {%s}\n", name, spec)
}

func content(t testing.TB, docs ...string) repository.Content {
	t.Helper()
	c, err := repository.Filter([]byte(strings.Join(docs, "---\n")))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var (
	mine   = repository.Owner{Namespace: "team-a", Name: "repo", Label: "1700000000000000000"}
	theirs = repository.Owner{Namespace: "team-a", Name: "other", Label: "1800000000000000000"}
)

func one(t testing.TB, o repository.Owner, doc string) repository.Object {
	t.Helper()
	objs := o.Own(content(t, doc))
	if len(objs) != 1 {
		t.Fatalf("%d objects in %s", len(objs), doc)
	}
	return objs[0]
}

func annotated(revision string) string {
	return fmt.Sprintf(", annotations: {packaging.carvel.dev/revision: %q}", revision)
}

// TestDecide is the table of who gets an object, with two repositories.
func TestDecide(t *testing.T) {
	p := func(extra, meta string) string { return pkg("p.example.com", "1.0.0", extra, meta) }
	const other = ", releaseNotes: other"
	cases := map[string]struct {
		reason         string
		owner          repository.Owner
		existing, next string
		want           repository.Action
		why            string
	}{
		"OwnSame":            {"nothing changed", mine, p("", ""), p("", ""), repository.Keep, ""},
		"OwnChanged":         {"the repository has new content", mine, p("", ""), p(other, ""), repository.Update, ""},
		"OwnLowerRevision":   {"revisions order repositories, not releases of one", mine, p("", annotated("2")), p("", annotated("1")), repository.Update, ""},
		"OtherIdentical":     {"the first one keeps it", theirs, p("", ""), p("", ""), repository.Leave, ""},
		"OtherHigher":        {"1.10 is above 1.9", theirs, p("", annotated("1.10")), p(other, annotated("1.9")), repository.Leave, ""},
		"OtherLower":         {"as numbers, not as text", theirs, p("", annotated("1.9")), p(other, annotated("1.10")), repository.Update, ""},
		"OtherShorter":       {"equal as far as both go: longer wins", theirs, p("", annotated("1")), p(other, annotated("1.0")), repository.Update, ""},
		"OtherLonger":        {"the same from the other side", theirs, p("", annotated("1.0")), p(other, annotated("1")), repository.Leave, ""},
		"OtherNoRevision":    {"any revision is above none", theirs, p("", ""), p(other, annotated("0")), repository.Update, ""},
		"OtherEqual":         {"nobody wins", theirs, p("", annotated("1")), p(other, annotated("1")), repository.Conflict, "adding spec.releaseNotes"},
		"NoRevisions":        {"nobody wins", theirs, p(other, ""), p("", ""), repository.Conflict, "missing spec.releaseNotes"},
		"Mismatch":           {"both have the field", theirs, p(other, ""), p(", releaseNotes: this", ""), repository.Conflict, "mismatch in spec.releaseNotes"},
		"Labels":             {"labels are content", theirs, p("", ""), p("", ", labels: {a: b}"), repository.Conflict, "mismatch in metadata.labels"},
		"Annotations":        {"and so are annotations", theirs, p("", ", annotations: {a: b}"), p("", ", annotations: {a: c}"), repository.Conflict, "mismatch in metadata.annotations"},
		"OwnBadRevision":     {"which says nothing about order", theirs, p("", annotated("1")), p(other, annotated("1.0-beta")), repository.Conflict, `annotation packaging.carvel.dev/revision is "1.0-beta", expected whole numbers with dots between, such as 1.2`},
		"TheirBadRevision":   {"it is said whose it is", theirs, p("", annotated("")), p(other, annotated("1")), repository.Conflict, `annotation packaging.carvel.dev/revision is "", expected whole numbers with dots between, such as 1.2, in the object of team-a/other`},
		"NumbersAreValues":   {"how a number is written is no difference", theirs, p(", valuesSchema: {openAPIv3: {default: 1.0}}", ""), p(", valuesSchema: {openAPIv3: {default: 1}}", ""), repository.Leave, ""},
		"ImagesNotRelocated": {"kbld's note on an own package is not worth a write", mine, p("", ", annotations: {kbld.k14s.io/images: x}"), p("", ""), repository.Keep, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, why := repository.Decide(one(t, c.owner, c.existing), one(t, mine, c.next))
			if got != c.want || why != c.why {
				t.Errorf("%s: %s %q, want %s %q", c.reason, got, why, c.want, c.why)
			}
		})
	}
	t.Run("NoOwner", func(t *testing.T) {
		for _, doc := range []string{p("", ""), p(other, annotated("9"))} {
			existing := one(t, theirs, doc)
			delete(existing.GetAnnotations(), repository.OwnerAnnotation)
			if got, _ := repository.Decide(existing, one(t, mine, p("", ""))); got != repository.Update {
				t.Errorf("%s: what nobody owns is taken over", got)
			}
		}
	})
}

func TestFilter(t *testing.T) {
	good := pkg("good.example.com", "1.0.0", "", "")
	cases := map[string]struct {
		reason string
		docs   []string
		want   []string // objects, then problems
	}{
		"Foreign":     {"other kinds and versions are left out", []string{good, "kind: ConfigMap\napiVersion: v1\n", "- a\n", "\n", strings.ReplaceAll(good, "v1alpha1", "v1beta1"), strings.ReplaceAll(good, "kind: Package", "kind: PackageInstall")}, []string{"good.example.com.1.0.0"}},
		"Type":        {"a number where text is expected", []string{good, strings.ReplaceAll(pkg("bad.example.com", "1.0.0", "", ""), "version: 1.0.0", "version: 1.0")}, []string{"good.example.com.1.0.0", "document 2 (Package/bad.example.com.1.0.0): spec.version: expected string, but is a number (hint: put it in quotes)"}},
		"Shape":       {"a list where an object is expected", []string{strings.ReplaceAll(good, "template: {spec: {}}", "template: [1]"), good}, []string{"good.example.com.1.0.0", "document 1 (Package/good.example.com.1.0.0): spec.template: expected v1alpha1.AppTemplateSpec, but is a array"}},
		"Invalid":     {"the rules of the packaging API", []string{good, pkg("short", "1.0.0", "", "")}, []string{"good.example.com.1.0.0", `document 2 (Package/short.1.0.0): spec.refName: Invalid value: "short": should be a domain with at least three segments separated by dots`}},
		"UpperCase":   {"fields have one name", []string{strings.ReplaceAll(good, "refName: good", "REFNAME: good")}, []string{"document 1 (Package/good.example.com.1.0.0): [spec.refName: Required value: can not be empty, metadata.name: Invalid value: \"good.example.com.1.0.0\": must be <spec.refName> + '.' + <spec.version>]"}},
		"FarFuture":   {"in Greenwich it is the year 10000", []string{strings.ReplaceAll(good, "{spec: {}}", "{spec: {}}, releasedAt: '9999-12-31T23:59:59-01:00'")}, []string{"document 1 (Package/good.example.com.1.0.0): spec.releasedAt: year 10000 cannot be written"}},
		"NoTemplate":  {"the store refuses it", []string{strings.ReplaceAll(good, ", template: {spec: {}}", "")}, []string{"document 1 (Package/good.example.com.1.0.0): spec.template.spec: Required value"}},
		"Metadata":    {"names of metadata", []string{metadata("good.example.com", "displayName: Good"), metadata("bad", "")}, []string{"good.example.com", `document 2 (PackageMetadata/bad): metadata.name: Invalid value: "bad": should be a domain with at least three segments separated by dots`}},
		"Twice":       {"the same twice is once", []string{good, good}, []string{"good.example.com.1.0.0"}},
		"Contradicts": {"of two contents for one name neither is taken", []string{good, pkg("good.example.com", "1.0.0", ", releaseNotes: x", ""), good}, []string{"document 2 (Package/good.example.com.1.0.0): document 1 has the same name and other content"}},
		"NoYAML":      {"a document that is no YAML", []string{good, "a: [\n"}, []string{"good.example.com.1.0.0", "document 2: yaml: line 1: did not find expected node content"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			found := content(t, c.docs...)
			var got []string
			for _, p := range found.Packages {
				got = append(got, p.Name)
			}
			for _, m := range found.Metadata {
				got = append(got, m.Name)
			}
			for _, p := range found.Problems {
				got = append(got, p.String())
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s:\n%s", c.reason, diff)
			}
		})
	}
}

func TestPlan(t *testing.T) {
	a, b, c := pkg("a.example.com", "1.0.0", "", ""), pkg("b.example.com", "1.0.0", "", ""), metadata("c.example.com", "")
	foreign := one(t, mine, a)
	foreign.GetAnnotations()["kapp.k14s.io/identity"] = "v1;team-a/data.packaging.carvel.dev/Package/z.example.com.1.0.0;data.packaging.carvel.dev/v1alpha1"
	old := one(t, mine, b)
	delete(old.GetAnnotations(), repository.OwnerAnnotation)
	cases := map[string]struct {
		reason   string
		existing []repository.Object
		next     []string
		problems []repository.Problem
		want     []string
	}{
		"First":       {"all is new", nil, []string{a, b, c}, nil, []string{"Create Package/a.example.com.1.0.0", "Create Package/b.example.com.1.0.0", "Create PackageMetadata/c.example.com"}},
		"Unchanged":   {"nothing to do", []repository.Object{one(t, mine, a)}, []string{a}, nil, []string{"Keep Package/a.example.com.1.0.0"}},
		"Withdrawn":   {"what the repository dropped goes", []repository.Object{one(t, mine, a), one(t, mine, b)}, []string{a}, nil, []string{"Keep Package/a.example.com.1.0.0", "Delete Package/b.example.com.1.0.0"}},
		"Others":      {"what another one offers stays", []repository.Object{one(t, theirs, b)}, []string{a}, nil, []string{"Create Package/a.example.com.1.0.0"}},
		"Copied":      {"and what somebody made of ours", []repository.Object{foreign}, []string{b}, nil, []string{"Create Package/b.example.com.1.0.0"}},
		"Unnamed":     {"kapp deployed it before repositories were named", []repository.Object{old}, []string{a}, nil, []string{"Create Package/a.example.com.1.0.0", "Delete Package/b.example.com.1.0.0"}},
		"BadDocument": {"a document that broke withdraws nothing", []repository.Object{one(t, mine, a), one(t, mine, b)}, []string{c}, []repository.Problem{{Document: 1, Key: repository.Key{Kind: "Package", Name: "b.example.com.1.0.0"}}}, []string{"Delete Package/a.example.com.1.0.0", "Create PackageMetadata/c.example.com"}},
		"BadUnnamed":  {"nor does one without a name, whatever it was", []repository.Object{one(t, mine, a), one(t, mine, b)}, []string{c}, []repository.Problem{{Document: 1}}, []string{"Create PackageMetadata/c.example.com"}},
		"Delete":      {"all that is ours", []repository.Object{one(t, mine, a), one(t, theirs, b), one(t, mine, c)}, nil, nil, []string{"Delete Package/a.example.com.1.0.0", "Delete PackageMetadata/c.example.com"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, change := range repository.Plan(mine, tc.existing, mine.Own(content(t, tc.next...)), tc.problems) {
				got = append(got, fmt.Sprintf("%s %s", change.Action, change.Key()))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s:\n%s", tc.reason, diff)
			}
		})
	}
}

// TestOwn shows what is stored: equal to what kapp-controller stores, through kapp
// and the packaging API.
func TestOwn(t *testing.T) {
	var b strings.Builder
	for _, o := range mine.Own(content(t,
		pkg("pkg.example.com", "1.0.0", ", unknown: 1", ", namespace: elsewhere, finalizers: [x], labels: {a: b}, annotations: {packaging.carvel.dev/revision: '2'}"),
		metadata("pkg.example.com", "displayName: Pkg"))) {
		text, err := yaml.Marshal(o.Stored)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "---\n%s", text)
	}
	golden.Equal(t, "testdata/own.want.yml", []byte(b.String()))
}

func TestConflictText(t *testing.T) {
	doc := pkg("p.example.com", "1.0.0", "", "")
	changes := repository.Plan(mine, []repository.Object{one(t, theirs, pkg("p.example.com", "1.0.0", ", releaseNotes: x", ""))}, mine.Own(content(t, doc)), nil)
	want := "Error: Conflicting resources: Package/p.example.com.1.0.0 is already present but not identical (missing spec.releaseNotes)"
	if got := changes[0].String(); !strings.HasPrefix(got, want) || !strings.Contains(got, "team-a/other") {
		t.Error(got)
	}
}

func TestRelocated(t *testing.T) {
	const lock = "apiVersion: imgpkg.carvel.dev/v1alpha1\nkind: ImagesLock\nimages:\n"
	for name, c := range map[string]struct {
		reason, lock string
		want, fails  bool
	}{
		"None":     {"a bundle without images", strings.TrimSuffix(lock, "images:\n"), false, false},
		"Same":     {"copied nowhere", lock + "- image: a@sha256:1\n  annotations: {kbld.carvel.dev/id: 'a@sha256:1'}\n", false, false},
		"NoID":     {"no package can name it", lock + "- image: a@sha256:1\n", false, false},
		"Copied":   {"the image is elsewhere", lock + "- image: b@sha256:1\n  annotations: {kbld.carvel.dev/id: 'a@sha256:1'}\n", true, false},
		"Resolved": {"a tag was resolved", lock + "- image: a@sha256:1\n  annotations: {kbld.carvel.dev/id: 'a:1'}\n", true, false},
		"Broken":   {"no lock at all", "- x\n", false, true},
	} {
		got, err := repository.Relocated([]byte(c.lock))
		if got != c.want || (err != nil) != c.fails {
			t.Errorf("%s: %s: %t, %v", name, c.reason, got, err)
		}
	}
}
