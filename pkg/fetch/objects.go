package fetch

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/refs"
	"github.com/garboard-dev/garboard/pkg/refs/inline"
	"github.com/garboard-dev/garboard/pkg/tool"
	"github.com/garboard-dev/garboard/pkg/tool/redact"
	"github.com/garboard-dev/garboard/pkg/workdir"
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
	// derived has the names of documents that are made of a Secret for one use.
	derived map[string]bool
	// given has the credentials, files the inline files of each source by its index.
	given []credentials
	files [][]tool.File
	// placeholders are Secrets that have no registry credentials yet.
	placeholders []placeholder
	hide         *redact.Redactor
}

func newCollector(objects Objects, namespace string, hide *redact.Redactor) *collector {
	return &collector{
		objects: objects, namespace: namespace, hide: hide,
		secrets: map[string]*corev1.Secret{}, data: map[refs.Key]map[string][]byte{}, derived: map[string]bool{},
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

// add reads what source i names.
func (c *collector) add(ctx context.Context, i int, src v1alpha1.AppFetch) error {
	c.given, c.files = append(c.given, credentials{}), append(c.files, nil)
	if src.Inline != nil {
		// vendir lets one of two files with the same path vanish, so they are
		// checked here also where vendir writes them.
		files, err := inline.Files(*src.Inline, c.lookup(ctx))
		c.files[i] = files
		for _, f := range files {
			if _, invalid := workdir.CleanFile(f.Path); invalid != nil {
				return invalid
			}
		}
		return err
	}
	ref, use := credentialsOf(src)
	if ref == nil {
		return nil
	}
	s, err := c.secret(ctx, ref.Name)
	if err != nil {
		return err
	}
	given, err := use.choose(s)
	if err != nil {
		return err
	}
	c.given[i] = given
	if use.registry {
		if p, empty := asPlaceholder(s); empty {
			c.placeholders = append(c.placeholders, p)
		}
	}
	if given.name == ref.Name || given.name == "" || c.derived[given.name] {
		return nil
	}
	c.derived[given.name] = true
	c.addSecret(given.name, given.kind, given.data)
	return nil
}
