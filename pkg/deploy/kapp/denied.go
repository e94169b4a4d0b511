package kapp

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

// deniedFor is how long a refusal to list over all namespaces holds. kapp then
// lists in the namespaces that it knows the App to use, so a right that was given
// since is missed only for objects that it never deployed.
const deniedFor = 10 * time.Minute

// denied remembers what the identity of a target may not list over all
// namespaces. Identities that are bound to a namespace are the rule, and kapp
// would ask for each kind in each run.
type denied struct {
	mu    sync.Mutex // guards kinds
	kinds map[string]refused
}

type refused struct {
	err error
	at  time.Time
}

// list calls ask unless the same was refused not long ago.
func (d *denied) list(what string, ask func() error) error {
	d.mu.Lock()
	r, ok := d.kinds[what]
	d.mu.Unlock()
	if ok && time.Since(r.at) < deniedFor {
		return r.err
	}
	err := ask()
	// The fence answers Forbidden too, in a run that is over anyway.
	if apierrors.IsForbidden(err) && !isRefusal(err) {
		d.mu.Lock()
		if d.kinds == nil {
			d.kinds = map[string]refused{}
		}
		d.kinds[what] = refused{err, time.Now()}
		d.mu.Unlock()
	}
	return err
}

// namespaces is a client for namespaces that knows when it may not list them.
type namespaces struct {
	corev1client.NamespaceInterface
	denied *denied
}

func (n *namespaces) List(ctx context.Context, opts metav1.ListOptions) (*corev1.NamespaceList, error) {
	var list *corev1.NamespaceList
	err := n.denied.list("namespaces", func() (err error) {
		list, err = n.NamespaceInterface.List(ctx, opts)
		return err
	})
	return list, err
}
