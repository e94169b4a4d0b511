// Package plan decides what a reconcile has to do. It sees values only: whoever
// calls it observes the cluster and the clock first, and acts afterwards.
package plan

import "time"

// Rung is how much work a reconcile does; a higher one includes more.
type Rung int

// The rungs, least work first.
const (
	// Nothing leaves the object and its status alone.
	Nothing Rung = iota
	// StatusOnly writes that the object is paused.
	StatusOnly
	// Full fetches, templates and deploys.
	Full
	// Delete removes what was deployed, then the finalizer.
	Delete
)

// String returns the rung's name for logs and metrics.
func (r Rung) String() string {
	switch r {
	case StatusOnly:
		return "StatusOnly"
	case Full:
		return "Full"
	case Delete:
		return "Delete"
	default:
		return "Nothing"
	}
}

// Bounds of the time between reconciles, as kapp-controller's users have them,
// except MaxBackoff: there, a failure under a long sync period waits for hours.
const (
	MinSyncPeriod = 30 * time.Second
	MaxBackoff    = 5 * time.Minute
	MaxJitter     = 5 * time.Second
	// MaxSpread bounds the time over which the runs are spread that are overdue when
	// the controller starts.
	MaxSpread = 5 * time.Minute
)

// State is what a reconcile saw.
type State struct {
	Now time.Time
	// Generation is the object's, ObservedGeneration the one its status is about.
	Generation, ObservedGeneration int64
	// Deleting says that the object has a deletion time, HasFinalizer that ours is set.
	Deleting, HasFinalizer bool
	// Paused covers spec.paused and spec.canceled.
	Paused bool
	// Reconciling says that the status claims a run in progress. As the caller
	// holds the object's key, that run was interrupted.
	Reconciling bool
	// Failed says that the latest run failed, Failures how many did in a row.
	Failed   bool
	Failures int
	// LastAttempt is when a stage last ended; zero means never.
	LastAttempt time.Time
	// SyncPeriod is the effective one, defaults applied.
	SyncPeriod time.Duration
	// RefsChanged says that a Secret or ConfigMap that the spec names changed
	// after the latest run read it.
	RefsChanged bool
	// Jitter in [0,1) spreads periodic runs over MaxJitter.
	Jitter float64
	// Since is when this controller started, if it has not run the object yet, else
	// zero. What it verified before is not stored, so LastAttempt may be old.
	Since time.Time
	// Spread in [0,1) is the object's own: its share of MaxSpread.
	Spread float64
}

// Decision is what to do, why, and when to look again.
type Decision struct {
	Rung   Rung
	Reason string
	// Wake is the time until the object is due, for Nothing; 0 means that only an
	// event can make it due. After other rungs the caller decides anew.
	Wake time.Duration
	// Routine says that nothing is known to have changed: the run only makes sure.
	Routine bool
}

// After returns when a controller looks at the object again; 0 means that only an
// event has it do so. Work that is due already, such as a Secret that changed during
// the run, comes next.
func (d Decision) After() time.Duration {
	if d.Rung == Full || d.Rung == Delete {
		return time.Millisecond
	}
	return d.Wake
}

// Decide returns what to do for a state. Deletion comes before everything else,
// pausing before every reason to run.
func Decide(s State) Decision {
	switch {
	case s.Deleting && !s.HasFinalizer:
		return Decision{Rung: Nothing, Reason: "Deleted"}
	case s.Deleting:
		return decideDelete(s)
	case s.Paused:
		return Decision{Rung: StatusOnly, Reason: "Paused"}
	case s.ObservedGeneration != s.Generation:
		return Decision{Rung: Full, Reason: "NewGeneration"}
	case s.RefsChanged:
		return Decision{Rung: Full, Reason: "ReferencesChanged"}
	case s.Reconciling:
		return Decision{Rung: Full, Reason: "Interrupted"}
	case s.LastAttempt.IsZero():
		return Decision{Rung: Full, Reason: "NeverRun"}
	}
	reason := "SyncPeriod"
	if s.Failed {
		reason = "Retry"
	}
	return due(s, Full, reason)
}

// decideDelete retries a failed delete with back-off; a new generation, which
// an edit makes, ends the wait.
func decideDelete(s State) Decision {
	if s.Failed && s.ObservedGeneration == s.Generation && !s.LastAttempt.IsZero() && !s.RefsChanged {
		return due(s, Delete, "RetryDelete")
	}
	return Decision{Rung: Delete, Reason: "Deleting"}
}

// due returns rung if the time since the latest attempt is over, else how long
// it still takes.
func due(s State, rung Rung, reason string) Decision {
	period, jitter := s.SyncPeriod, time.Duration(s.Jitter*float64(MaxJitter))
	if s.Failed {
		period, jitter = Backoff(s.Failures, s.SyncPeriod), 0
	}
	at := s.LastAttempt.Add(period)
	if !s.Failed && !s.Since.IsZero() {
		// All at once would be overdue after a restart.
		at = later(at, s.Since.Add(time.Duration(s.Spread*float64(min(period, MaxSpread)))))
	}
	left := at.Sub(s.Now)
	switch {
	case left <= 0:
		return Decision{Rung: rung, Reason: reason, Routine: !s.Failed}
	case left > period:
		// The latest attempt lies in the future: the clock was set back. Count
		// from now, so that a wrong clock cannot stop an object for long.
		left = period
	}
	return Decision{Rung: Nothing, Reason: "NotDue", Wake: left + jitter}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Backoff returns the wait after n failures in a row: 2^n seconds, at most the
// sync period and MaxBackoff.
func Backoff(n int, syncPeriod time.Duration) time.Duration {
	limit := min(syncPeriod, MaxBackoff)
	if n <= 0 || n >= 30 {
		return limit
	}
	return min(time.Second<<n, limit)
}

// SyncPeriod returns the effective period: the object's own, else the default,
// raised to the minimum, which is never below MinSyncPeriod.
func SyncPeriod(own *time.Duration, byDefault, minimum time.Duration) time.Duration {
	period := byDefault
	if own != nil {
		period = *own
	}
	return max(period, minimum, MinSyncPeriod)
}
