package packageinstall

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	data "github.com/garboard-dev/garboard/pkg/apis/datapackaging/v1alpha1"
	kappctrl "github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	packaging "github.com/garboard-dev/garboard/pkg/apis/packaging/v1alpha1"
)

// Annotations that are read, with any value where none is named. All but
// manuallyControlled, which is on the App, are on the PackageInstall.
const (
	downgradableAnnotation     = "packaging.carvel.dev/downgradable"
	ignoreKubernetesAnnotation = "packaging.carvel.dev/ignore-kubernetes-version-selection"
	ignoreControllerAnnotation = "packaging.carvel.dev/ignore-kapp-controller-version-selection"

	manuallyControlledAnnotation = "ext.packaging.carvel.dev/manually-controlled"
	helmNameAnnotation           = "ext.packaging.carvel.dev/helm-template-name"
	helmNamespaceAnnotation      = "ext.packaging.carvel.dev/helm-template-namespace"
	helmValuesAnnotation         = "ext.packaging.carvel.dev/helm-template-values-from-secret-name"
	yttPathsAnnotation           = "ext.packaging.carvel.dev/ytt-paths-from-secret-name"
	yttOverlaysAnnotation        = "ext.packaging.carvel.dev/ytt-data-values-overlays"
	fetchSecretAnnotation        = "ext.packaging.carvel.dev/fetch-%d-secret-name"
)

// Annotations that are written on the App.
const (
	refNameAnnotation = "packaging.carvel.dev/package-ref-name"
	versionAnnotation = "packaging.carvel.dev/package-version"
)

// makeApp returns what the App of pkgi has to be to install pkg, which has a
// template, and the names of the placeholder Secrets that it refers to. It starts
// from the App that there is, nil for none. syncPeriod is for a pkgi without one.
func makeApp(current *kappctrl.App, pkgi *packaging.PackageInstall, pkg *data.Package, syncPeriod time.Duration) (app *kappctrl.App, placeholders []string) {
	app = &kappctrl.App{}
	if current != nil {
		app = current.DeepCopy()
	}
	app.Namespace, app.Name = pkgi.Namespace, pkgi.Name
	if app.Annotations == nil {
		app.Annotations = map[string]string{}
	}
	app.Annotations[refNameAnnotation], app.Annotations[versionAnnotation] = pkg.Spec.RefName, pkg.Spec.Version
	own(app, pkgi)

	app.Spec = *pkg.Spec.Template.Spec.DeepCopy()
	app.Spec.SyncPeriod = nil
	setFlags(app, pkgi, syncPeriod)
	placeholders = setFetchSecrets(app.Spec.Fetch, pkgi)
	setTemplate(app.Spec.Template, pkgi)
	return app, placeholders
}

// own makes pkgi the controller of the App. Its reference is the first: clients
// look no further.
func own(app *kappctrl.App, pkgi *packaging.PackageInstall) {
	yes := true
	ref := metav1.OwnerReference{
		APIVersion: packaging.SchemeGroupVersion.String(), Kind: kind, Name: pkgi.Name, UID: pkgi.UID,
		Controller: &yes, BlockOwnerDeletion: &yes,
	}
	others := slices.DeleteFunc(slices.Clone(app.OwnerReferences), func(r metav1.OwnerReference) bool { return r.UID == pkgi.UID })
	app.OwnerReferences = append([]metav1.OwnerReference{ref}, others...)
}

// setFlags copies what an App does not get from its Package.
func setFlags(app *kappctrl.App, pkgi *packaging.PackageInstall, syncPeriod time.Duration) {
	setDeleteFlags(app, pkgi)
	app.Spec.SyncPeriod = &kappctrl.Duration{Duration: syncPeriod}
	if own := pkgi.Spec.SyncPeriod; own != nil {
		*app.Spec.SyncPeriod = *own
	}
}

// setDeleteFlags copies what decides on how an App is deleted.
func setDeleteFlags(app *kappctrl.App, pkgi *packaging.PackageInstall) {
	app.Spec.ServiceAccountName = pkgi.Spec.ServiceAccountName
	app.Spec.Cluster = pkgi.Spec.Cluster.DeepCopy()
	app.Spec.DefaultNamespace = pkgi.Spec.DefaultNamespace
	app.Spec.NoopDelete, app.Spec.Paused, app.Spec.Canceled = pkgi.Spec.NoopDelete, pkgi.Spec.Paused, pkgi.Spec.Canceled
}

// setFetchSecrets sets the credentials of sources: those that an annotation names,
// else for registries without any a placeholder, which secretgen-controller fills.
func setFetchSecrets(sources []kappctrl.AppFetch, pkgi *packaging.PackageInstall) (placeholders []string) {
	for i := range sources {
		f := &sources[i]
		if name, ok := pkgi.Annotations[fmt.Sprintf(fetchSecretAnnotation, i)]; ok {
			setFetchSecret(f, &kappctrl.AppFetchLocalRef{Name: name})
			continue
		}
		name := fmt.Sprintf("%s-fetch-%d", pkgi.Name, i)
		used := false
		for _, ref := range registrySecrets(f) {
			if *ref == nil {
				*ref, used = &kappctrl.AppFetchLocalRef{Name: name}, true
			}
		}
		if used {
			placeholders = append(placeholders, name)
		}
	}
	return placeholders
}

func registrySecrets(f *kappctrl.AppFetch) (refs []**kappctrl.AppFetchLocalRef) {
	if f.Image != nil {
		refs = append(refs, &f.Image.SecretRef)
	}
	if f.ImgpkgBundle != nil {
		refs = append(refs, &f.ImgpkgBundle.SecretRef)
	}
	return refs
}

func setFetchSecret(f *kappctrl.AppFetch, ref *kappctrl.AppFetchLocalRef) {
	refs := registrySecrets(f)
	if f.HTTP != nil {
		refs = append(refs, &f.HTTP.SecretRef)
	}
	if f.Git != nil {
		refs = append(refs, &f.Git.SecretRef)
	}
	if f.HelmChart != nil && f.HelmChart.Repository != nil {
		refs = append(refs, &f.HelmChart.Repository.SecretRef)
	}
	for _, r := range refs {
		*r = ref.DeepCopy()
	}
}

// setTemplate gives the first ytt and the first helm step what annotations name,
// and whichever of the two comes first also the values, which win.
func setTemplate(steps []kappctrl.AppTemplate, pkgi *packaging.PackageInstall) {
	ytt, helm := firstYtt(steps), firstHelm(steps)
	target := valuesStep(steps)
	if helm >= 0 {
		h := steps[helm].HelmTemplate
		if name, ok := pkgi.Annotations[helmNameAnnotation]; ok {
			h.Name = name
		}
		if namespace, ok := pkgi.Annotations[helmNamespaceAnnotation]; ok {
			h.Namespace = namespace
		}
		h.ValuesFrom = append(h.ValuesFrom, valuesFrom(suffixed(pkgi.Annotations, helmValuesAnnotation))...)
		if target == helm {
			h.ValuesFrom = append(h.ValuesFrom, valuesFrom(valuesSecrets(pkgi))...)
		}
	}
	if ytt >= 0 {
		y := steps[ytt].Ytt
		addPaths(y, suffixed(pkgi.Annotations, yttPathsAnnotation))
		_, overlays := pkgi.Annotations[yttOverlaysAnnotation]
		switch {
		case target == ytt && overlays:
			addPaths(y, valuesSecrets(pkgi))
		case target == ytt:
			y.ValuesFrom = append(y.ValuesFrom, valuesFrom(valuesSecrets(pkgi))...)
		}
	}
}

func firstYtt(steps []kappctrl.AppTemplate) int {
	return slices.IndexFunc(steps, func(t kappctrl.AppTemplate) bool { return t.Ytt != nil })
}

func firstHelm(steps []kappctrl.AppTemplate) int {
	return slices.IndexFunc(steps, func(t kappctrl.AppTemplate) bool { return t.HelmTemplate != nil })
}

// valuesStep returns the index of the step that gets the values, or -1.
func valuesStep(steps []kappctrl.AppTemplate) int {
	return slices.IndexFunc(steps, func(t kappctrl.AppTemplate) bool { return t.Ytt != nil || t.HelmTemplate != nil })
}

func addPaths(y *kappctrl.AppTemplateYtt, secrets []string) {
	if len(secrets) > 0 && y.Inline == nil {
		y.Inline = &kappctrl.AppFetchInline{}
	}
	for _, name := range secrets {
		y.Inline.PathsFrom = append(y.Inline.PathsFrom, kappctrl.AppFetchInlineSource{SecretRef: &kappctrl.AppFetchInlineSourceRef{Name: name}})
	}
}

func valuesFrom(secrets []string) (out []kappctrl.AppTemplateValuesSource) {
	for _, name := range secrets {
		out = append(out, kappctrl.AppTemplateValuesSource{SecretRef: &kappctrl.AppTemplateValuesSourceRef{Name: name}})
	}
	return out
}

// valuesSecrets returns the names of a valid PackageInstall's values Secrets.
func valuesSecrets(pkgi *packaging.PackageInstall) (names []string) {
	for _, v := range pkgi.Spec.Values {
		if v.SecretRef != nil {
			names = append(names, v.SecretRef.Name)
		}
	}
	return names
}

// suffixed returns the values of key and of key.SUFFIX, ordered by suffix; none
// comes first.
func suffixed(annotations map[string]string, key string) (values []string) {
	keys := slices.DeleteFunc(slices.Sorted(maps.Keys(annotations)), func(k string) bool {
		return k != key && !strings.HasPrefix(k, key+".")
	})
	for _, k := range keys {
		values = append(values, annotations[k])
	}
	return values
}
