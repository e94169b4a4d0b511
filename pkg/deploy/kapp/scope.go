package kapp

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard-dev/garboard/pkg/deploy"
)

// made are kinds and those that the cluster makes of their objects, with their
// labels: a Deployment's Pods are among what was deployed, though no manifest named
// them. A kind that is not here may have any others made of it.
var made = map[schema.GroupKind][]schema.GroupKind{
	{Kind: "ConfigMap"}:                                              nil,
	{Kind: "Secret"}:                                                 nil,
	{Kind: "ServiceAccount"}:                                         {{Kind: "Secret"}},
	{Kind: "Namespace"}:                                              nil,
	{Kind: "LimitRange"}:                                             nil,
	{Kind: "ResourceQuota"}:                                          nil,
	{Kind: "PersistentVolumeClaim"}:                                  nil,
	{Kind: "Pod"}:                                                    nil,
	{Kind: "Endpoints"}:                                              {{Group: "discovery.k8s.io", Kind: "EndpointSlice"}},
	{Kind: "Service"}:                                                {{Kind: "Endpoints"}, {Group: "discovery.k8s.io", Kind: "EndpointSlice"}},
	{Kind: "ReplicationController"}:                                  {{Kind: "Pod"}},
	{Group: "apps", Kind: "ControllerRevision"}:                      nil,
	{Group: "apps", Kind: "ReplicaSet"}:                              {{Kind: "Pod"}},
	{Group: "apps", Kind: "Deployment"}:                              {{Group: "apps", Kind: "ReplicaSet"}, {Kind: "Pod"}},
	{Group: "apps", Kind: "StatefulSet"}:                             {{Group: "apps", Kind: "ControllerRevision"}, {Kind: "Pod"}, {Kind: "PersistentVolumeClaim"}},
	{Group: "apps", Kind: "DaemonSet"}:                               {{Group: "apps", Kind: "ControllerRevision"}, {Kind: "Pod"}},
	{Group: "batch", Kind: "Job"}:                                    {{Kind: "Pod"}},
	{Group: "batch", Kind: "CronJob"}:                                {{Group: "batch", Kind: "Job"}, {Kind: "Pod"}},
	{Group: "discovery.k8s.io", Kind: "EndpointSlice"}:               nil,
	{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}:          nil,
	{Group: "policy", Kind: "PodDisruptionBudget"}:                   nil,
	{Group: "networking.k8s.io", Kind: "Ingress"}:                    nil,
	{Group: "networking.k8s.io", Kind: "NetworkPolicy"}:              nil,
	{Group: "rbac.authorization.k8s.io", Kind: "Role"}:               nil,
	{Group: "rbac.authorization.k8s.io", Kind: "RoleBinding"}:        nil,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}:        nil,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"}: nil,
}

// closure returns recorded and all that is made of it, or false: that is not known.
func closure(recorded []schema.GroupKind) (map[schema.GroupKind]bool, bool) {
	all := map[schema.GroupKind]bool{}
	for _, gk := range recorded {
		children, known := made[gk]
		if !known {
			return nil, false
		}
		all[gk] = true
		for _, child := range children {
			all[child] = true
		}
	}
	return all, true
}

// scoped are the lists with the kinds in all only.
func scoped(lists []*metav1.APIResourceList, all map[schema.GroupKind]bool) []*metav1.APIResourceList {
	var out []*metav1.APIResourceList
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		kept := &metav1.APIResourceList{TypeMeta: list.TypeMeta, GroupVersion: list.GroupVersion}
		for _, r := range list.APIResources {
			if all[schema.GroupKind{Group: gv.Group, Kind: r.Kind}] {
				kept.APIResources = append(kept.APIResources, r)
			}
		}
		if len(kept.APIResources) > 0 {
			out = append(out, kept)
		}
	}
	return out
}

// filters says whether some option narrows what a run is about.
func filters(options []string) bool {
	return slices.ContainsFunc(options, func(o string) bool { return strings.HasPrefix(o, "--filter") && strings.Contains(o, "=") })
}

// first returns what a run of j asks for first, or nil: every kind.
//
// A deploy scopes itself. A delete looks at every kind once more at its end, so what
// others put beside the App is not missed. An inspect does not look again: it may miss
// what only a deploy with filters leaves off the record.
func (j job) first(req deploy.Request, recorded *records) func() (map[schema.GroupKind]bool, bool) {
	switch {
	case j.command == deployCommand, j.whole, filters(j.args):
		return nil
	case j.command == inspectCommand && filters(slices.Concat(req.GlobalRawOptions, req.Kapp.RawOptions)):
		return nil
	}
	return func() (map[schema.GroupKind]bool, bool) {
		kinds, ok := recorded.kinds()
		if !ok {
			return nil, false
		}
		return closure(kinds)
	}
}

// kinds returns the kinds that the record of the App names, or false if it names
// none: it is of an older kapp, or has not been read.
func (r *records) kinds() ([]schema.GroupKind, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range []string{r.name + qualifiedSuffix, r.name} {
		cm := r.view(name)
		if cm == nil {
			continue
		}
		spec, err := parseRecord(cm)
		if err != nil || spec.UsedGKs == nil {
			return nil, false
		}
		kinds := make([]schema.GroupKind, 0, len(spec.UsedGKs))
		for _, gk := range spec.UsedGKs {
			kinds = append(kinds, schema.GroupKind{Group: gk.Group, Kind: gk.Kind})
		}
		return kinds, true
	}
	return nil, false
}
