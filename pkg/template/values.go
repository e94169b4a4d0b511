package template

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/refs"
	"github.com/garboard-dev/garboard/pkg/refs/inline"
	"github.com/garboard-dev/garboard/pkg/tool"
	"github.com/garboard-dev/garboard/pkg/tool/localpath"
)

// Objects reads Secrets and ConfigMaps. A missing object is a NotFound error of
// the API, the text of which users see.
type Objects interface {
	Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error)
	ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error)
}

func (o *objects) lookup(ctx context.Context) inline.Lookup {
	return func(key refs.Key) (map[string][]byte, error) {
		id := key.Kind + "/" + key.Name
		if data, found := o.read[id]; found {
			return data, nil
		}
		data := map[string][]byte{}
		if key.Kind == refs.Secret {
			s, err := o.from.Secret(ctx, o.namespace, key.Name)
			if err != nil {
				return nil, err
			}
			data = s.Data
			o.hide.AddSecret(data)
		} else {
			cm, err := o.from.ConfigMap(ctx, o.namespace, key.Name)
			if err != nil {
				return nil, err
			}
			for k, v := range cm.Data {
				data[k] = []byte(v)
			}
		}
		o.read[id] = data
		return data, nil
	}
}

// valuesDir is where the values of step i lie.
func valuesDir(i int) string { return fmt.Sprintf("values/%d", i) }

// values writes the values files of step i below dir and returns the path of each
// file in order, "-" for the stream. Paths are relative to the workspace.
func (r *run) values(ctx context.Context, dir string, sources []v1alpha1.AppTemplateValuesSource) ([]string, error) {
	var paths []string
	var files []tool.File
	for i, from := range sources {
		made, given, err := r.valuesSource(ctx, from)
		if err != nil {
			return nil, fmt.Errorf("Preparing template values: %w", err)
		}
		if given != "" {
			paths = append(paths, given)
		}
		for _, f := range made {
			f.Path = path.Join(dir, fmt.Sprint(i), f.Path)
			files = append(files, f)
			paths = append(paths, "./"+f.Path)
		}
	}
	if len(files) == 0 {
		return paths, nil
	}
	if err := r.ws.Put(ctx, files); err != nil {
		return nil, fmt.Errorf("Preparing template values: %w", err)
	}
	return paths, nil
}

// valuesSource returns the files to write for one source, or the path of one that
// is there already.
func (r *run) valuesSource(ctx context.Context, from v1alpha1.AppTemplateValuesSource) (files []tool.File, given string, err error) {
	switch {
	case from.SecretRef != nil:
		files, err = r.valuesObject(ctx, refs.Key{Kind: refs.Secret, Name: from.SecretRef.Name})
	case from.ConfigMapRef != nil:
		files, err = r.valuesObject(ctx, refs.Key{Kind: refs.ConfigMap, Name: from.ConfigMapRef.Name})
	case from.Path == "-":
		if !r.streaming {
			return nil, "", errors.New("Expected stdin to be available when using it as path, but was not")
		}
		given = "-"
	case from.Path != "":
		given, err = r.below(from.Path)
	case from.DownwardAPI != nil:
		files, err = r.downward(ctx, from.DownwardAPI.Items)
	default:
		err = errors.New("Expected one of secretRef, configMapRef, downwardAPI, or path as a source")
	}
	return files, given, err
}

// valuesObject returns each key as a file, in the order of their names.
func (r *run) valuesObject(ctx context.Context, key refs.Key) ([]tool.File, error) {
	data, err := r.objects.lookup(ctx)(key)
	if err != nil {
		return nil, err
	}
	var files []tool.File
	for _, name := range slices.Sorted(maps.Keys(data)) {
		if err := localpath.Name(name); err != nil {
			return nil, fmt.Errorf("%s '%s': %w", key.Kind, key.Name, err)
		}
		files = append(files, tool.File{Path: name, Content: data[name]})
	}
	return files, nil
}

// listItem returns s as one item of an option that takes a list separated by
// commas, so that a comma in it cannot begin another item.
func listItem(s string) string {
	if !strings.ContainsAny(s, ",\"") {
		return s
	}
	var b strings.Builder
	w := csv.NewWriter(&b)
	_ = w.Write([]string{s}) // writing to memory does not fail
	w.Flush()
	return strings.TrimSuffix(b.String(), "\n")
}
