package controlplane

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// poll is the interval of all waits here.
const poll = 50 * time.Millisecond

// addNode adds a node and returns when Pods can run on it.
func (c *ControlPlane) addNode(ctx context.Context, client kubernetes.Interface, name string) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name:        name,
		Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
		Labels:      map[string]string{"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"},
	}}
	if _, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("add node %s: %w", name, err)
	}
	err := wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
		n, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		return err == nil && len(n.Spec.Taints) == 0 && slices.ContainsFunc(n.Status.Conditions, isReady), err
	})
	if err != nil {
		return fmt.Errorf("wait for node %s: %w", name, err)
	}
	return nil
}

func isReady(c corev1.NodeCondition) bool {
	return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
}

// waitServiceAccount returns when Pods are admitted to the namespace: the API
// server refuses them before the namespace has its default service account.
func (c *ControlPlane) waitServiceAccount(ctx context.Context, client kubernetes.Interface, namespace string) error {
	err := wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the default service account of namespace %s: %w", namespace, err)
	}
	return nil
}

// AddNamespace creates a namespace whose name starts with prefix and returns its
// name when Pods are admitted to it.
func (c *ControlPlane) AddNamespace(ctx context.Context, prefix string) (string, error) {
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return "", err
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix}}
	ns, err = client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("add namespace: %w", err)
	}
	return ns.Name, c.waitServiceAccount(ctx, client, ns.Name)
}
