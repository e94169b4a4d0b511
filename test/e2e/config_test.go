package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/garboard-dev/garboard/test/testenv"
)

// configMap returns the data of a deployed ConfigMap.
func (w world) configMap(name string) map[string]string {
	w.Helper()
	cm := &corev1.ConfigMap{}
	if err := kube.Get(w.Context(), client.ObjectKey{Namespace: w.ns, Name: name}, cm); err != nil {
		w.Fatal(err)
	}
	return cm.Data
}

// wantConfigMap compares the data of a deployed ConfigMap.
func (w world) wantConfigMap(name string, want map[string]string) {
	w.Helper()
	if diff := cmp.Diff(want, w.configMap(name)); diff != "" {
		w.Errorf("ConfigMap %s (-want +got):\n%s", name, diff)
	}
}

// noConfigMap fails if a ConfigMap exists.
func (w world) noConfigMap(name string) {
	w.Helper()
	err := kube.Get(w.Context(), client.ObjectKey{Namespace: w.ns, Name: name}, &corev1.ConfigMap{})
	if !apierrors.IsNotFound(err) {
		w.Errorf("ConfigMap %s exists (error %v)", name, err)
	}
}

// untilConfigMap waits for the data of a ConfigMap.
func (w world) untilConfigMap(name string, want map[string]string) {
	w.Helper()
	testenv.Eventually(w, patience, func(ctx context.Context) string {
		cm := &corev1.ConfigMap{}
		if err := kube.Get(ctx, client.ObjectKey{Namespace: w.ns, Name: name}, cm); err != nil {
			return err.Error()
		}
		return cmp.Diff(want, cm.Data)
	})
}

// inline is the fetch entry for files given in the App.
func inline(files map[string]string) string {
	out := "- inline:\n    paths:\n"
	for _, name := range slices.Sorted(maps.Keys(files)) {
		out += fmt.Sprintf("      %q: %q\n", name, files[name])
	}
	return out
}

// replaceAll replaces each first of a pair by its second.
func replaceAll(s string, pairs ...string) string { return strings.NewReplacer(pairs...).Replace(s) }

// yttApp is a spec that deploys files through ytt.
func yttApp(files map[string]string) string {
	return "fetch:\n" + inline(files) + "template: [{ytt: {}}]\ndeploy: [{kapp: {}}]\n"
}

// cm is a ConfigMap as a manifest.
func cm(name string, pairs ...string) string {
	out := fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata:\n", name)
	for i := 0; i < len(pairs); i += 2 {
		out += fmt.Sprintf("  %s: %q\n", pairs[i], pairs[i+1])
	}
	return out
}
