package why

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// rule says what to try when kapp's text has words that match.
type rule struct {
	match *regexp.Regexp
	// hint takes the groups of a match.
	hint func(m []string, by Run) string
}

// text is a hint that is always the same.
func text(s string) func([]string, Run) string {
	return func([]string, Run) string { return s }
}

// name is a word that kapp or the API server puts in quotes.
const name = `"?([^\s"']{1,253})"?`

// rules are tried in their order, the most telling first: only the first that
// matches a text at all gives the hints.
var rules = []rule{
	{regexp.MustCompile(`unable to create new content in namespace ` + name + ` because it is being terminated`), func(m []string, _ Run) string {
		return fmt.Sprintf("namespace %s is being deleted; deploy elsewhere, or wait until it is gone and create it again (kubectl get namespace %s -o yaml says what holds it)", m[1], m[1])
	}},
	{regexp.MustCompile(`exceeded quota: ([^\s,]{1,253})`), func(m []string, _ Run) string {
		return fmt.Sprintf("ResourceQuota %s is used up; ask for less, remove what is not needed, or raise it (kubectl describe resourcequota %s)", m[1], m[1])
	}},
	{regexp.MustCompile(`failed quota: ([^\s:]{1,253}): must specify ([a-z.,/]+)`), func(m []string, _ Run) string {
		return fmt.Sprintf("ResourceQuota %s counts %s, so each container has to say how much it needs", m[1], m[2])
	}},
	{regexp.MustCompile(`violates PodSecurity "?([a-z]+)`), func(m []string, _ Run) string {
		return fmt.Sprintf("the namespace admits Pods of the level %s only; change securityContext as the text says, or the namespace's label pod-security.kubernetes.io/enforce", m[1])
	}},
	{regexp.MustCompile(`admission webhook ` + name + ` denied the request`), func(m []string, _ Run) string {
		return fmt.Sprintf("a policy of this cluster refuses the object, the webhook %s; change the object as its text says, or ask who runs it", m[1])
	}},
	{regexp.MustCompile(`ValidatingAdmissionPolicy '([^']{1,253})' (?:with binding '[^']{1,253}' )?denied request`), func(m []string, _ Run) string {
		return fmt.Sprintf("a policy of this cluster refuses the object, the ValidatingAdmissionPolicy %s; change the object as its text says, or ask who wrote it", m[1])
	}},
	{regexp.MustCompile(`failed calling webhook ` + name), func(m []string, _ Run) string {
		return fmt.Sprintf("the cluster asks the webhook %s before it takes the object, and that does not answer; repair what serves it (kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations)", m[1])
	}},
	{regexp.MustCompile(`attempting to grant RBAC permissions not currently held`), func(_ []string, by Run) string {
		return "nobody may give rights that they do not have: " + by.who() + " needs the listed rights itself, or the verb escalate on roles"
	}},
	{regexp.MustCompile(`User "([^"]{1,600})" cannot ([a-z]+) resource "([^"]{1,253})" in API group "([^"]{0,253})"(?: in the namespace "([^"]{1,253})")?`), forbidden},
	{regexp.MustCompile(`Resource '([^']{1,600})' is already associated with a different app '([^']{1,253})' namespace: ([a-z0-9-]{1,63})`), func(m []string, by Run) string {
		owner := m[3] + "/" + strings.TrimSuffix(m[2], ".app")
		return fmt.Sprintf("%s belongs to App %s and is in App %s too; take it out of one of them. To move it here, take it out of %s "+
			"with the annotation kapp.k14s.io/delete-strategy: orphan on it, or set once: rawOptions: [--dangerous-override-ownership-of-existing-resources=true]", m[1], owner, by.App, owner)
	}},
	{regexp.MustCompile(`Resource '([^']{1,600})' is already associated with a different label '([^']{1,253})'`), func(m []string, by Run) string {
		return fmt.Sprintf("%s was deployed by an app whose record is gone or cannot be read (label %s) and is in App %s now. To take it over, set once: "+
			"rawOptions: [--dangerous-override-ownership-of-existing-resources=true]", m[1], m[2], by.App)
	}},
	{regexp.MustCompile(`Expected to find kind '([^']{1,600})'`), func(m []string, _ Run) string {
		at := strings.LastIndexByte(m[1], '/') + 1
		return fmt.Sprintf("the cluster has no kind %s; deploy its CustomResourceDefinition first or in this App, or correct apiVersion and kind (kubectl api-resources | grep -i %s)", m[1], strings.ToLower(m[1][at:]))
	}},
	{regexp.MustCompile(`field is immutable|may not change once set|updates to statefulset spec for fields other than|spec is immutable after creation|updates to provisioner are forbidden|cannot change roleRef`),
		text("the API server does not let this field be changed. To delete the object and create it anew, give it the annotation kapp.k14s.io/update-strategy: fallback-on-replace; " +
			"its data and its Pods go with it. To keep the old one for a while, change its name")},
	{regexp.MustCompile(`namespaces ` + name + ` not found`), func(m []string, by Run) string {
		return fmt.Sprintf("namespace %s does not exist; create it, put a Namespace object into the App (%s then needs the right to create namespaces), or set intoNs", m[1], by.who())
	}},
	{regexp.MustCompile(`unable to retrieve the complete list of server APIs: ([a-z0-9./-]{1,253})`), func(m []string, _ Run) string {
		return fmt.Sprintf("the API %s does not answer and the App uses it, or used it; repair what serves it (kubectl get apiservices). "+
			"--dangerous-ignore-failing-api-services=true goes on without it and may leave objects behind", m[1])
	}},
	{regexp.MustCompile(`Unauthorized|the server has asked for the client to provide credentials`), func(_ []string, by Run) string {
		if by.Account == "" {
			return "the cluster does not accept the credentials of the kubeconfig, perhaps because they have expired; renew them in the Secret of spec.cluster.kubeconfigSecretRef, which is noticed at once"
		}
		return "the cluster does not accept the token of service account " + by.Account + "; it was deleted perhaps, or the API server was set up anew"
	}},
	{regexp.MustCompile(`x509: [a-z ]{1,100}`), func(_ []string, by Run) string {
		if by.Account == "" {
			return "the API server's certificate is none that the kubeconfig trusts; correct certificate-authority-data or tls-server-name in the Secret of spec.cluster.kubeconfigSecretRef"
		}
		return "the API server's certificate is none that the controller trusts"
	}},
	{regexp.MustCompile(`connection refused|no such host|i/o timeout|no route to host|network is unreachable|TLS handshake timeout|connection reset by peer|Client\.Timeout exceeded`), func(_ []string, by Run) string {
		if by.Account == "" {
			return "the API server of the kubeconfig cannot be reached from here; correct server or proxy-url in the Secret of spec.cluster.kubeconfigSecretRef, or the network"
		}
		return "the API server cannot be reached; it may be restarting. The next try comes by itself"
	}},
}

// Hints returns what to try about kapp's error text.
func Hints(text string, by Run) []string {
	for _, r := range rules {
		var hints []string
		for _, m := range r.match.FindAllStringSubmatch(text, maxHints) {
			if h := r.hint(m, by); !slices.Contains(hints, h) {
				hints = append(hints, h)
			}
		}
		if len(hints) > 0 {
			return hints
		}
	}
	return nil
}

// forbidden names the right that is missing, ready to be put into a Role.
func forbidden(m []string, by Run) string {
	kind, where := "ClusterRole", "a ClusterRoleBinding"
	if m[5] != "" {
		kind, where = "Role in namespace "+m[5], "a RoleBinding"
	}
	return fmt.Sprintf(`%s needs a %s, bound with %s, that has the rule {apiGroups: [%q], resources: [%q], verbs: [%q]}`, by.named(m[1]), kind, where, m[4], m[3], m[2])
}

func (by Run) who() string { return by.named("") }

// named is who deploys; user is what the API server calls that.
func (by Run) named(user string) string {
	if by.Account != "" && (user == "" || user == "system:serviceaccount:"+strings.Replace(by.Account, "/", ":", 1)) {
		return "service account " + by.Account
	}
	if user != "" {
		return "user " + user
	}
	return "the kubeconfig's user"
}
