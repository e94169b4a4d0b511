package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	data "github.com/garboard-dev/garboard/pkg/apis/datapackaging/v1alpha1"
	"github.com/garboard-dev/garboard/test/testenv"
)

// watching returns a function that returns the next n events about the test's
// packages.
func (c catalog) watching(o metav1.ListOptions, more ...client.ListOption) func(n int) []string {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), patience)
	c.Cleanup(cancel)
	w, err := c.Watch(ctx, &data.PackageList{}, append(more, client.InNamespace(c.ns), &client.ListOptions{Raw: &o, Namespace: c.ns})...)
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(w.Stop)
	return func(n int) (out []string) {
		c.Helper()
		for len(out) < n {
			e, ok := <-w.ResultChan()
			if !ok {
				return append(out, "END")
			}
			if line := c.line(e); line != "" {
				out = append(out, line)
			}
		}
		return out
	}
}

// line describes an event; "" is one about another test.
func (c catalog) line(e watch.Event) string {
	switch obj := e.Object.(type) {
	case *data.Package:
		if e.Type == watch.Bookmark {
			return fmt.Sprint("BOOKMARK ", obj.Annotations)
		}
		name, ours := strings.CutSuffix(obj.Spec.RefName, "."+c.domain)
		if !ours {
			return ""
		}
		return fmt.Sprintf("%s %s %s %s%s", e.Type, obj.Namespace, name, obj.Spec.Version, obj.Spec.ReleaseNotes)
	case *metav1.Status:
		return fmt.Sprintf("%s %d", e.Type, obj.Code)
	}
	return fmt.Sprintf("%T", e.Object)
}

func (c catalog) patch(p *data.Package, patch string) {
	c.Helper()
	if err := c.Patch(c.Context(), p, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		c.Fatal(err)
	}
}

func (c catalog) expect(next func(int) []string, want ...string) {
	c.Helper()
	if diff := cmp.Diff(want, next(len(want))); diff != "" {
		c.Errorf("(-want +got):\n%s", diff)
	}
}

// version returns the resource version of a list, from which a watch can begin.
func (c catalog) version() string {
	c.Helper()
	list := &data.PackageList{}
	if err := c.List(c.Context(), list, client.InNamespace(c.ns)); err != nil {
		c.Fatal(err)
	}
	return list.ResourceVersion
}

// TestPackageWatch: watches tell what lists show, global packages too.
func TestPackageWatch(t *testing.T) {
	t.Parallel()
	c := newCatalog(t)
	begin := c.version()
	all := c.watching(metav1.ListOptions{ResourceVersion: begin})
	chosen := c.watching(metav1.ListOptions{ResourceVersion: begin, LabelSelector: "channel=beta"})
	named := c.watching(metav1.ListOptions{ResourceVersion: begin, FieldSelector: "metadata.name=web." + c.domain + ".1.0.0"})
	other := c.watching(metav1.ListOptions{ResourceVersion: begin, FieldSelector: "spec.refName=api." + c.domain})

	global, p := c.pkg(testenv.GlobalNamespace, "web", "1.0.0"), c.pkg(c.ns, "web", "1.0.0")
	p.Spec.ReleaseNotes = " local"
	c.create(global, c.pkg(c.ns, "api", "1.0.0"), p)
	c.patch(p, `{"metadata":{"labels":{"channel":"beta"}}}`)
	c.patch(p, `{"metadata":{"labels":{"channel":null}}}`)
	if err := c.Delete(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), global); err != nil {
		t.Fatal(err)
	}

	web := []string{
		"ADDED " + c.ns + " web 1.0.0",
		"DELETED " + c.ns + " web 1.0.0", "ADDED " + c.ns + " web 1.0.0 local",
		"MODIFIED " + c.ns + " web 1.0.0 local", "MODIFIED " + c.ns + " web 1.0.0 local",
		"DELETED " + c.ns + " web 1.0.0 local", "ADDED " + c.ns + " web 1.0.0",
		"DELETED " + c.ns + " web 1.0.0",
	}
	api := "ADDED " + c.ns + " api 1.0.0"
	c.expect(named, web...)
	c.expect(all, append([]string{web[0], api}, web[1:]...)...)
	c.expect(chosen, "ADDED "+c.ns+" web 1.0.0 local", "DELETED "+c.ns+" web 1.0.0 local")
	c.expect(other, api)

	// A watch that was cut off goes on where it was.
	c.expect(c.watching(metav1.ListOptions{ResourceVersion: begin}), append([]string{web[0], api}, web[1:]...)...)
	c.expect(c.watching(metav1.ListOptions{ResourceVersion: "1"}), "ERROR 410")
	_, err := c.Watch(t.Context(), &data.PackageList{}, &client.ListOptions{Namespace: c.ns, Raw: &metav1.ListOptions{ResourceVersion: "x"}})
	c.refused(err, `resource version "x" is not a number`)
}

func TestPackageWatchBegins(t *testing.T) {
	t.Parallel()
	c := newCatalog(t)
	c.create(c.pkg(testenv.GlobalNamespace, "web", "1.0.0"), c.pkg(c.ns, "web", "2.0.0"))
	one, yes := int64(1), true
	both := []string{"ADDED " + c.ns + " web 1.0.0", "ADDED " + c.ns + " web 2.0.0"}
	c.expect(c.watching(metav1.ListOptions{TimeoutSeconds: &one}), append(both, "END")...)
	c.expect(c.watching(metav1.ListOptions{
		SendInitialEvents: &yes, AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	}), append(both, "BOOKMARK map[k8s.io/initial-events-end:true]")...)
	// A watch that is about to end says how far it is.
	three := int64(3)
	c.expect(c.watching(metav1.ListOptions{ResourceVersion: c.version(), AllowWatchBookmarks: true, TimeoutSeconds: &three}), "BOOKMARK map[]", "END")

	// A namespace that ceases to show what is global: the client lists again.
	next := c.watching(metav1.ListOptions{ResourceVersion: c.version()})
	if _, err := env.Kubectl(t.Context(), "annotate", "namespace", c.ns, "kapp-controller.carvel.dev/exclude-global-packages="); err != nil {
		t.Fatal(err)
	}
	c.expect(next, "ERROR 410")
}

// TestPackageInformer: an informer, as controllers use it, knows what lists show, also
// after the instance that it watches was killed.
func TestPackageInformer(t *testing.T) {
	c := newCatalog(t)
	c.create(c.pkg(testenv.GlobalNamespace, "web", "1.0.0"), c.pkg(c.ns, "web", "2.0.0"))
	store, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ObjectType: &data.Package{},
		ListerWatcher: &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				list := &data.PackageList{}
				return list, c.List(ctx, list, &client.ListOptions{Namespace: c.ns, Raw: &o})
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				return c.Watch(ctx, &data.PackageList{}, &client.ListOptions{Namespace: c.ns, Raw: &o})
			},
		},
		Handler: cache.ResourceEventHandlerFuncs{},
	})
	go informer.RunWithContext(t.Context())
	knows := func(want ...string) {
		t.Helper()
		testenv.Eventually(t, patience, func(context.Context) string {
			known := map[string]bool{}
			for _, obj := range store.List() {
				if name, ours := strings.CutSuffix(obj.(*data.Package).Spec.RefName, "."+c.domain); ours {
					known[name+" "+obj.(*data.Package).Spec.Version] = true
				}
			}
			expected := map[string]bool{}
			for _, w := range want {
				expected[w] = true
			}
			return cmp.Diff(expected, known)
		})
	}
	knows("web 1.0.0", "web 2.0.0")
	garboard.Controller.Kill()
	if err := garboard.Controller.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, patience, func(ctx context.Context) string {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		if err := c.Create(ctx, c.pkg(c.ns, "web", "3.0.0")); err != nil {
			return err.Error()
		}
		return ""
	})
	knows("web 1.0.0", "web 2.0.0", "web 3.0.0")
}
