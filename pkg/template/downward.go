package template

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/tool"
)

// facts keeps what was asked of the cluster: the answers do not change within one
// reconcile.
type facts struct {
	version *string
	apis    []string
}

func (r *run) kubernetesVersion(ctx context.Context) (string, error) {
	if r.facts.version == nil {
		v, err := r.req.Facts.KubernetesVersion(ctx)
		if err != nil {
			return "", err
		}
		r.facts.version = &v
	}
	return *r.facts.version, nil
}

func (r *run) kubernetesAPIs(ctx context.Context) ([]string, error) {
	if r.facts.apis == nil {
		apis, err := r.req.Facts.KubernetesAPIs(ctx)
		if err != nil {
			return nil, err
		}
		r.facts.apis = apis
	}
	return r.facts.apis, nil
}

// downward returns one values file for each item.
func (r *run) downward(ctx context.Context, items []v1alpha1.AppTemplateValuesDownwardAPIItem) ([]tool.File, error) {
	var files []tool.File
	for i, item := range items {
		keys, err := splitName(item.Name)
		if err != nil {
			return nil, err
		}
		value, err := r.downwardValue(ctx, item)
		if err != nil {
			return nil, err
		}
		for j := len(keys) - 1; j >= 0; j-- {
			value = map[string]any{keys[j]: value}
		}
		content, err := yaml.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("encode %q: %w", item.Name, err)
		}
		files = append(files, tool.File{Path: fmt.Sprintf("downwardapi_%d.yaml", i), Content: content})
	}
	return files, nil
}

func (r *run) downwardValue(ctx context.Context, item v1alpha1.AppTemplateValuesDownwardAPIItem) (any, error) {
	switch {
	case item.FieldPath != "":
		return r.field(item.FieldPath)
	case item.KubernetesVersion != nil:
		if v := item.KubernetesVersion.Version; v != "" {
			return v, nil
		}
		v, err := r.kubernetesVersion(ctx)
		if err != nil {
			return nil, fmt.Errorf("Unable to get kubernetes version: %w", err)
		}
		return v, nil
	case item.KappControllerVersion != nil:
		if v := item.KappControllerVersion.Version; v != "" {
			return v, nil
		}
		return r.req.Facts.ControllerVersion(), nil
	case item.KubernetesAPIs != nil:
		if given := item.KubernetesAPIs.GroupVersions; given != nil {
			return given, nil
		}
		apis, err := r.kubernetesAPIs(ctx)
		if err != nil {
			return nil, fmt.Errorf("Unable to list all server apigroups/version: %w", err)
		}
		return apis, nil
	}
	return nil, errors.New("Invalid downward API item given")
}

// relaxed is a JSONPath with or without its braces and leading dot.
var relaxed = regexp.MustCompile(`^\{\.?([^{}]+)\}$|^\.?([^{}]+)$`)

// field evaluates a JSONPath over the App's metadata.
func (r *run) field(fieldPath string) (any, error) {
	m := relaxed.FindStringSubmatch(fieldPath)
	if m == nil {
		return nil, errors.New("unexpected path string, expected a 'name1.name2' or '.name1.name2' or '{name1.name2}' or '{.name1.name2}'")
	}
	parser := jsonpath.New("fieldPath").AllowMissingKeys(false)
	if err := parser.Parse("{." + m[1] + m[2] + "}"); err != nil {
		return nil, fmt.Errorf("fieldPath %q: %w", fieldPath, err)
	}
	object := func(in map[string]string) map[string]any {
		out := map[string]any{}
		for k, v := range in {
			out[k] = v
		}
		return out
	}
	results, err := parser.FindResults(map[string]any{"metadata": map[string]any{
		"name": r.req.Name, "namespace": r.req.Namespace, "uid": r.req.UID,
		"labels": object(r.req.Labels), "annotations": object(r.req.Annotations),
	}})
	if err != nil {
		return nil, err
	}
	var found []reflect.Value
	for _, result := range results {
		found = append(found, result...)
	}
	if len(found) != 1 {
		return nil, errors.New("Invalid field spec provided to DownwardAPI. Only single supported fields are allowed")
	}
	return found[0].Interface(), nil
}

// splitName splits the name of a value at its dots. A backslash takes the next
// character as it is.
func splitName(name string) ([]string, error) {
	var keys []string
	var key strings.Builder
	escaped := false
	for _, c := range name {
		switch {
		case escaped:
			key.WriteRune(c)
			escaped = false
		case c == '\\':
			escaped = true
		case c == '.':
			keys = append(keys, key.String())
			key.Reset()
		default:
			key.WriteRune(c)
		}
	}
	keys = append(keys, key.String())
	for _, k := range keys {
		if k == "" {
			return nil, fmt.Errorf("Invalid name was provided '%s' (hint: separate paths should only use a single '.' character)", name)
		}
	}
	return keys, nil
}
