// Package config_test checks the manifests in this folder.
package config_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

func load(t *testing.T, file string, into any) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(data, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// TestBindingJoinsRoleAndAccount checks the names, which existing installations
// and their tools know.
func TestBindingJoinsRoleAndAccount(t *testing.T) {
	var (
		namespace corev1.Namespace
		account   corev1.ServiceAccount
		role      rbacv1.ClusterRole
		binding   rbacv1.ClusterRoleBinding
	)
	load(t, "rbac/namespace.yaml", &namespace)
	load(t, "rbac/serviceaccount.yaml", &account)
	load(t, "rbac/clusterrole.yaml", &role)
	load(t, "rbac/clusterrolebinding.yaml", &binding)

	if namespace.Name != "kapp-controller" || account.Name != "kapp-controller-sa" || role.Name != "kapp-controller-cluster-role" {
		t.Errorf("namespace %q, account %q, role %q", namespace.Name, account.Name, role.Name)
	}
	if account.Namespace != namespace.Name || binding.RoleRef.Name != role.Name {
		t.Errorf("account in %q, binding of role %q", account.Namespace, binding.RoleRef.Name)
	}
	want := []rbacv1.Subject{{Kind: "ServiceAccount", Name: account.Name, Namespace: namespace.Name}}
	if !slices.Equal(binding.Subjects, want) {
		t.Errorf("subjects %v, want %v", binding.Subjects, want)
	}
}

// TestRoleIsBounded keeps out rights with which the controller, or whoever takes
// it over, could raise its own.
func TestRoleIsBounded(t *testing.T) {
	var role rbacv1.ClusterRole
	load(t, "rbac/clusterrole.yaml", &role)
	for _, rule := range role.Rules {
		for _, words := range [][]string{rule.APIGroups, rule.Resources, rule.Verbs} {
			if slices.Contains(words, "*") {
				t.Errorf("%v %v %v: a wildcard", rule.APIGroups, rule.Resources, rule.Verbs)
			}
		}
		for _, verb := range rule.Verbs {
			if slices.Contains([]string{"bind", "escalate", "impersonate", "deletecollection"}, verb) {
				t.Errorf("%v: verb %s", rule.Resources, verb)
			}
		}
		if slices.Contains(rule.Resources, "secrets") && slices.ContainsFunc(rule.Verbs, changes) {
			t.Errorf("secrets: %v", rule.Verbs)
		}
		if slices.Contains(rule.APIGroups, rbacv1.GroupName) {
			t.Errorf("rights on %s", strings.Join(rule.Resources, ", "))
		}
	}
}

func changes(verb string) bool {
	return verb == "update" || verb == "patch" || verb == "delete"
}
