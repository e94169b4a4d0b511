package packagerepository

import (
	"context"
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	packaging "github.com/garboard-dev/garboard/pkg/apis/packaging/v1alpha1"
)

// errOutdated ends a run that nobody needs any more: the next one follows at once.
var errOutdated = errors.New("the PackageRepository was changed or deleted meanwhile")

// running holds the runs that are going on, so that a watch event can end one: the
// repository was edited, paused, deleted or replaced.
type running struct {
	mu   sync.Mutex
	runs map[types.NamespacedName]run
}

type run struct {
	end        context.CancelCauseFunc
	uid        types.UID
	generation int64
	deleting   bool
}

// start returns a context for a run, which stop ends.
func (r *running) start(ctx context.Context, repo *packaging.PackageRepository) (_ context.Context, stop func()) {
	ctx, end := context.WithCancelCause(ctx)
	key := client.ObjectKeyFromObject(repo)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs[key] = run{end, repo.UID, repo.Generation, !repo.DeletionTimestamp.IsZero()}
	return ctx, func() {
		end(nil)
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.runs, key)
	}
}

// seen ends the run that is about another state than repo. A delete goes on: there
// is nothing that an edit could change about it.
func (r *running) seen(repo *packaging.PackageRepository) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, ok := r.runs[client.ObjectKeyFromObject(repo)]
	switch {
	case !ok:
	case now.uid != repo.UID, !now.deleting && (now.generation < repo.Generation || !repo.DeletionTimestamp.IsZero()):
		now.end(errOutdated)
	}
}

// gone ends the run of a repository that no longer exists.
func (r *running) gone(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now, ok := r.runs[key]; ok {
		now.end(errOutdated)
	}
}
