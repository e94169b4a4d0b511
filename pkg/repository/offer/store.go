// Package offer carries out what package repository decides: it makes what a
// PackageRepository holds available in its namespace, and withdraws it.
package offer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	stored "github.com/garboard-dev/garboard/pkg/apis/internalpackaging/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/repository"
)

// Store reads and writes what is offered. It is safe for concurrent use.
type Store struct {
	// Client reads from a cache and writes to the API server, Live reads from the API
	// server.
	Client client.Client
	Live   client.Reader
	// Writers is how many requests one call of Apply makes at a time.
	Writers int
}

// tries bounds how often one object is decided anew because somebody else changed
// it in between.
const tries = 4

// Version is a state of an object.
type Version struct{ UID, ResourceVersion string }

// Versions are the objects that a repository saw or wrote, each in the state in
// which it left it. nil knows nothing.
type Versions map[repository.Key]Version

// Report says what came of changes. The zero value is ready.
type Report struct {
	// Counts has the number of objects for each action that was carried out.
	Counts map[repository.Action]int
	// Conflicts are the changes that another repository's object kept from happening.
	Conflicts []repository.Change
	// Failures are the objects that could not be written.
	Failures []repository.Problem
	// Versions are the objects afterwards; nil if not all of them are as they are to
	// be, so that the next run does not take them for that.
	Versions Versions
}

// Changed says whether anything was written.
func (r Report) Changed() bool {
	return r.Counts[repository.Create]+r.Counts[repository.Update]+r.Counts[repository.Delete] > 0
}

// Cached returns what the namespace offers as the cache has it, and whether the
// cache is at least as new as known. The objects are the cache's own.
func (s *Store) Cached(ctx context.Context, namespace string, known Versions) (objs []repository.Object, fresh bool, err error) {
	objs, err = list(ctx, s.Client, namespace, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, false, err
	}
	have := versionsOf(objs)
	for key, v := range known {
		if is, ok := have[key]; !ok || older(is, v) {
			return objs, false, nil
		}
	}
	return objs, true, nil
}

// older says whether a state is older than another one of the same object.
func older(a, b Version) bool {
	x, errX := strconv.ParseUint(a.ResourceVersion, 10, 64)
	y, errY := strconv.ParseUint(b.ResourceVersion, 10, 64)
	return errors.Join(errX, errY) == nil && x < y
}

// Unchanged says that everything in known is in the cache in the same state.
func (s *Store) Unchanged(ctx context.Context, namespace string, known Versions) (bool, error) {
	objs, fresh, err := s.Cached(ctx, namespace, known)
	if err != nil || !fresh || known == nil {
		return false, err
	}
	have := versionsOf(objs)
	for key, v := range known {
		if have[key] != v {
			return false, nil
		}
	}
	return true, nil
}

func versionsOf(objs []repository.Object) Versions {
	out := make(Versions, len(objs))
	for _, o := range objs {
		out[o.Key] = versionOf(o)
	}
	return out
}

func versionOf(o repository.Object) Version {
	return Version{string(o.GetUID()), o.GetResourceVersion()}
}

// Current returns what the namespace offers, from the cache if that is as new as
// known, else from the API server.
func (s *Store) Current(ctx context.Context, namespace string, known Versions) ([]repository.Object, error) {
	objs, fresh, err := s.Cached(ctx, namespace, known)
	if err != nil || fresh {
		return objs, err
	}
	return list(ctx, s.Live, namespace)
}

func list(ctx context.Context, from client.Reader, namespace string, opts ...client.ListOption) ([]repository.Object, error) {
	opts = append(opts, client.InNamespace(namespace))
	var packages stored.InternalPackageList
	if err := from.List(ctx, &packages, opts...); err != nil {
		return nil, fmt.Errorf("Listing packages: %w", err)
	}
	var metadata stored.InternalPackageMetadataList
	if err := from.List(ctx, &metadata, opts...); err != nil {
		return nil, fmt.Errorf("Listing package metadata: %w", err)
	}
	out := make([]repository.Object, 0, len(packages.Items)+len(metadata.Items))
	for i := range packages.Items {
		// One with a name that no Package has is not what a repository stored.
		if o, err := repository.OfPackage(&packages.Items[i]); err == nil {
			out = append(out, o)
		}
	}
	for i := range metadata.Items {
		out = append(out, repository.OfMetadata(&metadata.Items[i]))
	}
	return out, nil
}

// Apply carries out the changes, several at a time. What fails is in the report;
// the others are carried out. It ends early when ctx does.
func (s *Store) Apply(ctx context.Context, owner repository.Owner, changes []repository.Change) Report {
	a := applying{Store: s, owner: owner, report: Report{Counts: map[repository.Action]int{}, Versions: Versions{}}}
	var wg sync.WaitGroup
	work := make(chan repository.Change)
	for range max(1, min(s.Writers, len(changes))) {
		wg.Go(func() {
			for c := range work {
				a.apply(ctx, c)
			}
		})
	}
	for _, c := range changes {
		if ctx.Err() != nil {
			break
		}
		if written(c.Action) {
			work <- c
		} else {
			a.done(c, nil)
		}
	}
	close(work)
	wg.Wait()
	slices.SortFunc(a.report.Conflicts, func(x, y repository.Change) int { return cmp.Compare(x.Key().String(), y.Key().String()) })
	slices.SortFunc(a.report.Failures, func(x, y repository.Problem) int { return cmp.Compare(x.Key.String(), y.Key.String()) })
	if len(a.report.Failures) > 0 || ctx.Err() != nil {
		a.report.Versions = nil
	}
	return a.report
}

func written(a repository.Action) bool {
	return a == repository.Create || a == repository.Update || a == repository.Delete
}

// applying is one call of Apply.
type applying struct {
	*Store
	owner repository.Owner

	mu     sync.Mutex // guards report
	report Report
}

// apply carries out one change. If the object is not what it was when that was
// decided, it is decided again.
func (a *applying) apply(ctx context.Context, c repository.Change) {
	defer func() {
		// One bad object must not end the controller.
		if r := recover(); r != nil {
			logr.FromContextOrDiscard(ctx).Error(fmt.Errorf("panic: %v", r), "Contained a panic", "object", c.Key().String(), "stack", string(debug.Stack()))
			a.done(c, errors.New("internal error (this is a fault of the controller: its log has the details)"))
		}
	}()
	for n := 0; ; n++ {
		next, err := a.write(ctx, c)
		moved := apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) || apierrors.IsNotFound(err)
		if !moved || n == tries || ctx.Err() != nil {
			a.done(next, err)
			return
		}
		if c, err = a.again(ctx, c); err != nil || !written(c.Action) {
			a.done(c, err)
			return
		}
	}
}

// write sends one request and returns the change with what the API server answered.
func (a *applying) write(ctx context.Context, c repository.Change) (repository.Change, error) {
	switch c.Action {
	case repository.Create:
		next := c.Next.With(repository.Object{Stored: &stored.InternalPackage{}})
		err := a.Client.Create(ctx, next.Stored)
		c.Next = next
		return c, err
	case repository.Update:
		next := c.Next.With(c.Existing)
		err := a.Client.Update(ctx, next.Stored)
		c.Next = next
		return c, err
	default:
		uid, version := c.Existing.GetUID(), c.Existing.GetResourceVersion()
		// No other repository's: one that took it over meanwhile changed it.
		return c, a.Client.Delete(ctx, c.Existing.Stored, client.Preconditions(metav1.Preconditions{UID: &uid, ResourceVersion: &version}))
	}
}

// again reads the object from the API server and decides anew.
func (a *applying) again(ctx context.Context, c repository.Change) (repository.Change, error) {
	existing, err := a.read(ctx, c)
	gone := apierrors.IsNotFound(err)
	if err != nil && !gone {
		return c, err
	}
	switch {
	case gone && c.Action == repository.Delete:
		return repository.Change{Action: repository.Keep}, nil
	case gone:
		return repository.Change{Action: repository.Create, Next: c.Next}, nil
	case c.Action == repository.Delete && a.owner.Owns(existing):
		return repository.Change{Action: repository.Delete, Existing: existing}, nil
	case c.Action == repository.Delete:
		return repository.Change{Action: repository.Keep}, nil
	}
	c.Existing = existing
	c.Action, c.Reason = repository.Decide(existing, c.Next)
	return c, nil
}

func (a *applying) read(ctx context.Context, c repository.Change) (repository.Object, error) {
	o := c.Next
	if o.Stored == nil {
		o = c.Existing
	}
	name := client.ObjectKey{Namespace: a.owner.Namespace, Name: o.GetName()}
	if o.Kind == repository.Metadata {
		m := &stored.InternalPackageMetadata{}
		err := a.Live.Get(ctx, name, m)
		return repository.OfMetadata(m), err
	}
	p := &stored.InternalPackage{}
	if err := a.Live.Get(ctx, name, p); err != nil {
		return repository.Object{}, err
	}
	return repository.OfPackage(p)
}

// done notes what came of a change.
func (a *applying) done(c repository.Change, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		a.report.Failures = append(a.report.Failures, repository.Problem{Key: c.Key(), Reason: err.Error()})
		return
	}
	a.report.Counts[c.Action]++
	switch c.Action {
	case repository.Create, repository.Update:
		a.report.Versions[c.Next.Key] = versionOf(c.Next)
	case repository.Conflict:
		a.report.Conflicts = append(a.report.Conflicts, c)
		a.report.Versions[c.Existing.Key] = versionOf(c.Existing)
	case repository.Keep, repository.Leave:
		if c.Existing.Stored != nil {
			a.report.Versions[c.Existing.Key] = versionOf(c.Existing)
		}
	case repository.Delete:
	}
}
