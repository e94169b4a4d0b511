package packagerepository

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	packaging "github.com/garboard-dev/garboard/pkg/apis/packaging/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/pipeline"
)

// defaultSyncPeriod is the time between two reconciles of a PackageRepository that
// names none.
const defaultSyncPeriod = 10 * time.Minute

// JobForRepository returns what a pipeline runs for a PackageRepository: the fetch
// is an App's, and so are the bounds of all stages. The pipeline's other stages have
// to be those of package offer.
func JobForRepository(repo *packaging.PackageRepository) pipeline.Job {
	return pipeline.Job{
		UID: string(repo.UID), Name: repo.Name, Namespace: repo.Namespace, Generation: repo.Generation,
		Labels: repo.Labels, Annotations: repo.Annotations, Suffix: ".pkgr",
		Spec: v1alpha1.AppSpec{
			SyncPeriod: repo.Spec.SyncPeriod,
			Fetch:      []v1alpha1.AppFetch{source(repo)},
			Deploy:     []v1alpha1.AppDeploy{{Kapp: &v1alpha1.AppDeployKapp{}}},
		},
	}
}

// source is the repository's one source. Where no credentials are named for a
// registry, the placeholder's are used.
func source(repo *packaging.PackageRepository) v1alpha1.AppFetch {
	in := repo.Spec.Fetch
	if in == nil {
		return v1alpha1.AppFetch{}
	}
	out := *(&v1alpha1.AppFetch{Inline: in.Inline, Image: in.Image, HTTP: in.HTTP, Git: in.Git, ImgpkgBundle: in.ImgpkgBundle}).DeepCopy()
	if ref := registrySecret(&out); ref != nil && *ref == nil {
		*ref = &v1alpha1.AppFetchLocalRef{Name: placeholderName(repo)}
	}
	return out
}

// registrySecret returns where the source names its credentials for a registry, nil
// if it is in none.
func registrySecret(f *v1alpha1.AppFetch) **v1alpha1.AppFetchLocalRef {
	switch {
	case f.Inline != nil:
		return nil
	case f.Image != nil:
		return &f.Image.SecretRef
	case f.HTTP != nil, f.Git != nil:
		return nil
	case f.ImgpkgBundle != nil:
		return &f.ImgpkgBundle.SecretRef
	}
	return nil
}

// bundle says whether the repository is fetched as an imgpkg bundle.
func bundle(f v1alpha1.AppFetch) bool {
	return f.Inline == nil && f.Image == nil && f.HTTP == nil && f.Git == nil && f.ImgpkgBundle != nil
}

// placeholderName is the name of the Secret for the credentials of a registry that
// secretgen-controller fills in.
func placeholderName(repo metav1.Object) string { return repo.GetName() + "-fetch-0" }

// usesPlaceholder says whether the job's source takes its credentials from there.
func usesPlaceholder(repo *packaging.PackageRepository) bool {
	f := repo.Spec.Fetch
	if f == nil {
		return false
	}
	ref := registrySecret(&v1alpha1.AppFetch{Inline: f.Inline, Image: f.Image, HTTP: f.HTTP, Git: f.Git, ImgpkgBundle: f.ImgpkgBundle})
	return ref != nil && *ref == nil
}
