package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// Pods returns why pods are not ready, one reason for each cause.
func Pods(pods []corev1.Pod, events []corev1.Event) []Reason {
	var reasons []Reason
	for i := range pods {
		r, ok := pod(&pods[i], events)
		same := func(o Reason) bool { return o.Text == r.Text }
		if ok && !slices.ContainsFunc(reasons, same) {
			reasons = append(reasons, r)
		}
	}
	return reasons
}

func pod(p *corev1.Pod, events []corev1.Event) (Reason, bool) {
	r := Reason{Object: Object{"pod", p.Name, p.Namespace}.String()}
	if p.Status.Phase == corev1.PodSucceeded {
		return r, false
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			r.Text, r.Hint = join(c.Reason, c.Message), "no node takes the Pod: compare its requests, nodeSelector, affinity, tolerations and volumes with the nodes"
			return r, true
		}
	}
	if p.Status.Reason == "Evicted" || p.Status.Reason == "NodeLost" {
		r.Text, r.Hint = join(p.Status.Reason, p.Status.Message), "the node had not enough of something, or is gone: look at the node"
		return r, true
	}
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if text, hint := container(p, s); text != "" {
			r.Text, r.Hint = fmt.Sprintf("container %s: %s", s.Name, text), hint
			return r, true
		}
	}
	if e := newest(events, p.Kind, p.Name); e != nil && !ready(p) {
		r.Text, r.Hint = join(e.Reason, e.Message), eventHint(e.Reason)
		return r, true
	}
	if ready(p) || !p.DeletionTimestamp.IsZero() {
		return r, false
	}
	r.Text, r.Hint = fmt.Sprintf("is %s and not ready", cmp.Or(string(p.Status.Phase), "unknown")), fmt.Sprintf("see kubectl describe pod -n %s %s", p.Namespace, p.Name)
	return r, true
}

func ready(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// container returns what is wrong with a container, or "".
func container(p *corev1.Pod, s corev1.ContainerStatus) (text, hint string) {
	logs := fmt.Sprintf("see kubectl logs -n %s %s -c %s", p.Namespace, p.Name, s.Name)
	if w := s.State.Waiting; w != nil {
		switch w.Reason {
		case "ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable":
			return join(w.Reason, w.Message) + " (image " + s.Image + ")", "check the image's name and tag, and that an imagePullSecret of the Pod or its service account fits the registry"
		case "CrashLoopBackOff":
			text = w.Reason
			if t := s.LastTerminationState.Terminated; t != nil {
				text += ", it last " + ended(t)
			}
			return fmt.Sprintf("%s (%d restarts)", text, s.RestartCount), logs + " --previous"
		case "CreateContainerConfigError", "CreateContainerError", "RunContainerError":
			return join(w.Reason, w.Message), "check the Secrets and ConfigMaps, the command and the securityContext that the container names"
		case "", "ContainerCreating", "PodInitializing":
			return "", ""
		}
		return join(w.Reason, w.Message), logs
	}
	if t := s.State.Terminated; t != nil && t.ExitCode != 0 {
		return ended(t), logs
	}
	return "", ""
}

// ended says how a container ended.
func ended(t *corev1.ContainerStateTerminated) string {
	text := fmt.Sprintf("ended with exit code %d", t.ExitCode)
	if t.Reason != "" {
		text += " (" + t.Reason + ")"
	}
	if t.Reason == "OOMKilled" {
		text += ": it needs more memory than its limit"
	}
	return text
}

// Job returns why a Job failed, or false.
func Job(j *batchv1.Job) (Reason, bool) {
	for _, c := range j.Status.Conditions {
		if c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue {
			return Reason{Object: Object{"job", j.Name, j.Namespace}.String(), Text: join(c.Reason, c.Message)}, true
		}
	}
	return Reason{}, false
}

// Events returns what the newest warning about an object says, or false. It is how
// controllers tell that they cannot make Pods or volumes.
func Events(events []corev1.Event, kind, name string) (Reason, bool) {
	e := newest(events, kind, name)
	if e == nil {
		return Reason{}, false
	}
	o := Object{strings.ToLower(e.InvolvedObject.Kind), e.InvolvedObject.Name, e.InvolvedObject.Namespace}
	r := Reason{Object: o.String(), Text: join(e.Reason, e.Message), Hint: eventHint(e.Reason)}
	if hints := Hints(e.Message, Run{}); len(hints) > 0 {
		r.Hint = hints[0]
	}
	return r, true
}

// newest returns the last event that warns of an object; an empty kind is any.
func newest(events []corev1.Event, kind, name string) (last *corev1.Event) {
	for i := range events {
		e := &events[i]
		if e.InvolvedObject.Name != name || kind != "" && !strings.EqualFold(e.InvolvedObject.Kind, kind) || !telling[e.Reason] {
			continue
		}
		if last == nil || at(last) <= at(e) {
			last = e
		}
	}
	return last
}

// at orders events by time, whichever of their times is set.
func at(e *corev1.Event) int64 {
	return max(e.LastTimestamp.UnixMicro(), e.EventTime.UnixMicro(), e.CreationTimestamp.UnixMicro())
}

// telling are the reasons of events that name a cause.
var telling = map[string]bool{
	"FailedCreate": true, "FailedScheduling": true, "FailedMount": true, "FailedAttachVolume": true, "FailedBinding": true,
	"ProvisioningFailed": true, "Unhealthy": true, "FailedCreatePodSandBox": true, "WaitForFirstConsumer": true, "BackoffLimitExceeded": true,
	"ExternalProvisioning": true, "FailedPlacement": true, "Failed": true,
}

func eventHint(reason string) string {
	switch reason {
	case "Unhealthy":
		return "the container runs and its probe fails: check the probe's path, port and delays, and the container's logs"
	case "FailedMount", "FailedAttachVolume":
		return "check the Secrets, ConfigMaps and claims that the Pod's volumes name"
	case "FailedBinding", "ProvisioningFailed", "ExternalProvisioning":
		return "check storageClassName and that its provisioner runs (kubectl get storageclass)"
	}
	return ""
}

// Claim returns why a PersistentVolumeClaim is not bound, or false.
func Claim(c *corev1.PersistentVolumeClaim, events []corev1.Event) (Reason, bool) {
	if c.Status.Phase == corev1.ClaimBound {
		return Reason{}, false
	}
	if r, ok := Events(events, "PersistentVolumeClaim", c.Name); ok {
		return r, true
	}
	class := "the default storage class"
	if c.Spec.StorageClassName != nil && *c.Spec.StorageClassName != "" {
		class = "storage class " + *c.Spec.StorageClassName
	}
	return Reason{
		Object: Object{"persistentvolumeclaim", c.Name, c.Namespace}.String(),
		Text:   fmt.Sprintf("is %s; it asks %s for a volume", cmp.Or(string(c.Status.Phase), "Pending"), class),
		Hint:   eventHint("FailedBinding"),
	}, true
}

// join joins a reason and its message.
func join(reason, message string) string {
	switch {
	case reason == "":
		return message
	case message == "":
		return reason
	}
	return reason + ": " + message
}
