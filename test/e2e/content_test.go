package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/test/testenv/controlplane"
)

// TestAccountMadeAnew: a service account that is deleted and made again is another
// one, whose tokens are needed at once.
func TestAccountMadeAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.app("again", yttApp(map[string]string{"a.yml": cm("again", "v", "1")}))
	w.succeeded("again")
	accounts := env.Core.CoreV1().ServiceAccounts(w.ns)
	if err := accounts.Delete(t.Context(), "deployer", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "deployer"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.app("again", yttApp(map[string]string{"a.yml": cm("again", "v", "2")}))
	if app := w.succeeded("again"); app.Status.ConsecutiveReconcileFailures != 0 || app.Status.ConsecutiveReconcileSuccesses < 2 {
		t.Errorf("%d failures on the way", app.Status.ConsecutiveReconcileFailures)
	}
	w.wantConfigMap("again", map[string]string{"v": "2"})
}

// TestEmptyThenFull: an App that was empty for a while does not make the next
// deploy look for it in all kinds of the cluster.
func TestEmptyThenFull(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	spec := func(manifest string) string {
		return strings.Replace(yttApp(map[string]string{"a.yml": manifest}), "kapp: {}", "kapp: {rawOptions: [--dangerous-allow-empty-list-of-resources=true]}", 1)
	}
	w.app("e", spec(cm("e")))
	w.succeeded("e")
	w.app("e", spec(""))
	w.succeeded("e")
	w.noConfigMap("e")
	since := time.Now()
	w.app("e", spec(cm("e")))
	w.succeeded("e")
	w.configMap("e")
	lists := env.AuditCount(t, controlplane.Filter{User: "system:serviceaccount:" + w.ns + ":deployer", Verb: "list", Since: since})
	if lists > 4 {
		t.Errorf("%d lists", lists)
	}
	w.app("e", spec(""))
	w.succeeded("e")
	// None is something else than not known, which is what no list at all says.
	if spec := w.record("e.app").Data["spec"]; !strings.Contains(spec, `"usedGKs":[]`) {
		t.Errorf("the record of an App without objects says %s", spec)
	}
}

// TestLongNames: Apps with names as long as the API takes, equal in what fits into
// a label.
func TestLongNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	part := strings.Repeat("a", 60)
	long := strings.Join([]string{part, part, part, part}, ".") + ".012345678"
	names := []string{part, part + "bcd", long[:200], long[:252], long[:252] + "z"}
	inspected := func(i, value int) string {
		return strings.Replace(yttApp(map[string]string{"a.yml": cm(fmt.Sprintf("long-%d", i), "v", fmt.Sprint(value))}), "kapp: {}", "kapp: {inspect: {}}", 1)
	}
	for i, name := range names {
		w.app(name, inspected(i, 1))
	}
	for _, name := range names {
		w.succeeded(name)
	}
	labels := map[string]string{}
	for i, name := range names {
		w.app(name, inspected(i, 2))
		s := w.succeeded(name).Status
		w.wantConfigMap(fmt.Sprintf("long-%d", i), map[string]string{"v": "2"})
		// Each sees its own object and nothing of those with nearly the same name.
		if !strings.Contains(s.Inspect.Stdout, "1 resources") || !strings.Contains(s.Inspect.Stdout, fmt.Sprintf("long-%d", i)) {
			t.Errorf("App %d inspects\n%s", i, s.Inspect.Stdout)
		}
		label := s.Deploy.KappDeployStatus.AssociatedResources.Label
		if other, taken := labels[label]; taken || label == "" {
			t.Errorf("%s and %s have the label %q", name, other, label)
		}
		labels[label] = name
	}
	w.delete(names[3])
	w.gone(names[3])
	w.noConfigMap("long-3")
	w.configMap("long-4")
	w.configMap("long-2")
}

// TestLargeAnnotation: kapp's own copy does not fit beside it.
func TestLargeAnnotation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	manifest := func(value string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: large\n  annotations:\n    note: " + strings.Repeat("x", 131_072) + "\ndata: {v: '" + value + "'}\n"
	}
	w.app("large", yttApp(map[string]string{"a.yml": manifest("1")}))
	w.succeeded("large")
	since := time.Now()
	w.app("large", "syncPeriod: 1h\n"+yttApp(map[string]string{"a.yml": manifest("1")}))
	if out := w.succeeded("large").Status.Deploy.Stdout; !strings.Contains(out, "0 create, 0 delete, 0 update") {
		t.Errorf("a deploy of the same:\n%s", out)
	}
	deployer := controlplane.Filter{User: "system:serviceaccount:" + w.ns + ":deployer", Resource: "configmaps", Name: "large", Since: since}
	for _, deployer.Verb = range []string{"update", "patch"} {
		if n := env.AuditCount(t, deployer); n > 0 {
			t.Errorf("a deploy of the same sends %d %s requests", n, deployer.Verb)
		}
	}
	w.app("large", strings.Replace(yttApp(map[string]string{"a.yml": manifest("2")}), "kapp: {}", "kapp: {rawOptions: [--diff-changes=true]}", 1))
	out := w.succeeded("large").Status.Deploy.Stdout
	if !strings.Contains(out, "0 create, 0 delete, 1 update") || !strings.Contains(out, `-   v: "1"`) || !strings.Contains(out, `+   v: "2"`) || strings.Contains(out, "xxx") {
		t.Errorf("the difference is not of one key:\n%s", out)
	}
	w.wantConfigMap("large", map[string]string{"v": "2"})
}

// packed is a tar.gz with the entries after a good file.
func packed(t *testing.T, entries ...tar.Header) []byte {
	t.Helper()
	var buf bytes.Buffer
	zw := gzip.NewWriter(&buf)
	tw := tar.NewWriter(zw)
	content := cm("unpacked")
	for _, h := range append([]tar.Header{{Name: "a.yml", Mode: 0o644, Size: int64(len(content))}}, entries...) {
		if err := tw.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := tw.Write([]byte(content)[:h.Size]); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// TestHostileContent: content that leads out of its folder is refused, whichever way
// it comes, and says so.
func TestHostileContent(t *testing.T) {
	t.Parallel()
	link := func(name, to string) tar.Header {
		return tar.Header{Name: name, Linkname: to, Typeflag: tar.TypeSymlink}
	}
	archives := map[string][]byte{
		"up":       packed(t, link("l.yml", "../../../../../../etc/passwd")),
		"absolute": packed(t, link("l.yml", "/etc/passwd")),
		"hardlink": packed(t, tar.Header{Name: "l.yml", Linkname: "../x", Typeflag: tar.TypeLink}),
		"through":  packed(t, link("d", "/tmp"), tar.Header{Name: "d/x.yml", Mode: 0o644, Size: 3}),
		"device":   packed(t, tar.Header{Name: "c", Typeflag: tar.TypeChar}),
		"name":     packed(t, tar.Header{Name: "../x.yml", Mode: 0o644, Size: 3}),
	}
	cases := map[string]string{}
	for name, content := range archives {
		cases["http-"+name] = fmt.Sprintf("fetch: [{http: {url: %q}}]\n", servers.Files.Put("hostile-"+name+".tar.gz", content))
	}
	tree := fstest.MapFS{
		"a.yml": {Data: []byte(cm("unpacked")), Mode: 0o644},
		"l.yml": {Data: []byte("../../../../../../etc/passwd"), Mode: fs.ModeSymlink | 0o777},
	}
	if _, err := servers.Git.Commit(t.Context(), "hostile", tree, "links"); err != nil {
		t.Fatal(err)
	}
	cases["git-up"] = fmt.Sprintf("fetch: [{git: {url: %q, ref: origin/main}}]\n", servers.Git.RepoURL("hostile"))
	cases["git-option"] = fmt.Sprintf("fetch: [{git: {url: %q, ref: 'origin/--upload-pack=touch x'}}]\n", servers.Git.RepoURL("hostile"))
	image, err := servers.Registry.PushImage(t.Context(), "hostile/links:1", tree)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"../x.yml", "a/../../x.yml", `a\x.yml`} {
		cases["inline-"+fmt.Sprint(len(p))] = "fetch:\n" + inline(map[string]string{p: cm("unpacked")})
	}
	for name, spec := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.app("h", spec+deployAll)
			app := w.failed("h")
			s := app.Status
			if s.Template != nil || strings.Contains(s.UsefulErrorMessage, "root:") {
				t.Errorf("went on to template: %+v", s.Template)
			}
			if !strings.HasPrefix(s.Conditions[0].Message, "Fetching") || s.Conditions[0].Type != v1alpha1.ReconcileFailed {
				t.Errorf("says %+v", s.Conditions)
			}
			w.noConfigMap("unpacked")
		})
	}
	// Layers of images come without their links.
	w := newWorld(t)
	w.app("image", fmt.Sprintf("fetch: [{image: {url: %q}}]\n", image)+deployAll)
	w.succeeded("image")
	w.configMap("unpacked")
}
