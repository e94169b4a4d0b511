package app

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/status"
)

// component is who reports events.
const component = "garboard"

// announce writes an Event if the outcome is another one than before.
func (s *session) announce(ctx context.Context, o outcome) {
	if e, ok := status.Transition(o.old, o.next); ok {
		s.r.record(ctx, s.current(), e)
	}
}

// deleted is the event for an App that is let go.
func deleted(out status.Outcome) status.Event {
	text := "Delete succeeded"
	if out.Deploy == nil {
		text = "Let go without deleting what it deployed"
	}
	return status.Event{Reason: "Deleted", Text: text, Known: true}
}

// record writes an Event in the App's namespace. Its name follows from what it
// says, so that one that is there already is not made twice, whoever made it. An
// event that cannot be written is not worth another run.
func (r *Reconciler) record(ctx context.Context, app *v1alpha1.App, e status.Event) {
	now := metav1.NewTime(r.Now())
	kind := corev1.EventTypeNormal
	if e.Warning {
		kind = corev1.EventTypeWarning
	}
	obj := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: eventName(app, e)},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "App",
			Namespace: app.Namespace, Name: app.Name, UID: app.UID,
		},
		Type: kind, Reason: e.Reason, Message: e.Text, Count: 1,
		FirstTimestamp: now, LastTimestamp: now,
		Source: corev1.EventSource{Component: component}, ReportingController: component,
	}
	err := r.Client.Create(ctx, obj)
	if apierrors.IsAlreadyExists(err) && e.Known {
		err = r.countEvent(ctx, client.ObjectKeyFromObject(obj), now)
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		logf.FromContext(ctx).V(1).Info("Event not written", "event", e.Reason, "reason", err.Error())
	}
}

// countEvent notes that an event came again.
func (r *Reconciler) countEvent(ctx context.Context, key types.NamespacedName, now metav1.Time) error {
	have := &corev1.Event{}
	if err := r.Live.Get(ctx, key, have); err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"count": have.Count + 1, "lastTimestamp": now})
	if err != nil {
		return err
	}
	return r.Client.Patch(ctx, have, client.RawPatch(types.MergePatchType, patch))
}

// eventName is unique for each event of each generation of an App.
func eventName(app *v1alpha1.App, e status.Event) string {
	sum := fnv.New64a()
	fmt.Fprintf(sum, "%s\x00%d\x00%s\x00%s", app.UID, app.Generation, e.Reason, e.Text)
	name := app.Name[:min(len(app.Name), 200)]
	return fmt.Sprintf("%s.%016x", strings.TrimRight(name, "-."), sum.Sum64())
}
