package app

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/metrics"
	"github.com/garboard-dev/garboard/pkg/status"
)

// deployed says whether the App may have objects in a cluster. In doubt it says
// yes: the cost is an App that stays, of the contrary objects that nobody owns.
func (s *session) deployed(ctx context.Context) bool {
	app, d := s.current(), s.old.Deploy
	if d != nil && d.KappDeployStatus != nil {
		return true
	}
	if app.Spec.ServiceAccountName == "" && app.Spec.Cluster != nil {
		// The record is in a cluster that cannot be reached now.
		return d != nil && !strings.HasPrefix(d.Error, "Preparing kapp: ")
	}
	// kapp's record, under its own name, its fully qualified one, and the name
	// that old versions gave it.
	for _, name := range []string{app.Name + ".app", app.Name + ".app.apps.k14s.io", app.Name + "-ctrl"} {
		err := s.r.Live.Get(ctx, client.ObjectKey{Namespace: app.Namespace, Name: name}, &corev1.ConfigMap{})
		if !apierrors.IsNotFound(err) {
			return true
		}
	}
	return false
}

func series(app *v1alpha1.App) metrics.Object {
	return metrics.Object{Kind: "App", Namespace: app.Namespace, Name: app.Name}
}

// times are the durations of what a run did.
func times(old v1alpha1.AppStatus, out status.Outcome) metrics.Times {
	t := metrics.Times{Fetch: out.Fetch.Took(), Template: out.Template.Took(), Deploy: out.Deploy.Took(), First: status.LastAttempt(old).IsZero()}
	t.Total = t.Fetch + t.Template + t.Deploy + out.Inspect.Took()
	return t
}
