package kapp_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/deploy/kapp"
)

// A first deploy, a change, one without changes, and a delete, with what each may
// cost.
func TestRequestCounts(t *testing.T) {
	b := newBench(t, false)
	// The first run in a process also asks which kinds the cluster serves.
	b.mustDeploy("warm", configMap("warm", "1"))
	b.requests.take()

	steps := []struct {
		name, manifest string
		most           int
		value          string
	}{
		{"First", configMap("one", "1"), 13, "1"},
		{"Unchanged", configMap("one", "1"), 2, "1"},
		{"Changed", configMap("one", "2"), 8, "2"},
		{"UnchangedAgain", configMap("one", "2"), 2, "2"},
	}
	for _, s := range steps {
		res := b.mustDeploy("one", s.manifest)
		seen := b.requests.take()
		if len(seen) > s.most {
			t.Errorf("%s: %d requests, want at most %d:\n%s", s.name, len(seen), s.most, strings.Join(seen, "\n"))
		}
		if strings.HasPrefix(s.name, "Unchanged") && len(writes(seen)) > 0 {
			t.Errorf("%s: wrote:\n%s", s.name, strings.Join(writes(seen), "\n"))
		}
		if got := b.configMap("one").Data["key"]; got != s.value {
			t.Errorf("%s: value %q, want %q", s.name, got, s.value)
		}
		if !strings.HasPrefix(res.Stdout, "Target cluster 'https://") || !strings.HasSuffix(res.Stdout, "\nSucceeded") || res.Stderr != "" {
			t.Errorf("%s: stdout %q, stderr %q", s.name, res.Stdout, res.Stderr)
		}
		if res.Kapp == nil {
			t.Fatalf("%s: nothing recorded", s.name)
		}
		a := res.Kapp.AssociatedResources
		if !strings.HasPrefix(a.Label, "kapp.k14s.io/app=") || !slices.Equal(a.Namespaces, []string{b.namespace}) ||
			!cmp.Equal(a.GroupKinds, []v1alpha1.GroupKind{{Kind: "ConfigMap"}}) {
			t.Errorf("%s: associated resources %+v", s.name, a)
		}
	}

	b.requests.take()
	res := b.runner.Delete(t.Context(), b.request("one", ""))
	t.Logf("delete: %d requests", len(b.requests.take()))
	if res.Failed() || !strings.HasSuffix(res.Stdout, "\nSucceeded") {
		t.Fatalf("delete: %+v", res.Stage)
	}
	for _, name := range []string{"one", "one.app"} {
		_, err := env.Core.CoreV1().ConfigMaps(b.namespace).Get(t.Context(), name, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			t.Errorf("%s is left: %v", name, err)
		}
	}
	left, err := env.Core.CoreV1().ConfigMaps(b.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "kapp.k14s.io/app-change-app=one.app"})
	if err != nil || len(left.Items) > 0 {
		t.Errorf("%d changes are left, %v", len(left.Items), err)
	}
}

// Ten objects of three kinds: what a deploy may cost for each object that it makes, and
// for each kind when nothing changed.
func TestRequestsOfTen(t *testing.T) {
	b := newBench(t, false)
	b.mustDeploy("warm", configMap("warm", "1"))
	manifest := ""
	for i := range 4 {
		manifest += configMap(fmt.Sprintf("ten-%d", i), "1") + fmt.Sprintf("---\napiVersion: v1\nkind: Secret\nmetadata: {name: ten-%d}\n", i)
	}
	for i := range 2 {
		manifest += fmt.Sprintf("---\napiVersion: v1\nkind: Service\nmetadata: {name: ten-%d}\nspec: {ports: [{port: 80}]}\n", i)
	}
	for _, step := range []struct {
		name string
		most int
	}{
		{"First", 10 + 3*10 + 2*2}, // a look, a POST and a PUT for each; Services are waited for
		{"Unchanged", 1 + 3},       // the record, and a list for each kind
	} {
		b.requests.take()
		b.mustDeploy("ten", manifest)
		if seen := b.requests.take(); len(seen) > step.most {
			t.Errorf("%s: %d requests, want at most %d:\n%s", step.name, len(seen), step.most, strings.Join(seen, "\n"))
		} else {
			t.Logf("%s: %d requests", step.name, len(seen))
		}
	}
}

func TestForeignVariables(t *testing.T) {
	got := kapp.ForeignVariables([]string{"KAPP_NAMESPACE=x", "KAPPCTRL_SYSTEM_NAMESPACE=y", "KAPP_FQ_CONFIGMAP_NAMES=true", "KAPP_DEBUG=", "PATH=/bin"})
	if d := cmp.Diff([]string{"KAPP_DEBUG", "KAPP_NAMESPACE"}, got); d != "" {
		t.Error(d)
	}
}
