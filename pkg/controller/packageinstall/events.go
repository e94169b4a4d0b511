package packageinstall

import (
	"context"
	"fmt"
	"hash/fnv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	packaging "github.com/garboard-dev/garboard/pkg/apis/packaging/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/status"
)

// component is who reports events.
const component = "garboard"

// tell writes an Event. A recorder would take two that differ only in their text
// for one. Its name follows from what it says, so that it is not made twice; one
// that cannot be written is not worth another run.
func (r *Reconciler) tell(ctx context.Context, pkgi *packaging.PackageInstall, e status.Event) {
	now := metav1.NewTime(r.Now())
	eventType := corev1.EventTypeNormal
	if e.Warning {
		eventType = corev1.EventTypeWarning
	}
	sum := fnv.New64a()
	fmt.Fprintf(sum, "%s\x00%d\x00%s\x00%s\x00%s", pkgi.UID, pkgi.Generation, pkgi.ResourceVersion, e.Reason, e.Text)
	name := strings.TrimRight(pkgi.Name[:min(len(pkgi.Name), 200)], "-.")
	err := r.Client.Create(ctx, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: pkgi.Namespace, Name: fmt.Sprintf("%s.%016x", name, sum.Sum64())},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: packaging.SchemeGroupVersion.String(), Kind: kind,
			Namespace: pkgi.Namespace, Name: pkgi.Name, UID: pkgi.UID,
		},
		Type: eventType, Reason: e.Reason, Message: strings.ToValidUTF8(e.Text, "\uFFFD"), Count: 1,
		FirstTimestamp: now, LastTimestamp: now,
		Source: corev1.EventSource{Component: component}, ReportingController: component,
	})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		logf.FromContext(ctx).V(1).Info("Event not written", "event", e.Reason, "reason", err.Error())
	}
}
