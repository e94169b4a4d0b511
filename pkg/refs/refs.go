// Package refs names the Secrets and ConfigMaps that an object refers to, so that a
// change of one of them can be taken up at once.
package refs

import (
	"cmp"
	"slices"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
)

// The kinds of a Key.
const (
	Secret    = "Secret"
	ConfigMap = "ConfigMap"
)

// Key names an object in the namespace of the one that refers to it.
type Key struct {
	// Kind is Secret or ConfigMap.
	Kind string
	Name string
}

// OfApp returns every Secret and ConfigMap that spec names, sorted and each once.
// Unlike kapp-controller it includes the keys for sops and the kubeconfig: a
// rotated key must not wait for the next sync either.
func OfApp(spec v1alpha1.AppSpec) []Key {
	var k keys
	if spec.Cluster != nil && spec.Cluster.KubeconfigSecretRef != nil {
		k.secret(spec.Cluster.KubeconfigSecretRef.Name)
	}
	for _, f := range spec.Fetch {
		k.fetch(f)
	}
	for _, t := range spec.Template {
		k.template(t)
	}
	slices.SortFunc(k, func(a, b Key) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return slices.Compact(k)
}

type keys []Key

func (k *keys) add(kind, name string) {
	if name != "" {
		*k = append(*k, Key{Kind: kind, Name: name})
	}
}

func (k *keys) secret(name string)    { k.add(Secret, name) }
func (k *keys) configMap(name string) { k.add(ConfigMap, name) }

func (k *keys) local(ref *v1alpha1.AppFetchLocalRef) {
	if ref != nil {
		k.secret(ref.Name)
	}
}

func (k *keys) fetch(f v1alpha1.AppFetch) {
	k.inline(f.Inline)
	if f.Image != nil {
		k.local(f.Image.SecretRef)
	}
	if f.HTTP != nil {
		k.local(f.HTTP.SecretRef)
	}
	if f.Git != nil {
		k.local(f.Git.SecretRef)
	}
	if f.HelmChart != nil && f.HelmChart.Repository != nil {
		k.local(f.HelmChart.Repository.SecretRef)
	}
	if f.ImgpkgBundle != nil {
		k.local(f.ImgpkgBundle.SecretRef)
	}
}

func (k *keys) inline(in *v1alpha1.AppFetchInline) {
	if in == nil {
		return
	}
	for _, from := range in.PathsFrom {
		if from.SecretRef != nil {
			k.secret(from.SecretRef.Name)
		}
		if from.ConfigMapRef != nil {
			k.configMap(from.ConfigMapRef.Name)
		}
	}
}

func (k *keys) template(t v1alpha1.AppTemplate) {
	if t.Ytt != nil {
		k.inline(t.Ytt.Inline)
		k.values(t.Ytt.ValuesFrom)
	}
	if t.HelmTemplate != nil {
		k.values(t.HelmTemplate.ValuesFrom)
	}
	if t.Jsonnet != nil {
		k.values(t.Jsonnet.ValuesFrom)
	}
	if t.Cue != nil {
		k.values(t.Cue.ValuesFrom)
	}
	if t.Sops != nil {
		if t.Sops.PGP != nil && t.Sops.PGP.PrivateKeysSecretRef != nil {
			k.secret(t.Sops.PGP.PrivateKeysSecretRef.Name)
		}
		if t.Sops.Age != nil && t.Sops.Age.PrivateKeysSecretRef != nil {
			k.secret(t.Sops.Age.PrivateKeysSecretRef.Name)
		}
	}
}

func (k *keys) values(sources []v1alpha1.AppTemplateValuesSource) {
	for _, from := range sources {
		if from.SecretRef != nil {
			k.secret(from.SecretRef.Name)
		}
		if from.ConfigMapRef != nil {
			k.configMap(from.ConfigMapRef.Name)
		}
	}
}
