package repository_test

import (
	"testing"
	"time"

	kappapp "carvel.dev/kapp/pkg/kapp/app"
	kappres "carvel.dev/kapp/pkg/kapp/resources"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	stored "github.com/garboard-dev/garboard/pkg/apis/internalpackaging/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/packages"
	"github.com/garboard-dev/garboard/pkg/repository"
)

// served is an object as the packaging API serves it, which is how kapp sees it.
func served(t *testing.T, o repository.Object) kappres.Resource {
	t.Helper()
	var object any
	switch in := o.Stored.(type) {
	case *stored.InternalPackage:
		p, err := packages.LoadPackage(in, "")
		if err != nil {
			t.Fatal(err)
		}
		p.TypeMeta = metav1.TypeMeta{APIVersion: "data.packaging.carvel.dev/v1alpha1", Kind: repository.Package}
		object = p
	case *stored.InternalPackageMetadata:
		m, err := packages.LoadMetadata(in, "")
		if err != nil {
			t.Fatal(err)
		}
		m.TypeMeta = metav1.TypeMeta{APIVersion: "data.packaging.carvel.dev/v1alpha1", Kind: repository.Metadata}
		object = m
	}
	text, err := yaml.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	res, err := kappres.NewResourceFromBytes(text)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// TestKappFindsIt: kapp takes what is stored for its own, and finds it by its record.
func TestKappFindsIt(t *testing.T) {
	cm, err := repository.NewRecord("team-a", "repo", time.Unix(1700000000, 0))
	if err != nil {
		t.Fatal(err)
	}
	record, err := kappapp.NewAppMetaFromData(cm.Data)
	if err != nil {
		t.Fatal(err)
	}
	group := "data.packaging.carvel.dev"
	if diff := cmp.Diff(&[]schema.GroupKind{{Group: group, Kind: "Package"}, {Group: group, Kind: "PackageMetadata"}}, record.UsedGKs); diff != "" {
		t.Errorf("kinds that kapp searches:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"team-a"}, record.LastChange.Namespaces); diff != "" {
		t.Errorf("namespaces that kapp searches:\n%s", diff)
	}
	owner := repository.Owner{Namespace: "team-a", Name: "repo", Label: record.LabelValue}
	objs := owner.Own(content(t, pkg("a.example.com", "1.0.0+b", "", ""), metadata("a.example.com", "")))
	if len(objs) != 2 {
		t.Fatal(objs)
	}
	for _, o := range objs {
		res := served(t, o)
		want := map[string]string{record.LabelKey: record.LabelValue, "kapp.k14s.io/association": kappres.NewAssociationLabel(res).Value()}
		if diff := cmp.Diff(want, res.Labels()); diff != "" {
			t.Errorf("%s:\n%s", o.Key, diff)
		}
		if id := kappres.NewIdentityAnnotation(res); !id.Valid() || !id.MatchesVersion() {
			t.Errorf("%s: kapp would leave it, as one that a controller made: %v", o.Key, res.Annotations())
		}
	}
}
