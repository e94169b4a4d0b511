package kapp

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	"github.com/garboard-dev/garboard/pkg/deploy"
	"github.com/garboard-dev/garboard/pkg/deploy/why"
)

const (
	// explainFor bounds the search for causes.
	explainFor = 5 * time.Second
	// pageSize bounds each list. The first Pods of a workload stand for all.
	pageSize = 50
)

// explain adds to a failed run's text why it failed and what to try. It stands
// below kapp's own text, which clients match. It reads as the App's identity, and
// at most three times for each of why.MaxObjects objects.
func explain(ctx context.Context, req deploy.Request, res deploy.Result) deploy.Result {
	if !res.Failed() || ctx.Err() != nil || !strings.Contains(res.Stderr, "kapp: Error") {
		return res
	}
	var reasons []why.Reason
	if objects := why.Waited(res.Stderr); len(objects) > 0 {
		ctx, cancel := context.WithTimeout(ctx, explainFor)
		defer cancel()
		if core, err := kubernetes.NewForConfigAndClient(req.Target.Config, req.Target.HTTP); err == nil {
			s := search{core}
			for _, o := range objects {
				reasons = append(reasons, s.reasons(ctx, o)...)
			}
		}
	}
	added := why.Text(reasons, why.Hints(res.Stderr, runOf(req)))
	if added == "" {
		return res
	}
	if !strings.HasSuffix(res.Stderr, "\n") {
		res.Stderr += "\n"
	}
	res.Stderr += strings.TrimSuffix(added, "\n")
	return res
}

// runOf is who deploys req.
func runOf(req deploy.Request) why.Run {
	run := why.Run{App: req.Target.RecordNamespace() + "/" + req.Name}
	run.Account, _ = strings.CutPrefix(req.Target.Key, "serviceaccount/")
	if run.Account == req.Target.Key {
		run.Account = ""
	}
	return run
}

// search reads what tells why an object is not ready.
type search struct{ core kubernetes.Interface }

func (s search) reasons(ctx context.Context, o why.Object) []why.Reason {
	reasons, err := s.find(ctx, o)
	if apierrors.IsForbidden(err) {
		return []why.Reason{{
			Object: o.String(), Text: "the cause cannot be read here",
			Hint: "to see causes here, let the App's identity get and list deployments, statefulsets, daemonsets, replicasets, jobs, persistentvolumeclaims, pods and events",
		}}
	}
	return reasons
}

func (s search) find(ctx context.Context, o why.Object) ([]why.Reason, error) {
	var own []why.Reason
	var selector *metav1.LabelSelector
	var err error
	switch o.Kind {
	case "pod":
		return s.pod(ctx, o)
	case "persistentvolumeclaim":
		return s.claim(ctx, o)
	case "job":
		own, selector, err = s.job(ctx, o)
	case "deployment":
		own, selector, err = s.deployment(ctx, o)
	default:
		selector, err = s.selector(ctx, o)
	}
	if err != nil {
		return nil, err
	}
	pods, err := s.pods(ctx, o, selector)
	if err != nil {
		return own, err
	}
	reasons := slices.Concat(why.Pods(pods, nil), own)
	if len(reasons) > 0 && !running(pods) {
		return reasons, nil
	}
	// What runs and is not ready, or is not there at all, only events explain.
	about := o.Name
	if len(pods) > 0 {
		about = pods[0].Name
	}
	events, err := s.events(ctx, o.Namespace, about)
	if err != nil {
		return reasons, nil
	}
	if len(pods) > 0 {
		return slices.Concat(why.Pods(pods, events), own), nil
	}
	if r, ok := why.Events(events, o.Kind, o.Name); ok {
		reasons = append(reasons, r)
	}
	return reasons, nil
}

// running says whether some Pod is running, so that its containers tell nothing.
func running(pods []corev1.Pod) bool {
	return slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
}

func (s search) deployment(ctx context.Context, o why.Object) ([]why.Reason, *metav1.LabelSelector, error) {
	d, err := s.core.AppsV1().Deployments(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
	if err != nil {
		return nil, nil, err
	}
	for _, c := range d.Status.Conditions {
		if c.Type == "ReplicaFailure" && c.Status == corev1.ConditionTrue {
			return []why.Reason{{Object: o.String(), Text: c.Reason + ": " + c.Message, Hint: first(why.Hints(c.Message, why.Run{}))}}, d.Spec.Selector, nil
		}
	}
	return nil, d.Spec.Selector, nil
}

func (s search) job(ctx context.Context, o why.Object) ([]why.Reason, *metav1.LabelSelector, error) {
	j, err := s.core.BatchV1().Jobs(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
	if err != nil {
		return nil, nil, err
	}
	if r, ok := why.Job(j); ok {
		return []why.Reason{r}, j.Spec.Selector, nil
	}
	return nil, j.Spec.Selector, nil
}

func (s search) selector(ctx context.Context, o why.Object) (*metav1.LabelSelector, error) {
	switch o.Kind {
	case "statefulset":
		w, err := s.core.AppsV1().StatefulSets(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
		return w.Spec.Selector, err
	case "daemonset":
		w, err := s.core.AppsV1().DaemonSets(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
		return w.Spec.Selector, err
	case "replicaset":
		w, err := s.core.AppsV1().ReplicaSets(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
		return w.Spec.Selector, err
	}
	return nil, fmt.Errorf("no selector for %s", o)
}

// pods are the Pods of a workload, the newest first.
func (s search) pods(ctx context.Context, o why.Object, selector *metav1.LabelSelector) ([]corev1.Pod, error) {
	sel, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil || sel.Empty() {
		return nil, err
	}
	list, err := s.core.CoreV1().Pods(o.Namespace).List(ctx, metav1.ListOptions{LabelSelector: sel.String(), Limit: pageSize})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(list.Items, func(a, b corev1.Pod) int { return b.CreationTimestamp.Compare(a.CreationTimestamp.Time) })
	return list.Items, nil
}

func (s search) pod(ctx context.Context, o why.Object) ([]why.Reason, error) {
	p, err := s.core.CoreV1().Pods(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	events, _ := s.events(ctx, o.Namespace, o.Name)
	return why.Pods([]corev1.Pod{*p}, events), nil
}

func (s search) claim(ctx context.Context, o why.Object) ([]why.Reason, error) {
	c, err := s.core.CoreV1().PersistentVolumeClaims(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	events, _ := s.events(ctx, o.Namespace, o.Name)
	if r, ok := why.Claim(c, events); ok {
		return []why.Reason{r}, nil
	}
	return nil, nil
}

func (s search) events(ctx context.Context, namespace, name string) ([]corev1.Event, error) {
	list, err := s.core.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("involvedObject.name", name).String(), Limit: pageSize,
	})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

func first(texts []string) string {
	if len(texts) == 0 {
		return ""
	}
	return texts[0]
}
