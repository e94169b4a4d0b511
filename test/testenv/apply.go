package testenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// fieldManager is the name that applied fields are owned by.
const fieldManager = "garboard-test"

type applier struct {
	client dynamic.Interface
	mapper *restmapper.DeferredDiscoveryRESTMapper
}

func newApplier(config *rest.Config, client dynamic.Interface) (*applier, error) {
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	return &applier{client, restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(d))}, nil
}

// Apply applies each object of a YAML stream server-side, in its order. Objects
// without a namespace go to the given one. A CustomResourceDefinition's kind can
// be used by what follows it.
func (e *Env) Apply(ctx context.Context, namespace string, manifest []byte) error {
	objs, err := Objects(manifest)
	if err != nil {
		return err
	}
	for _, obj := range objs {
		if err := e.applier.apply(ctx, namespace, obj); err != nil {
			return fmt.Errorf("apply %s %q: %w", obj.GetKind(), obj.GetName(), err)
		}
	}
	return nil
}

// ApplyFiles applies files that match the patterns, which are relative to the
// top folder of the repository, in the order of their names.
func (e *Env) ApplyFiles(ctx context.Context, namespace string, patterns ...string) error {
	for _, pattern := range patterns {
		names, err := filepath.Glob(filepath.Join(e.root, pattern))
		if err != nil {
			return err
		}
		if len(names) == 0 {
			return fmt.Errorf("apply files: nothing matches %q", pattern)
		}
		slices.Sort(names)
		for _, name := range names {
			content, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			if err := e.Apply(ctx, namespace, content); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

// Objects parses a YAML stream.
func Objects(manifest []byte) ([]*unstructured.Unstructured, error) {
	var objs []*unstructured.Unstructured
	dec := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096)
	for {
		obj := &unstructured.Unstructured{}
		err := dec.Decode(&obj.Object)
		if errors.Is(err, io.EOF) {
			return objs, nil
		}
		if err != nil {
			return nil, fmt.Errorf("parse manifest: %w", err)
		}
		if len(obj.Object) > 0 {
			objs = append(objs, obj)
		}
	}
}

func (a *applier) apply(ctx context.Context, namespace string, obj *unstructured.Unstructured) error {
	res, err := a.resource(ctx, obj.GroupVersionKind(), namespace, obj)
	if err != nil {
		return err
	}
	obj.SetManagedFields(nil)
	_, err = res.Apply(ctx, obj.GetName(), obj, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	return err
}

// resource waits a moment for a kind that is not served yet: a definition that
// was just applied is served within a second.
func (a *applier) resource(ctx context.Context, gvk schema.GroupVersionKind, namespace string, obj *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	var m *meta.RESTMapping
	var last error
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
		m, last = a.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if meta.IsNoMatchError(last) {
			a.mapper.Reset()
			return false, nil
		}
		return true, last
	})
	if err != nil {
		return nil, errors.Join(err, last)
	}
	if m.Scope.Name() == meta.RESTScopeNameRoot {
		return a.client.Resource(m.Resource), nil
	}
	if obj.GetNamespace() == "" {
		obj.SetNamespace(namespace)
	}
	return a.client.Resource(m.Resource).Namespace(obj.GetNamespace()), nil
}

// Kubectl runs kubectl as a cluster administrator and returns its output.
func (e *Env) Kubectl(ctx context.Context, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(e.BinDir("dev"), "devcluster"), append([]string{"kubectl"}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+e.Kubeconfig())
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String(), nil
}
