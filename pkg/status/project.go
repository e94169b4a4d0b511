package status

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
)

// Outcome is what one reconcile did so far. It grows while the reconcile runs;
// each of its states can be projected. A nil stage was not reached.
type Outcome struct {
	// Generation is the one acted on.
	Generation int64
	// Deleting says that the deploy stage is a delete.
	Deleting bool
	// Paused says that nothing ran because the spec says so.
	Paused bool

	Fetch, Template, Deploy, Inspect *Stage
	// Running says that the deploy stage has not ended: its output is partial.
	// Applying says that it has begun to change the cluster.
	Running, Applying bool
	// Kapp is what kapp recorded in this reconcile; nil keeps what is known.
	Kapp *v1alpha1.KappDeployStatus
	// Err is a failure outside the stages, such as no work folder; it ends the reconcile.
	Err string
	// Done says that the reconcile ended, well or not.
	Done bool
}

// Failure returns the stage that failed, or one made of Err, or nil.
func (o Outcome) Failure() *Stage {
	for _, s := range []*Stage{o.Fetch, o.Template, o.Deploy} {
		if s != nil && s.Failed() && (s != o.Deploy || !o.Running) {
			return s
		}
	}
	if o.Err != "" {
		return &Stage{Err: o.Err, ExitCode: -1}
	}
	return nil
}

// Summary is the outcome for the log: the error, or that there is none.
func (o Outcome) Summary() string {
	if f := o.Failure(); f != nil {
		return f.Err
	}
	return "succeeded"
}

// Texts that clients match on.
const (
	descReconciling = "Reconciling"
	descSucceeded   = "Reconcile succeeded"
	descFailed      = "Reconcile failed: "
	descDeleting    = "Deleting"
	descDelFailed   = "Delete failed: "
	descPaused      = "Canceled/paused"
)

// interrupted is the error of a deploy whose run was ended for another one.
const interrupted = "Deploying: Interrupted"

// ProjectApp returns the status of an App that had the status old when the
// reconcile began and for which o happened since. A stage that o did not reach
// keeps its old outcome; conditions, counters and texts follow what happened.
func ProjectApp(old v1alpha1.AppStatus, o Outcome) v1alpha1.AppStatus {
	s := *old.DeepCopy()
	stale := s.ObservedGeneration != o.Generation
	s.ObservedGeneration = o.Generation
	if d := s.Deploy; d != nil && !d.Finished {
		// The run that it was about was cut off: nobody else will say so.
		d.Finished, d.ExitCode, d.Error = true, -1, interrupted
	}
	if o.Paused {
		s.FriendlyDescription = descPaused
		return s
	}
	if stale {
		// The message is about a spec that is gone: a reader would take it for
		// this one's.
		s.UsefulErrorMessage = ""
	}
	projectStages(&s, o)
	failure := o.Failure()
	switch {
	case !o.Done && o.Deleting:
		setCondition(&s, v1alpha1.Deleting, "")
		s.FriendlyDescription = descDeleting
	case !o.Done:
		setCondition(&s, v1alpha1.Reconciling, "")
		s.FriendlyDescription = descReconciling
	case failure == nil && o.Deleting:
		// The finalizer goes next; until then the object is still being deleted.
		setCondition(&s, v1alpha1.Deleting, "")
		s.FriendlyDescription, s.UsefulErrorMessage = descDeleting, ""
	case failure == nil:
		setCondition(&s, v1alpha1.ReconcileSucceeded, "")
		s.FriendlyDescription, s.UsefulErrorMessage = descSucceeded, ""
		s.ConsecutiveReconcileSuccesses++
		s.ConsecutiveReconcileFailures = 0
	default:
		kind, desc := v1alpha1.ReconcileFailed, descFailed
		if o.Deleting {
			kind, desc = v1alpha1.DeleteFailed, descDelFailed
		}
		setCondition(&s, kind, failure.Err)
		s.FriendlyDescription, s.UsefulErrorMessage = desc+failure.Err, failure.Useful()
		s.ConsecutiveReconcileFailures++
		s.ConsecutiveReconcileSuccesses = 0
	}
	return s
}

func setCondition(s *v1alpha1.AppStatus, t v1alpha1.ConditionType, message string) {
	s.Conditions = []v1alpha1.Condition{{Type: t, Status: corev1.ConditionTrue, Message: message}}
}

func projectStages(s *v1alpha1.AppStatus, o Outcome) {
	if f := o.Fetch; f != nil {
		s.Fetch = &v1alpha1.AppStatusFetch{
			Stdout: f.Stdout, Stderr: f.Stderr, ExitCode: f.ExitCode, Error: f.Err,
			StartedAt: stamp(f.StartedAt), UpdatedAt: stamp(f.EndedAt),
		}
	}
	if t := o.Template; t != nil {
		s.Template = &v1alpha1.AppStatusTemplate{Stderr: t.Stderr, ExitCode: t.ExitCode, Error: t.Err, UpdatedAt: stamp(t.EndedAt)}
	}
	if d := o.Deploy; d != nil {
		deploy := &v1alpha1.AppStatusDeploy{
			Stdout: d.Stdout, Stderr: d.Stderr, StartedAt: stamp(d.StartedAt), UpdatedAt: stamp(d.EndedAt),
			KappDeployStatus: o.Kapp,
		}
		if !o.Running {
			deploy.Finished, deploy.ExitCode, deploy.Error = true, d.ExitCode, d.Err
		}
		if deploy.KappDeployStatus == nil && s.Deploy != nil {
			deploy.KappDeployStatus = s.Deploy.KappDeployStatus
		}
		s.Deploy = deploy
	}
	if !o.Done || o.Deleting {
		return
	}
	// What an earlier spec asked to inspect must not be taken for this one's.
	s.Inspect = nil
	if i := o.Inspect; i != nil {
		s.Inspect = &v1alpha1.AppStatusInspect{Stdout: i.Stdout, Stderr: i.Stderr, ExitCode: i.ExitCode, Error: i.Err, UpdatedAt: stamp(i.EndedAt)}
	}
}

// stamp cuts to seconds, which is what the wire keeps: without that a status
// read back would differ from the one written.
func stamp(t time.Time) metav1.Time {
	if t.IsZero() {
		return metav1.Time{}
	}
	return metav1.NewTime(t.UTC().Truncate(time.Second))
}

// LastAttempt returns when a stage of an App last ended; zero means never.
func LastAttempt(s v1alpha1.AppStatus) time.Time {
	var last time.Time
	later := func(t metav1.Time) {
		if t.After(last) {
			last = t.Time
		}
	}
	if s.Fetch != nil {
		later(s.Fetch.UpdatedAt)
	}
	if s.Template != nil {
		later(s.Template.UpdatedAt)
	}
	if s.Deploy != nil {
		later(s.Deploy.UpdatedAt)
	}
	return last
}

// Has says whether the status has the condition.
func Has(s v1alpha1.GenericStatus, t v1alpha1.ConditionType) bool {
	for _, c := range s.Conditions {
		if c.Type == t && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}
