package apiserver

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
)

// May says whether this process's own identity has all the verbs on the resource.
func May(ctx context.Context, kube kubernetes.Interface, what authorizationv1.ResourceAttributes, verbs ...string) (bool, error) {
	for _, verb := range verbs {
		what.Verb = verb
		review, err := kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx,
			&authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &what}}, metav1.CreateOptions{})
		if err != nil {
			return false, fmt.Errorf("ask whether this service account may %s %s: %w", verb, what.Resource, err)
		}
		if !review.Status.Allowed {
			return false, nil
		}
	}
	return true, nil
}

// parts are what the library does with objects that it follows: without the right
// to do so, or where the cluster does not have them, a part would wait for ever and
// requests with it.
var parts = map[string]struct {
	group     schema.GroupVersion
	resources []string
}{
	"MutatingAdmissionWebhook":   {admissionV1, []string{"mutatingwebhookconfigurations"}},
	"ValidatingAdmissionWebhook": {admissionV1, []string{"validatingwebhookconfigurations"}},
	"MutatingAdmissionPolicy":    {admissionV1, []string{"mutatingadmissionpolicies", "mutatingadmissionpolicybindings"}},
	"ValidatingAdmissionPolicy":  {admissionV1, []string{"validatingadmissionpolicies", "validatingadmissionpolicybindings"}},
	priorityAndFairness:          {schema.GroupVersion{Group: "flowcontrol.apiserver.k8s.io", Version: "v1"}, []string{"flowschemas", "prioritylevelconfigurations"}},
}

var admissionV1 = schema.GroupVersion{Group: "admissionregistration.k8s.io", Version: "v1"}

// priorityAndFairness is the part that is no admission plugin.
const priorityAndFairness = "APIPriorityAndFairness"

// missing returns the parts that cannot work here, and why.
func missing(ctx context.Context, kube kubernetes.Interface) (map[string]string, error) {
	out := map[string]string{}
	for part, needs := range parts {
		served := map[string]bool{}
		if list, err := kube.Discovery().ServerResourcesForGroupVersion(needs.group.String()); err == nil {
			for _, r := range list.APIResources {
				served[r.Name] = true
			}
		}
		for _, resource := range needs.resources {
			if !served[resource] {
				out[part] = "the cluster does not serve " + resource
				continue
			}
			ok, err := May(ctx, kube, authorizationv1.ResourceAttributes{Group: needs.group.Group, Resource: resource}, "list", "watch")
			if err != nil {
				return nil, err
			}
			if !ok {
				out[part] = "the service account may not list and watch " + resource
			}
		}
	}
	return out, nil
}
