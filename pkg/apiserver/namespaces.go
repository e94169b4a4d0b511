package apiserver

import (
	"context"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/garboard-dev/garboard/pkg/packages"
)

// namespaces knows which namespaces show global packages. Safe for concurrent use.
type namespaces struct {
	global string
	kube   kubernetes.Interface
	// onChange is called after a namespace begins or ceases to show them.
	onChange func()

	mu   sync.RWMutex // guards sees
	sees map[string]bool
}

// follow takes up what the informer tells.
func (n *namespaces) follow(informer cache.SharedIndexInformer) error {
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { n.set(obj, false) },
		UpdateFunc: func(_, obj any) { n.set(obj, false) },
		DeleteFunc: func(obj any) { n.set(obj, true) },
	})
	return err
}

func (n *namespaces) set(obj any, gone bool) {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	ns, err := meta.Accessor(obj)
	if err != nil {
		return
	}
	n.mu.Lock()
	was, known := n.sees[ns.GetName()]
	now := !gone && packages.SeesGlobal(ns, n.global)
	if n.sees[ns.GetName()] = now; gone {
		delete(n.sees, ns.GetName())
	}
	n.mu.Unlock()
	if known && was != now {
		n.onChange()
	}
}

// shows says whether the namespace, "" for all, shows global packages. One that is
// not known yet is looked up.
func (n *namespaces) shows(ctx context.Context, namespace string) (bool, error) {
	if namespace == "" || n.global == "" {
		return false, nil
	}
	n.mu.RLock()
	sees, known := n.sees[namespace]
	n.mu.RUnlock()
	if known {
		return sees, nil
	}
	return n.showsNow(ctx, namespace)
}

// showsNow asks the API server.
func (n *namespaces) showsNow(ctx context.Context, namespace string) (bool, error) {
	ns, err := n.kube.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, apierrors.NewInternalError(err)
	}
	return packages.SeesGlobal(ns, n.global), nil
}

// still says whether nothing is known that contradicts an earlier answer of shows.
func (n *namespaces) still(namespace string, sees bool) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	now, known := n.sees[namespace]
	return !known || now == sees
}

func newNamespaces(kube kubernetes.Interface, global string, onChange func()) *namespaces {
	return &namespaces{global: global, kube: kube, onChange: onChange, sees: map[string]bool{}}
}
