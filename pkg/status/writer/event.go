package writer

import (
	"context"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/garboard-dev/garboard/pkg/status"
)

// component is who reports events.
const component = "garboard"

// Events writes Events. client-go's recorder takes two for one that differ only in
// their text, and the second is never seen.
type Events struct {
	Client client.Client
	// Now is the clock.
	Now func() time.Time
}

// Tell writes an Event about obj into its namespace. Its name follows from what it
// says about which version of obj, so that it is not made twice. One that cannot be
// written is logged: it is not worth another run.
func (w Events) Tell(ctx context.Context, obj client.Object, e status.Event) {
	if err := w.tell(ctx, obj, e); err != nil && !apierrors.IsAlreadyExists(err) {
		logf.FromContext(ctx).V(1).Info("Event not written", "event", e.Reason, "reason", err.Error())
	}
}

func (w Events) tell(ctx context.Context, obj client.Object, e status.Event) error {
	kind, err := w.Client.GroupVersionKindFor(obj)
	if err != nil {
		return err
	}
	now, eventType := metav1.NewTime(w.Now()), corev1.EventTypeNormal
	if e.Warning {
		eventType = corev1.EventTypeWarning
	}
	return w.Client.Create(ctx, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: obj.GetNamespace(), Name: eventName(obj, e)},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: kind.GroupVersion().String(), Kind: kind.Kind,
			Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: obj.GetUID(),
		},
		Type: eventType, Reason: e.Reason, Message: strings.ToValidUTF8(e.Text, "\uFFFD"), Count: 1,
		FirstTimestamp: now, LastTimestamp: now,
		Source: corev1.EventSource{Component: component}, ReportingController: component,
	})
}

func eventName(obj client.Object, e status.Event) string {
	sum := fnv.New64a()
	fmt.Fprintf(sum, "%s\x00%d\x00%s\x00%s\x00%s", obj.GetUID(), obj.GetGeneration(), obj.GetResourceVersion(), e.Reason, e.Text)
	name := obj.GetName()
	return fmt.Sprintf("%s.%016x", strings.TrimRight(name[:min(len(name), 200)], "-."), sum.Sum64())
}
