package packageinstall

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	data "github.com/garboard-dev/garboard/pkg/apis/datapackaging/v1alpha1"
	packaging "github.com/garboard-dev/garboard/pkg/apis/packaging/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/resolve/values"
)

// schemaCache keeps the result of each PackageInstall's latest check, so that
// Secrets are read again only when one of them, or the Package, changed.
type schemaCache struct {
	mu    sync.Mutex // guards known
	known map[types.NamespacedName]checked
}

type checked struct {
	// inputs identify what was checked.
	inputs   string
	warnings []string
}

func (c *schemaCache) forget(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, key)
}

// warnings returns how the values do not fit the schema of pkg.
func (c *schemaCache) warnings(ctx context.Context, r *Reconciler, pkgi *packaging.PackageInstall, pkg *data.Package) []string {
	key := client.ObjectKeyFromObject(pkgi)
	form, ok := valuesForm(pkgi, pkg)
	if !ok {
		c.forget(key)
		return nil
	}
	inputs, ok := r.schemaInputs(ctx, pkgi, pkg)
	if !ok {
		return nil
	}
	c.mu.Lock()
	last, known := c.known[key]
	c.mu.Unlock()
	if known && last.inputs == inputs {
		return slices.Clone(last.warnings)
	}
	files, err := r.valuesFiles(ctx, pkgi)
	if err != nil {
		// The App will say it: it cannot be templated without them either.
		logf.FromContext(ctx).V(1).Info("Values not checked", "reason", err.Error())
		return nil
	}
	problems := values.Check(pkg.Spec.ValuesSchema.OpenAPIv3.Raw, files, form)
	for i, p := range problems {
		problems[i] = "values: " + p
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known[key] = checked{inputs, problems}
	return slices.Clone(problems)
}

// valuesForm returns how the values reach their step. It is not ok if there is
// nothing to check.
func valuesForm(pkgi *packaging.PackageInstall, pkg *data.Package) (form values.Form, ok bool) {
	schema := strings.TrimSpace(string(pkg.Spec.ValuesSchema.OpenAPIv3.Raw))
	if schema == "" || schema == "null" || schema == "{}" {
		return form, false
	}
	steps := pkg.Spec.Template.Spec.Template
	i := valuesStep(steps)
	if i < 0 {
		return form, false
	}
	_, form.Overlay = pkgi.Annotations[yttOverlaysAnnotation]
	if steps[i].Ytt == nil {
		form = values.Form{NullRemoves: true}
	}
	return form, true
}

// schemaInputs identifies what a check would look at. It is not ok while a Secret
// is missing.
func (r *Reconciler) schemaInputs(ctx context.Context, pkgi *packaging.PackageInstall, pkg *data.Package) (string, bool) {
	_, overlay := pkgi.Annotations[yttOverlaysAnnotation]
	inputs := fmt.Sprintf("%s/%d/%t", pkg.UID, pkg.Generation, overlay)
	for _, name := range valuesSecrets(pkgi) {
		meta := &metav1.PartialObjectMetadata{}
		meta.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		if err := r.Client.Get(ctx, types.NamespacedName{Namespace: pkgi.Namespace, Name: name}, meta); err != nil {
			return "", false
		}
		inputs += fmt.Sprintf(" %s@%s", name, meta.ResourceVersion)
	}
	return inputs, true
}

// valuesFiles reads the values in the order in which they are merged.
func (r *Reconciler) valuesFiles(ctx context.Context, pkgi *packaging.PackageInstall) (files []values.File, err error) {
	for _, name := range valuesSecrets(pkgi) {
		secret := &corev1.Secret{}
		if err := r.Live.Get(ctx, types.NamespacedName{Namespace: pkgi.Namespace, Name: name}, secret); err != nil {
			return nil, err
		}
		for _, key := range slices.Sorted(maps.Keys(secret.Data)) {
			files = append(files, values.File{Source: fmt.Sprintf("Secret '%s', key '%s'", name, key), Content: secret.Data[key]})
		}
	}
	return files, nil
}
