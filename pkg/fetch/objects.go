package fetch

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/refs"
	"github.com/garboard-dev/garboard/pkg/refs/inline"
	"github.com/garboard-dev/garboard/pkg/tool/redact"
)

// Objects reads Secrets and ConfigMaps. A missing object is a NotFound error of
// the API, the text of which users see.
type Objects interface {
	Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error)
	ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error)
}

// collector reads the objects of one fetch, each once, and keeps a document of
// each for vendir: vendir refuses a ConfigMap that it sees twice.
type collector struct {
	objects   Objects
	namespace string
	secrets   map[string]*corev1.Secret
	data      map[refs.Key]map[string][]byte
	documents []document
	hide      *redact.Redactor
}

func newCollector(objects Objects, namespace string, hide *redact.Redactor) *collector {
	return &collector{
		objects: objects, namespace: namespace, hide: hide,
		secrets: map[string]*corev1.Secret{}, data: map[refs.Key]map[string][]byte{},
	}
}

// secret returns the Secret and adds its document when it is read first.
func (c *collector) secret(ctx context.Context, name string) (*corev1.Secret, error) {
	if s, found := c.secrets[name]; found {
		return s, nil
	}
	s, err := c.objects.Secret(ctx, c.namespace, name)
	if err != nil {
		return nil, err
	}
	c.secrets[name] = s
	c.hide.AddSecret(s.Data)
	c.addSecret(name, s.Type, s.Data)
	return s, nil
}

func (c *collector) addSecret(name string, kind corev1.SecretType, data map[string][]byte) {
	d := document{APIVersion: "v1", Kind: refs.Secret, Metadata: documentMeta{Name: name}, Type: string(kind), Data: map[string]any{}}
	for k, v := range data {
		d.Data[k] = v
	}
	c.documents = append(c.documents, d)
}

// lookup serves the inline files.
func (c *collector) lookup(ctx context.Context) inline.Lookup {
	return func(key refs.Key) (map[string][]byte, error) {
		if key.Kind == refs.Secret {
			s, err := c.secret(ctx, key.Name)
			if err != nil {
				return nil, err
			}
			return s.Data, nil
		}
		if data, found := c.data[key]; found {
			return data, nil
		}
		cm, err := c.objects.ConfigMap(ctx, c.namespace, key.Name)
		if err != nil {
			return nil, err
		}
		d := document{APIVersion: "v1", Kind: refs.ConfigMap, Metadata: documentMeta{Name: key.Name}, Data: map[string]any{}}
		data := map[string][]byte{}
		for k, v := range cm.Data {
			d.Data[k], data[k] = v, []byte(v)
		}
		c.documents = append(c.documents, d)
		c.data[key] = data
		return data, nil
	}
}

// source reads what src names and returns the name under which vendir finds its
// Secret, "" if it has none.
func (c *collector) source(ctx context.Context, src v1alpha1.AppFetch) (string, error) {
	if src.Inline != nil {
		// vendir writes the files; here they are only checked, because vendir lets
		// one of two files with the same path vanish.
		_, err := inline.Files(*src.Inline, c.lookup(ctx))
		return "", err
	}
	ref, git := secretRef(src)
	if ref == nil {
		return "", nil
	}
	s, err := c.secret(ctx, ref.Name)
	if err != nil || !git {
		return ref.Name, err
	}
	data, changed := gitKeys(s.Data)
	if !changed {
		return ref.Name, nil
	}
	// No Secret has a name with a space, so this one is nobody else's.
	name := ref.Name + " (git)"
	if _, found := c.secrets[name]; !found {
		c.secrets[name] = s
		c.addSecret(name, s.Type, data)
	}
	return name, nil
}

// secretRef returns the credentials of src and whether they are git's.
func secretRef(src v1alpha1.AppFetch) (ref *v1alpha1.AppFetchLocalRef, git bool) {
	switch {
	case src.Image != nil:
		return src.Image.SecretRef, false
	case src.HTTP != nil:
		return src.HTTP.SecretRef, false
	case src.Git != nil:
		return src.Git.SecretRef, true
	case src.HelmChart != nil && src.HelmChart.Repository != nil:
		return src.HelmChart.Repository.SecretRef, false
	case src.ImgpkgBundle != nil:
		return src.ImgpkgBundle.SecretRef, false
	}
	return nil, false
}

// gitKeys returns data with the names that Flux gives to SSH keys replaced by
// vendir's, if vendir's are not there.
func gitKeys(data map[string][]byte) (map[string][]byte, bool) {
	out := maps.Clone(data)
	changed := false
	for theirs, vendirs := range map[string]string{"identity": "ssh-privatekey", "known_hosts": "ssh-knownhosts"} {
		value, found := data[theirs]
		if _, taken := data[vendirs]; found && !taken {
			delete(out, theirs)
			out[vendirs] = value
			changed = true
		}
	}
	if changed {
		delete(out, "identity.pub")
	}
	return out, changed
}
