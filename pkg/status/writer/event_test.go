package writer_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	packaging "github.com/garboard-dev/garboard/pkg/apis/packaging/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/status"
	"github.com/garboard-dev/garboard/pkg/status/writer"
)

// TestTell: events that differ in their text only are two, and one that is told
// again is not.
func TestTell(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, packaging.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	api := fake.NewClientBuilder().WithScheme(scheme).Build()
	events := writer.Events{Client: api, Now: time.Now}
	repo := &packaging.PackageRepository{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "repo", UID: "u", Generation: 2}}
	for _, text := range []string{"one", "two\xff", "one"} {
		events.Tell(t.Context(), repo, status.Event{Warning: true, Reason: "ReconcileFailed", Text: text})
	}
	list := &corev1.EventList{}
	if err := api.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range list.Items {
		o := e.InvolvedObject
		got = append(got, e.Namespace+" "+e.Type+" "+e.Reason+" "+e.Message+" "+o.APIVersion+" "+o.Kind+" "+o.Name+" "+string(o.UID))
	}
	slices.Sort(got)
	about := " packaging.carvel.dev/v1alpha1 PackageRepository repo u"
	if diff := cmp.Diff([]string{"team Warning ReconcileFailed one" + about, "team Warning ReconcileFailed two\uFFFD" + about}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
