package bench

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard-dev/garboard/test/testenv"
	"github.com/garboard-dev/garboard/test/testenv/controlplane"
)

var installKind = schema.GroupVersionResource{Group: "packaging.carvel.dev", Version: "v1alpha1", Resource: "packageinstalls"}

// installed is how many PackageInstalls there are of one Package.
const installed = 100

// installPackage makes a ConfigMap with the name of its App.
const installPackage = `apiVersion: data.packaging.carvel.dev/v1alpha1
kind: Package
metadata: {name: web.bench.example.com.%[1]s}
spec:
  refName: web.bench.example.com
  version: %[1]s
  template:
    spec:
      fetch:
      - inline:
          paths:
            schema.yml: "#@data/values-schema\n---\nname: ''\n"
            config.yml: |
              #@ load("@ytt:data", "data")
              apiVersion: v1
              kind: ConfigMap
              metadata:
                name: #@ data.values.name
              data: {version: %[1]s}
      template: [{ytt: {valuesFrom: [{downwardAPI: {items: [{name: name, fieldPath: metadata.name}]}}]}}]
      deploy: [{kapp: {}}]
`

// BenchmarkInstalls measures PackageInstalls of one Package: seconds, processor
// seconds and requests to install all of them at once, and to upgrade all at once when a version appears that
// all may have. Requests of PackageInstalls are those for them and their Apps' specs;
// all others are the Apps' own. Run it with -benchtime 1x.
func BenchmarkInstalls(b *testing.B) {
	env.WaitForAPI(b)
	r := installsBench{b, env.Namespace(b)}
	env.MustApply(b, r.ns, account)
	var all strings.Builder
	for i := range installed {
		fmt.Fprintf(&all, "---\napiVersion: packaging.carvel.dev/v1alpha1\nkind: PackageInstall\nmetadata: {name: web-%03d}\n"+
			"spec: {serviceAccountName: deployer, syncPeriod: 1h, packageRef: {refName: web.bench.example.com, versionSelection: {constraints: '>=1.0.0'}}}\n", i)
	}
	b.ResetTimer()
	r.step("install", "1.0.0", func() {
		r.offer("1.0.0")
		env.MustApply(b, r.ns, all.String())
	})
	r.step("upgrade", "2.0.0", func() { r.offer("2.0.0") })
	if err := env.Dynamic.Resource(installKind).Namespace(r.ns).DeleteCollection(b.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		b.Fatal(err)
	}
	r.until(func(left []unstructured.Unstructured) string {
		if len(left) > 0 {
			return fmt.Sprintf("%d are not deleted", len(left))
		}
		return ""
	})
}

type installsBench struct {
	*testing.B
	ns string
}

func (r installsBench) offer(version string) {
	r.Helper()
	objs, err := testenv.Objects(fmt.Appendf(nil, installPackage, version))
	if err != nil {
		r.Fatal(err)
	}
	if _, err := env.Dynamic.Resource(packagesResource).Namespace(r.ns).Create(r.Context(), objs[0], metav1.CreateOptions{}); err != nil {
		r.Fatal(err)
	}
}

// step times what begins with do until all have the version.
func (r installsBench) step(name, version string, do func()) {
	r.Helper()
	began, used := time.Now(), processorSeconds(r.B)
	do()
	r.until(func(all []unstructured.Unstructured) string {
		done := 0
		for _, p := range all {
			have, _, _ := unstructured.NestedString(p.Object, "status", "lastAttemptedVersion")
			description, _, _ := unstructured.NestedString(p.Object, "status", "friendlyDescription")
			if have == version && strings.HasPrefix(description, "Reconcile failed") {
				r.Fatalf("%s: %v", p.GetName(), p.Object["status"])
			}
			if have == version && description == "Reconcile succeeded" {
				done++
			}
		}
		if done < installed {
			return fmt.Sprintf("%d of %d have %s", done, installed, version)
		}
		return ""
	})
	r.ReportMetric(time.Since(began).Seconds(), name+"-s")
	r.ReportMetric(processorSeconds(r.B)-used, name+"-cpu-s")
	requests, err := env.Audit().Requests(controlplane.Filter{Namespace: r.ns, Since: began})
	if err != nil {
		r.Fatal(err)
	}
	ours, apps := 0, 0
	for _, q := range requests {
		switch {
		case q.User == testenv.ControllerUser && (q.Resource == "packageinstalls" || q.Resource == "apps" && q.Subresource == "" && q.Verb != "patch"):
			ours++
		case strings.HasPrefix(q.User, "system:serviceaccount:"):
			apps++
		}
	}
	r.ReportMetric(float64(ours)/installed, name+"-requests/install")
	r.ReportMetric(float64(apps)/installed, name+"-app-requests/install")
}

func (r installsBench) until(check func([]unstructured.Unstructured) string) {
	r.Helper()
	testenv.Eventually(r, 5*patience, func(ctx context.Context) string {
		list, err := env.Dynamic.Resource(installKind).Namespace(r.ns).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return err.Error()
		}
		return check(list.Items)
	})
}
