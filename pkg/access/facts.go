package access

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"
)

// Facts tells templates about the cluster that is deployed to, and about the
// controller. Answers are kept, so make one for each reconcile. Safe for
// concurrent use.
type Facts struct {
	controller string
	client     func(context.Context) (discovery.DiscoveryInterfaces, error)

	mu      sync.Mutex // guards all below
	version string
	apis    []string
}

// Facts returns the facts for req. controllerVersion may begin with a v. With a
// service account they come from the controller's own cluster and need no rights
// of the service account; with a kubeconfig they come from its cluster.
func (r *Resolver) Facts(req Request, controllerVersion string) *Facts {
	return &Facts{
		controller: strings.TrimPrefix(controllerVersion, "v"),
		client: func(ctx context.Context) (discovery.DiscoveryInterfaces, error) {
			if req.ServiceAccountName != "" {
				return r.core.Discovery(), nil
			}
			target, err := r.Resolve(ctx, req)
			if err != nil {
				return nil, err
			}
			return discovery.NewDiscoveryClientForConfigAndClient(target.Config, target.HTTP)
		},
	}
}

// ControllerVersion is the controller's version without a leading v.
func (f *Facts) ControllerVersion() string { return f.controller }

// KubernetesVersion is the cluster's version without pre-release and build, such
// as 1.37.2.
func (f *Facts) KubernetesVersion(ctx context.Context) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.version != "" {
		return f.version, nil
	}
	client, err := f.client(ctx)
	if err != nil {
		return "", err
	}
	info, err := client.ServerVersionWithContext(ctx)
	if err != nil {
		return "", err
	}
	v, err := version.ParseGeneric(info.GitVersion)
	if err != nil {
		return "", fmt.Errorf("parse version %q: %w", info.GitVersion, err)
	}
	f.version = fmt.Sprintf("%d.%d.%d", v.Major(), v.Minor(), v.Patch())
	return f.version, nil
}

// KubernetesAPIs lists the group/version pairs that the cluster serves; the core
// group's have no slash.
func (f *Facts) KubernetesAPIs(ctx context.Context) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.apis != nil {
		return f.apis, nil
	}
	client, err := f.client(ctx)
	if err != nil {
		return nil, err
	}
	groups, err := client.ServerGroupsWithContext(ctx)
	if err != nil {
		return nil, err
	}
	apis := []string{}
	for _, g := range groups.Groups {
		for _, v := range g.Versions {
			apis = append(apis, v.GroupVersion)
		}
	}
	f.apis = apis
	return apis, nil
}
