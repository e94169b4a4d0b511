package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	data "github.com/garboard-dev/garboard/pkg/apis/datapackaging/v1alpha1"
	"github.com/garboard-dev/garboard/test/testenv"
)

func (c catalog) kubectl(args ...string) string {
	c.Helper()
	out, err := env.Kubectl(c.Context(), append([]string{"-n", c.ns}, args...)...)
	if err != nil {
		c.Fatal(err)
	}
	return out
}

// file writes a manifest for kubectl.
func (c catalog) file(obj runtime.Object, kind string) string {
	c.Helper()
	obj.GetObjectKind().SetGroupVersionKind(data.SchemeGroupVersion.WithKind(kind))
	text, err := yaml.Marshal(obj)
	if err != nil {
		c.Fatal(err)
	}
	name := filepath.Join(c.TempDir(), "object.yaml")
	if err := os.WriteFile(name, text, 0o600); err != nil {
		c.Fatal(err)
	}
	return name
}

// table returns a table's lines about the test's objects, with one blank between
// columns and without the age.
func (c catalog) table(out string) (lines []string) {
	for i, line := range strings.Split(strings.TrimSpace(out), "\n") {
		if cells := strings.Fields(strings.ReplaceAll(line, "."+c.domain, "")); i == 0 || strings.Contains(line, c.domain) {
			lines = append(lines, strings.Join(cells[:len(cells)-1], " "))
		}
	}
	return lines
}

// TestPackagesWithKubectl does what people do.
func TestPackagesWithKubectl(t *testing.T) {
	t.Parallel()
	c := newCatalog(t)
	c.create(c.pkg(testenv.GlobalNamespace, "web", "1.0.0"))
	p := c.pkg(c.ns, "web", "2.0.0")
	m := c.meta(c.ns, "web")
	m.Spec.ShortDescription = strings.Repeat("é", 30)
	c.kubectl("apply", "-f", c.file(p, "Package"))
	c.kubectl("apply", "-f", c.file(m, "PackageMetadata"))
	p.Spec.ReleaseNotes = "Changed"
	if out := c.kubectl("apply", "-f", c.file(p, "Package")); !strings.Contains(out, "configured") {
		t.Error(out)
	}
	if out := c.kubectl("apply", "-f", c.file(p, "Package")); !strings.Contains(out, "unchanged") {
		t.Error(out)
	}
	for _, x := range []struct {
		args string
		want []string
	}{
		{"get packages", []string{"NAME PACKAGEMETADATA NAME VERSION", "web.1.0.0 web 1.0.0", "web.2.0.0 web 2.0.0"}},
		{"get pkg -o wide", []string{"NAME PACKAGEMETADATA NAME VERSION", "web.1.0.0 web 1.0.0", "web.2.0.0 web 2.0.0"}},
		{"get package web." + c.domain + ".1.0.0", []string{"NAME PACKAGEMETADATA NAME VERSION", "web.1.0.0 web 1.0.0"}},
		{"get pkg --field-selector spec.refName=none." + c.domain + " --ignore-not-found", []string{""}},
		{"get packages --field-selector metadata.name=web." + c.domain + ".2.0.0", []string{"NAME PACKAGEMETADATA NAME VERSION", "web.2.0.0 web 2.0.0"}},
		{"get pkg -A", []string{"NAMESPACE NAME PACKAGEMETADATA NAME VERSION", testenv.GlobalNamespace + " web.1.0.0 web 1.0.0", c.ns + " web.2.0.0 web 2.0.0"}},
		{"get pkgm", []string{"NAME DISPLAY NAME CATEGORIES SHORT DESCRIPTION", "web web web,shop " + strings.Repeat("é", 23) + "..."}},
	} {
		if x.want[0] == "" {
			if out := c.kubectl(strings.Fields(x.args)...); out != "" {
				t.Errorf("%s: %q", x.args, out)
			}
			continue
		}
		if diff := cmp.Diff(x.want, c.table(c.kubectl(strings.Fields(x.args)...))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", x.args, diff)
		}
	}
	name := p.Name
	for _, x := range []struct{ args, want string }{
		{"describe package " + name, "Release Notes:  Changed"},
		{"explain package.spec.template.spec.fetch.imgpkgBundle.image", "<string>"},
		{"explain package.spec.valuesSchema", "OpenAPI v3 schema of the values"},
		{"explain packagemetadata.spec.maintainers", "Who maintains it"},
		{"api-resources --api-group=data.packaging.carvel.dev -o wide", "create,delete,deletecollection,get,list,patch,update,watch"},
		{"patch package " + name + ` --type=merge -p {"spec":{"releaseNotes":"Patched"}}`, "patched"},
		{"label package " + name + " tier=front", "labeled"},
		{"get package " + name + " -o jsonpath={.apiVersion}/{.kind}/{.spec.releaseNotes}/{.metadata.labels.tier}", "data.packaging.carvel.dev/v1alpha1/Package/Patched/front"},
		{"get packages -o name", "package.data.packaging.carvel.dev/" + name},
		{"wait package " + name + " --for=jsonpath={.spec.releaseNotes}=Patched --timeout=60s", "condition met"},
		{"apply --server-side --force-conflicts -f " + c.file(p, "Package"), "serverside-applied"},
		{"get -f " + c.file(p, "Package") + " --watch --request-timeout=1s --output-watch-events -o name", name},
		{"auth can-i list packages --as=system:serviceaccount:" + c.ns + ":default", "no"},
		{"delete package " + name + " --timeout=60s", "deleted"},
		{"delete pkgm --all --timeout=60s", "deleted"},
	} {
		out, err := env.Kubectl(t.Context(), append([]string{"-n", c.ns}, strings.Fields(x.args)...)...)
		if err != nil && x.want != "no" && !strings.Contains(x.args, "--watch") {
			t.Error(err)
		}
		if !strings.Contains(out, x.want) {
			t.Errorf("%s: %q does not say %q", x.args, out, x.want)
		}
	}
	_, err := env.Kubectl(t.Context(), "-n", c.ns, "get", "package", "none")
	if err == nil || !strings.Contains(err.Error(), `Error from server (NotFound): package.data.packaging.carvel.dev "none" not found`) {
		t.Error(err)
	}
	// Who may not is told so; no right of the controller helps.
	_, err = env.Kubectl(t.Context(), "-n", c.ns, "get", "packages", "--as=system:serviceaccount:"+c.ns+":default")
	if err == nil || !strings.Contains(err.Error(), "Forbidden") {
		t.Error(err)
	}
	c.wantVersions(c.ns, "web 1.0.0")
}

// TestPackagesInProtobuf: all that is asked and answered is protobuf.
func TestPackagesInProtobuf(t *testing.T) {
	t.Parallel()
	c := newCatalog(t)
	scheme := runtime.NewScheme()
	if err := data.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	cfg := rest.CopyConfig(env.Config())
	cfg.GroupVersion, cfg.APIPath = &data.SchemeGroupVersion, "/apis"
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf
	proto, err := rest.RESTClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p, got := c.pkg(c.ns, "web", "1.0.0"), &data.Package{}
	p.Spec.ReleasedAt = metav1.Now().Rfc3339Copy()
	p.Spec.ValuesSchema.OpenAPIv3.Raw = []byte(`{"properties":{"a":{"type":"string"}}}`)
	if err := proto.Post().Namespace(c.ns).Resource("packages").Body(p).Do(t.Context()).Into(got); err != nil {
		t.Fatal(err)
	}
	if want, have := jsonOf(t, p.Spec), jsonOf(t, got.Spec); want != have {
		t.Errorf("got %s, want %s", have, want)
	}
	var contentType string
	list := &data.PackageList{}
	if err := proto.Get().Namespace(c.ns).Resource("packages").Do(t.Context()).ContentType(&contentType).Into(list); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(list.Items, func(x data.Package) bool { return x.Name == p.Name }) || contentType != runtime.ContentTypeProtobuf {
		t.Errorf("listed %d packages as %s", len(list.Items), contentType)
	}
	w, err := proto.Get().Namespace(c.ns).Resource("packages").Param("watch", "1").Param("fieldSelector", "metadata.name="+p.Name).Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if e := <-w.ResultChan(); c.line(e) != "ADDED "+c.ns+" web 1.0.0" {
		t.Errorf("watched: %v", e)
	}
	meta, err := metadata.NewForConfig(env.Config())
	if err != nil {
		t.Fatal(err)
	}
	only, err := meta.Resource(data.SchemeGroupVersion.WithResource("packages")).Namespace(c.ns).Get(t.Context(), p.Name, metav1.GetOptions{})
	if err != nil || only.UID != got.UID {
		t.Errorf("metadata: %v, %v", only, err)
	}
	if err := proto.Delete().Namespace(c.ns).Resource("packages").Name(p.Name).Body(&metav1.DeleteOptions{}).Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
