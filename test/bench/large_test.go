package bench

import (
	"context"
	"fmt"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/test/testenv"
)

// large prints 45 MiB of ConfigMaps and one thing more, which kapp refuses when it
// has read all: etcd need not hold them.
const large = "#@ for i in range(45):\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: #@ str(i)\ndata:\n  x: #@ \"0123456789abcde\\n\" * 65536\n#@ end\n---\nno: kind\n"

// BenchmarkLargeApps measures the memory of the controller and the sidecar when ten
// Apps with manifests of 45 MiB are deployed at once.
func BenchmarkLargeApps(b *testing.B) {
	if b.N > 1 {
		b.Fatal("run with -benchtime 1x: the peak is that of a process's life")
	}
	for _, u := range units() {
		if err := u.Restart(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	ns := env.Namespace(b)
	env.MustApply(b, ns, account)
	name := func(i int) string { return fmt.Sprintf("large-%d", i) }
	for i := range 10 {
		env.MustApply(b, ns, fmt.Sprintf("apiVersion: kappctrl.k14s.io/v1alpha1\nkind: App\nmetadata: {name: %s}\nspec:\n  serviceAccountName: deployer\n"+
			"  fetch: [{inline: {paths: {a.yml: %q}}}]\n  template: [{ytt: {}}]\n  deploy: [{kapp: {}}]\n", name(i), large))
	}
	for i := range 10 {
		testenv.Eventually(b, 2*patience, func(ctx context.Context) string {
			app := &v1alpha1.App{}
			if err := kube.Get(ctx, client.ObjectKey{Namespace: ns, Name: name(i)}, app); err != nil {
				return err.Error()
			}
			if app.Status.Deploy == nil || app.Status.Deploy.Error == "" {
				return fmt.Sprintf("%s is not deployed yet: %+v", app.Name, app.Status.Conditions)
			}
			return ""
		})
	}
	m := memory(b)
	b.ReportMetric(float64(m.Controller>>20), "controller-MiB")
	b.ReportMetric(float64(m.Sidecar>>20), "sidecar-MiB")
	// Whatever is measured next must not count this.
	for i := range 10 {
		app := &v1alpha1.App{}
		app.Namespace, app.Name = ns, name(i)
		if err := kube.Delete(b.Context(), app); err != nil {
			b.Fatal(err)
		}
	}
	for _, u := range units() {
		if err := u.Restart(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
