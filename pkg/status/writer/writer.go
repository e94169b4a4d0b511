// Package writer stores statuses, and writes Events. It is the only code that writes a
// status subresource: one update without a read before it, none when nothing changed.
package writer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	packaging "github.com/garboard-dev/garboard/pkg/apis/packaging/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/status"
)

// ErrGone says that the object was deleted, or replaced by one of the same name.
var ErrGone = errors.New("the object is gone")

// Client is the part of a controller-runtime client that the writer needs. Get
// has to read from the API server: after a conflict a cache may be just as old.
type Client interface {
	Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error
	Status() client.SubResourceWriter
}

// Writer stores statuses. It is safe for concurrent use with different objects.
type Writer struct {
	Client Client
	// Budget bounds a status's texts in bytes; 0 means status.DefaultBudget.
	Budget int
}

// New returns a Writer that reads from live, which asks the API server, and writes
// through c.
func New(live client.Reader, c client.StatusClient) *Writer {
	return &Writer{Client: struct {
		client.Reader
		client.StatusClient
	}{live, c}}
}

// Last returns a context for the write that ends a run, which has to happen although
// the controller is being stopped.
func Last(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), lastTimeout)
}

// lastTimeout is within what a Pod has to stop.
const lastTimeout = 15 * time.Second

// leastBudget is for a status beside which there is hardly any room, because the
// rest of the object is nearly as large as the server takes: it holds the outcome
// and the beginning of the reason.
const leastBudget = 2 << 10

// App stores want as the status of app and returns the App as the API server
// then has it. It writes nothing if app has that status already. When someone
// else changed the App meanwhile, it reads it once and tries once more; a status
// that is too large for the server is cut further, twice at most. app is not
// changed.
func (w *Writer) App(ctx context.Context, app *v1alpha1.App, want v1alpha1.AppStatus) (*v1alpha1.App, error) {
	return store(ctx, w, app, &v1alpha1.App{}, func(base *v1alpha1.App, budget int) *v1alpha1.App {
		next := base.DeepCopy()
		next.Status = status.FitApp(want, budget)
		return next
	})
}

// Repository is App for PackageRepositories.
func (w *Writer) Repository(ctx context.Context, repo *packaging.PackageRepository, want packaging.PackageRepositoryStatus) (*packaging.PackageRepository, error) {
	return store(ctx, w, repo, &packaging.PackageRepository{}, func(base *packaging.PackageRepository, budget int) *packaging.PackageRepository {
		next := base.DeepCopy()
		next.Status = status.FitRepository(want, budget)
		return next
	})
}

// store writes the status that with gives a copy of obj, within a budget. fresh is
// an empty object to read into.
func store[T client.Object](ctx context.Context, w *Writer, obj, fresh T, with func(base T, budget int) T) (T, error) {
	budget := w.Budget
	if budget == 0 {
		budget = status.DefaultBudget
	}
	budgets := []int{budget, budget / 4, leastBudget}
	next := with(obj, budgets[0])
	if equality.Semantic.DeepEqual(obj, next) {
		return obj, nil
	}
	for base, read := obj, false; ; next = with(base, budgets[0]) {
		err := w.Client.Status().Update(ctx, next)
		switch {
		case err == nil:
			return next, nil
		case apierrors.IsConflict(err) && !read:
			read, base = true, fresh
			if err := w.Client.Get(ctx, client.ObjectKeyFromObject(obj), base); err != nil {
				return obj, gone(fmt.Errorf("read %s again after a conflict: %w", kindOf(obj), err))
			}
			if base.GetUID() != obj.GetUID() {
				return obj, ErrGone
			}
		case tooLarge(err) && len(budgets) > 1:
			budgets = budgets[1:]
		default:
			return obj, gone(fmt.Errorf("write status of %s %s/%s: %w", kindOf(obj), obj.GetNamespace(), obj.GetName(), err))
		}
	}
}

// kindOf returns the name of the object's type; typed clients do not fill in its kind.
func kindOf(obj client.Object) string {
	name := fmt.Sprintf("%T", obj)
	return name[strings.LastIndexByte(name, '.')+1:]
}

func gone(err error) error {
	if apierrors.IsNotFound(err) {
		return ErrGone
	}
	return err
}

// tooLarge covers the API server's own limit and etcd's, which has no status code.
func tooLarge(err error) bool {
	return apierrors.IsRequestEntityTooLargeError(err) || strings.Contains(err.Error(), "request is too large")
}
