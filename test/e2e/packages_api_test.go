package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	data "github.com/garboard-dev/garboard/pkg/apis/datapackaging/v1alpha1"
	stored "github.com/garboard-dev/garboard/pkg/apis/internalpackaging/v1alpha1"
	kappctrl "github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/test/testenv"
)

// catalog is a namespace and a client of the API for Packages. domain is the end of
// the names that belong to the test alone, as all share the global namespace.
type catalog struct {
	testing.TB
	client.WithWatch
	ns, domain string
}

func newCatalog(t testing.TB) catalog {
	t.Helper()
	env.WaitForAPI(t)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{data.AddToScheme, stored.AddToScheme, corev1.AddToScheme, metav1.AddMetaToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.NewWithWatch(env.Config(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	ns := env.Namespace(t)
	return catalog{t, c, ns, ns + ".example.com"}
}

// pkg returns a version of NAME.DOMAIN.
func (c catalog) pkg(namespace, name, version string) *data.Package {
	ref := name + "." + c.domain
	return &data.Package{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: ref + "." + version},
		Spec: data.PackageSpec{RefName: ref, Version: version, Template: data.AppTemplateSpec{Spec: &kappctrl.AppSpec{
			Fetch:    []kappctrl.AppFetch{{ImgpkgBundle: &kappctrl.AppFetchImgpkgBundle{Image: "registry.example.com/" + name}}},
			Template: []kappctrl.AppTemplate{{Ytt: &kappctrl.AppTemplateYtt{}}},
			Deploy:   []kappctrl.AppDeploy{{Kapp: &kappctrl.AppDeployKapp{}}},
		}}},
	}
}

func (c catalog) meta(namespace, name string) *data.PackageMetadata {
	return &data.PackageMetadata{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + "." + c.domain},
		Spec:       data.PackageMetadataSpec{DisplayName: name, ShortDescription: "Serves " + name, Categories: []string{"web", "shop"}},
	}
}

// create creates objects; global ones go after the test.
func (c catalog) create(objs ...client.Object) {
	c.Helper()
	for _, obj := range objs {
		if err := c.Create(c.Context(), obj); err != nil {
			c.Fatal(err)
		}
		if obj.GetNamespace() == testenv.GlobalNamespace {
			c.Cleanup(func() {
				if err := c.Delete(context.Background(), obj); err != nil && !apierrors.IsNotFound(err) {
					c.Error(err)
				}
			})
		}
	}
}

// versions lists what the namespace shows of the test's packages, with some mark.
func (c catalog) versions(namespace string, o ...client.ListOption) (out []string) {
	c.Helper()
	list := &data.PackageList{}
	if err := c.List(c.Context(), list, append(o, client.InNamespace(namespace))...); err != nil {
		c.Fatal(err)
	}
	for _, p := range list.Items {
		if name, ok := strings.CutSuffix(p.Spec.RefName, "."+c.domain); ok {
			out = append(out, name+" "+p.Spec.Version+p.Spec.ReleaseNotes)
		}
	}
	return out
}

func (c catalog) wantVersions(namespace string, want ...string) {
	c.Helper()
	if diff := cmp.Diff(want, c.versions(namespace)); diff != "" {
		c.Errorf("namespace %s (-want +got):\n%s", namespace, diff)
	}
}

// refused checks the whole text of an error, or its beginning if that ends with "…".
func (c catalog) refused(err error, want string) {
	c.Helper()
	begin, open := strings.CutSuffix(want, "…")
	switch {
	case err == nil:
		c.Errorf("accepted, want %q", want)
	case open && !strings.HasPrefix(err.Error(), begin), !open && err.Error() != want:
		c.Errorf("got  %q\nwant %q", err, want)
	case strings.Contains(err.Error(), "internal"):
		c.Errorf("%q is about the store", err)
	}
}

func TestPackageVerbs(t *testing.T) {
	t.Parallel()
	c := newCatalog(t)
	p := c.pkg(c.ns, "web", "1.0.0-RC.1+Build.5")
	p.Labels = map[string]string{"tier": "front"}
	c.create(p)
	if p.UID == "" || p.ResourceVersion == "" || p.Namespace != c.ns || p.Generation != 1 {
		t.Errorf("created: %+v", p.ObjectMeta)
	}
	got := &data.Package{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(p), got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p.Spec, got.Spec); diff != "" || got.UID != p.UID {
		t.Errorf("read after create (-want +got):\n%s", diff)
	}
	c.refused(c.Create(t.Context(), c.pkg(c.ns, "web", "1.0.0-RC.1+Build.5")), fmt.Sprintf("package.data.packaging.carvel.dev %q already exists", p.Name))

	// Each read right after a write, by the same way, tells of it.
	for i := range 20 {
		got.Spec.ReleaseNotes = fmt.Sprint(" notes", i)
		if err := c.Update(t.Context(), got); err != nil {
			t.Fatal(err)
		}
		c.wantVersions(c.ns, "web 1.0.0-RC.1+Build.5"+got.Spec.ReleaseNotes)
	}
	c.refused(c.Update(t.Context(), p), fmt.Sprintf("Operation cannot be fulfilled on package.data.packaging.carvel.dev %q: …", p.Name))
	p.ResourceVersion = ""
	if err := c.Update(t.Context(), p); err != nil {
		t.Errorf("an update without a version: %v", err)
	}
	dry := c.pkg(c.ns, "dry", "1.0.0")
	if err := c.Create(t.Context(), dry, client.DryRunAll); err != nil {
		t.Error(err)
	}
	if err := c.Delete(t.Context(), p, client.DryRunAll); err != nil {
		t.Error(err)
	}
	c.wantVersions(c.ns, "web 1.0.0-RC.1+Build.5")

	if err := c.Patch(t.Context(), p, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"releaseNotes":" patched"}}`))); err != nil {
		t.Fatal(err)
	}
	if err := c.Patch(t.Context(), p, client.RawPatch(types.JSONPatchType, []byte(`[{"op":"add","path":"/metadata/annotations","value":{"a":"b"}}]`))); err != nil {
		t.Fatal(err)
	}
	if p.Spec.ReleaseNotes != " patched" || p.Annotations["a"] != "b" || p.Labels["tier"] != "front" {
		t.Errorf("patched: %+v", p)
	}

	wrong := types.UID("wrong")
	c.refused(c.Delete(t.Context(), p, client.Preconditions{UID: &wrong}), fmt.Sprintf("Operation cannot be fulfilled on Package.data.packaging.carvel.dev %q: …", p.Name))
	if err := c.Delete(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("package.data.packaging.carvel.dev %q not found", p.Name)
	c.refused(c.Get(t.Context(), client.ObjectKeyFromObject(p), got), text)
	c.refused(c.Delete(t.Context(), p), text)
	c.refused(c.Patch(t.Context(), p.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"releaseNotes":"x"}}`))), "packages.data.packaging.carvel.dev…")
	c.wantVersions(c.ns)
}

func TestPackageMetadataVerbs(t *testing.T) {
	t.Parallel()
	c := newCatalog(t)
	m := c.meta(c.ns, "web")
	c.create(m)
	got := &data.PackageMetadata{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(m), got); err != nil {
		t.Fatal(err)
	}
	got.Spec.ProviderName = "shop"
	if err := c.Update(t.Context(), got); err != nil {
		t.Fatal(err)
	}
	list := &data.PackageMetadataList{}
	if err := c.List(t.Context(), list, client.InNamespace(c.ns), client.MatchingFields{"metadata.name": m.Name}); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 || list.Items[0].Spec.ProviderName != "shop" {
		t.Errorf("listed: %+v", list.Items)
	}
	c.refused(c.Create(t.Context(), c.meta(c.ns, "web")), fmt.Sprintf("packagemetadata.data.packaging.carvel.dev %q already exists", m.Name))
	c.refused(c.Update(t.Context(), m), fmt.Sprintf("Operation cannot be fulfilled on packagemetadata.data.packaging.carvel.dev %q: …", m.Name))
	if err := c.Delete(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	c.refused(c.Get(t.Context(), client.ObjectKeyFromObject(m), got), fmt.Sprintf("packagemetadata.data.packaging.carvel.dev %q not found", m.Name))
}

func TestPackageValidation(t *testing.T) {
	t.Parallel()
	c := newCatalog(t)
	change := func(f func(*data.Package)) *data.Package {
		p := c.pkg(c.ns, "web", "1.0.0")
		f(p)
		return p
	}
	long := strings.Repeat("w", 150)
	for name, x := range map[string]struct {
		obj  client.Object
		want string
	}{
		"Name":      {change(func(p *data.Package) { p.Name = "web.1" }), `Package.data.packaging.carvel.dev "web.1" is invalid: metadata.name: Invalid value: "web.1": must be <spec.refName> + '.' + <spec.version>`},
		"Several":   {change(func(p *data.Package) { p.Name, p.Spec.RefName = "web.1.0.0", "web" }), `Package.data.packaging.carvel.dev "web.1.0.0" is invalid: spec.refName: Invalid value: "web": should be a domain with at least three segments separated by dots`},
		"Both":      {change(func(p *data.Package) { p.Name, p.Spec.RefName = "x", "web" }), `Package.data.packaging.carvel.dev "x" is invalid: [spec.refName: …`},
		"Long":      {change(func(p *data.Package) { p.Spec.RefName = long + ".example.com"; p.Name = p.Spec.RefName + ".1.0.0" }), `Package.data.packaging.carvel.dev "` + long + `.example.com.1.0.0" is invalid: metadata.name: Invalid value: "` + long + `.example.com.1.0.0": has 168 bytes, more than the 158 that can be stored…`},
		"NoSpec":    {change(func(p *data.Package) { p.Spec.Template.Spec = nil }), `Package.data.packaging.carvel.dev "web.` + c.domain + `.1.0.0" is invalid: …`},
		"Metadata":  {&data.PackageMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: c.ns, Name: "web.com"}}, `PackageMetadata.data.packaging.carvel.dev "web.com" is invalid: metadata.name: Invalid value: "web.com": should be a domain with at least three segments separated by dots`},
		"Version":   {change(func(p *data.Package) { p.Spec.Version = "v1"; p.Name = p.Spec.RefName + ".v1" }), `Package.data.packaging.carvel.dev "web.` + c.domain + `.v1" is invalid: spec.version: Invalid value: "v1": must be valid semver: …`},
		"Elsewhere": {change(func(p *data.Package) { p.Namespace = "no-such-namespace" }), `namespaces "no-such-namespace" not found`},
	} {
		t.Run(name, func(t *testing.T) {
			x := x
			catalog{t, c.WithWatch, c.ns, c.domain}.refused(c.Create(t.Context(), x.obj), x.want)
		})
	}
	c.create(change(func(*data.Package) {}))
	bad := c.pkg(c.ns, "web", "1.0.0")
	err := c.Patch(t.Context(), bad, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"version":"2.0.0"}}`)))
	c.refused(err, fmt.Sprintf(`Package.data.packaging.carvel.dev %q is invalid: metadata.name: …`, bad.Name))
}

// TestGlobalPackages: every namespace shows the packages of the global one.
func TestGlobalPackages(t *testing.T) {
	t.Parallel()
	c := newCatalog(t)
	g1, g2 := c.pkg(testenv.GlobalNamespace, "web", "1.0.0"), c.pkg(testenv.GlobalNamespace, "web", "2.0.0")
	g1.Labels = map[string]string{"kind": "global"}
	c.create(g1, g2, c.meta(testenv.GlobalNamespace, "web"))
	c.wantVersions(c.ns, "web 1.0.0", "web 2.0.0")

	got := c.pkg(c.ns, "web", "1.0.0")
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(got), got); err != nil {
		t.Fatal(err)
	}
	if got.Namespace != c.ns || got.UID != g1.UID {
		t.Errorf("shown as %s, %s", got.Namespace, got.UID)
	}
	c.refused(c.Delete(t.Context(), got), fmt.Sprintf("package.data.packaging.carvel.dev %q not found", got.Name))

	// A local one with the same name takes its place until it is deleted.
	local := c.pkg(c.ns, "web", "1.0.0")
	local.Spec.ReleaseNotes = " local"
	c.create(local, c.pkg(c.ns, "web", "3.0.0"))
	c.wantVersions(c.ns, "web 1.0.0 local", "web 2.0.0", "web 3.0.0")
	c.wantVersions(testenv.GlobalNamespace, "web 1.0.0", "web 2.0.0")
	if everywhere := c.versions(""); len(everywhere) != 4 {
		t.Errorf("all namespaces: %v", everywhere)
	}
	if out, err := env.Kubectl(t.Context(), "delete", "-n", c.ns, "package", local.Name, "--timeout=60s"); err != nil {
		t.Error(out, err)
	}
	c.wantVersions(c.ns, "web 1.0.0", "web 2.0.0", "web 3.0.0")

	// A change of one that is only global is stored locally.
	if err := c.Patch(t.Context(), got, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"releaseNotes":" patched"}}`))); err != nil {
		t.Fatal(err)
	}
	if got.UID == g1.UID || got.Labels["kind"] != "global" || len(got.OwnerReferences) > 0 {
		t.Errorf("patched: %+v", got.ObjectMeta)
	}
	read := c.pkg(c.ns, "web", "2.0.0")
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(read), read); err != nil {
		t.Fatal(err)
	}
	read.Spec.ReleaseNotes = " updated"
	if err := c.Update(t.Context(), read); err != nil {
		t.Fatal(err)
	}
	c.wantVersions(c.ns, "web 1.0.0 patched", "web 2.0.0 updated", "web 3.0.0")
	c.wantVersions(testenv.GlobalNamespace, "web 1.0.0", "web 2.0.0")

	// All local ones can be deleted at once; what is global shows again.
	if err := c.DeleteAllOf(t.Context(), &data.Package{}, client.InNamespace(c.ns)); err != nil {
		t.Fatal(err)
	}
	c.wantVersions(c.ns, "web 1.0.0", "web 2.0.0")

	if _, err := env.Kubectl(t.Context(), "annotate", "namespace", c.ns, "kapp-controller.carvel.dev/exclude-global-packages=yes"); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, patience, func(context.Context) string { return cmp.Diff([]string(nil), c.versions(c.ns)) })
	m := c.meta(c.ns, "web")
	c.refused(c.Get(t.Context(), client.ObjectKeyFromObject(m), m), fmt.Sprintf("packagemetadata.data.packaging.carvel.dev %q not found", m.Name))
	if _, err := env.Kubectl(t.Context(), "annotate", "namespace", c.ns, "kapp-controller.carvel.dev/exclude-global-packages-"); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, patience, func(context.Context) string { return cmp.Diff([]string{"web 1.0.0", "web 2.0.0"}, c.versions(c.ns)) })
}

func TestPackageSelectors(t *testing.T) {
	t.Parallel()
	c := newCatalog(t)
	labelled := c.pkg(c.ns, "web", "2.0.0")
	labelled.Labels = map[string]string{"channel": "beta"}
	c.create(c.pkg(testenv.GlobalNamespace, "web", "1.0.0"), labelled, c.pkg(c.ns, "api", "1.0.0"))
	for name, x := range map[string]struct {
		option client.ListOption
		want   []string
	}{
		"RefName":   {client.MatchingFields{"spec.refName": "web." + c.domain}, []string{"web 1.0.0", "web 2.0.0"}},
		"Name":      {client.MatchingFields{"metadata.name": "api." + c.domain + ".1.0.0"}, []string{"api 1.0.0"}},
		"Namespace": {client.MatchingFields{"metadata.namespace": c.ns}, []string{"api 1.0.0", "web 1.0.0", "web 2.0.0"}},
		"Not":       {client.MatchingFieldsSelector{Selector: fields.ParseSelectorOrDie("spec.refName!=web." + c.domain)}, []string{"api 1.0.0"}},
		"Label":     {client.MatchingLabelsSelector{Selector: labels.SelectorFromSet(labels.Set{"channel": "beta"})}, []string{"web 2.0.0"}},
		// What comes in one answer needs no second one.
		"Limit": {client.Limit(1), []string{"api 1.0.0", "web 1.0.0", "web 2.0.0"}},
	} {
		if diff := cmp.Diff(x.want, c.versions(c.ns, x.option)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	list := &data.PackageList{}
	c.refused(c.List(t.Context(), list, client.MatchingFields{"spec.version": "1"}), `field label "spec.version" not supported for Package`)
	if err := c.List(t.Context(), list, client.Continue("token-of-another-server")); !apierrors.IsResourceExpired(err) {
		t.Errorf("a continue token that was not handed out: %v", err)
	}
	for version, expected := range map[string]func(error) bool{"x": apierrors.IsBadRequest, "18446744073709551615": apierrors.IsTimeout} {
		err := c.List(t.Context(), list, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: version}})
		if !expected(err) {
			t.Errorf("resource version %s: %v", version, err)
		}
	}
}

// TestPackageOwners: server-side apply takes back what it no longer says, keeps what
// others say, and tells of conflicts.
func TestPackageOwners(t *testing.T) {
	t.Parallel()
	c := newCatalog(t)
	apply := func(owner, spec string) error {
		p := c.pkg(c.ns, "web", "1.0.0")
		manifest := fmt.Sprintf(`{"apiVersion":"data.packaging.carvel.dev/v1alpha1","kind":"Package","metadata":{"name":%q},"spec":%s}`, p.Name, spec)
		return c.Patch(t.Context(), p, client.RawPatch(types.ApplyPatchType, []byte(manifest)), client.FieldOwner(owner))
	}
	base := fmt.Sprintf(`"refName":%q,"version":"1.0.0","template":{"spec":{"noopDelete":true}}`, "web."+c.domain)
	for _, x := range []struct{ owner, spec string }{
		{"alice", "{" + base + `,"releaseNotes":"from alice","licenses":["MIT"]}`},
		{"bob", `{"capacityRequirementsDescription":"from bob"}`},
		{"alice", "{" + base + `,"releaseNotes":"from alice"}`},
	} {
		if err := apply(x.owner, x.spec); err != nil {
			t.Fatalf("%s: %v", x.owner, err)
		}
	}
	got := c.pkg(c.ns, "web", "1.0.0")
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(got), got); err != nil {
		t.Fatal(err)
	}
	if got.Spec.Licenses != nil || got.Spec.ReleaseNotes != "from alice" || got.Spec.CapacityRequirementsDescription != "from bob" {
		text, _ := json.Marshal(got.ManagedFields)
		t.Errorf("spec %+v\nmanaged fields %s", got.Spec, text)
	}
	err := apply("bob", `{"releaseNotes":"from bob"}`)
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `conflict with "alice": .spec.releaseNotes`) {
		t.Errorf("conflict: %v", err)
	}
	for _, m := range got.ManagedFields {
		if m.APIVersion != "data.packaging.carvel.dev/v1alpha1" {
			t.Errorf("managed in terms of %s", m.APIVersion)
		}
	}
}

// TestNamespaceWithPackagesGoes: its packages go with it, what is global does not
// keep it, and no other namespace loses anything.
func TestNamespaceWithPackagesGoes(t *testing.T) {
	t.Parallel()
	c := newCatalog(t)
	gone := newCatalog(t)
	c.create(c.pkg(testenv.GlobalNamespace, "web", "1.0.0"), c.meta(testenv.GlobalNamespace, "web"))
	for i := range 30 {
		c.create(c.pkg(gone.ns, "local", fmt.Sprintf("1.%d.0", i)))
	}
	c.create(c.meta(gone.ns, "local"))
	if err := env.Core.CoreV1().Namespaces().Delete(t.Context(), gone.ns, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, patience, func(ctx context.Context) string {
		ns, err := env.Core.CoreV1().Namespaces().Get(ctx, gone.ns, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return ""
		}
		return fmt.Sprintf("%v %+v", err, ns.Status)
	})
	left := &stored.InternalPackageList{}
	if err := c.List(t.Context(), left, client.InNamespace(gone.ns)); err != nil || len(left.Items) > 0 {
		t.Errorf("%d packages are stored, %v", len(left.Items), err)
	}
	c.wantVersions(c.ns, "web 1.0.0")
}
