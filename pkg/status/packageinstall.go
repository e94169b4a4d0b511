package status

import (
	"strings"
	"unicode/utf8"

	kappctrl "github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	packaging "github.com/garboard-dev/garboard/pkg/apis/packaging/v1alpha1"
)

// Install is what a reconcile of a PackageInstall came to.
type Install struct {
	// Generation is the one acted on.
	Generation int64
	// Deleting says that it is being deleted.
	Deleting bool
	// Failure ends the reconcile; empty is none.
	Failure string
	// Hidden says that the condition only points to usefulErrorMessage, which has
	// the whole Failure either way.
	Hidden bool
	// App is the PackageInstall's, as the reconcile left it; nil is none.
	App *kappctrl.App
	// Version is the one chosen, Attempted the one that the App was told to
	// deploy; empty keeps what is known.
	Version, Attempted string
	// Warnings replace those of before.
	Warnings []string
}

// ProjectPackageInstall returns the status of a PackageInstall that had the status
// old. What its App says counts only once the App has taken up its newest spec.
func ProjectPackageInstall(old packaging.PackageInstallStatus, in Install) packaging.PackageInstallStatus {
	s := *old.DeepCopy()
	s.ObservedGeneration, s.Warnings, s.UsefulErrorMessage = in.Generation, in.Warnings, ""
	if in.Version != "" {
		s.Version = in.Version
	}
	if in.Attempted != "" {
		s.LastAttemptedVersion = in.Attempted
	}
	failed, prefix, working, doing := kappctrl.ReconcileFailed, descFailed, kappctrl.Reconciling, descReconciling
	if in.Deleting {
		failed, prefix, working, doing = kappctrl.DeleteFailed, descDelFailed, kappctrl.Deleting, descDeleting
	}
	set := func(c kappctrl.ConditionType, message, friendly string) {
		setGeneric(&s.GenericStatus, c, message)
		s.FriendlyDescription = friendly
	}
	switch {
	case in.Failure != "" && !in.Hidden:
		set(failed, in.Failure, prefix+brief(in.Failure))
		s.UsefulErrorMessage = in.Failure
	case in.Failure != "":
		set(failed, seeUseful, prefix+seeUseful)
		s.UsefulErrorMessage = in.Failure
	case in.App == nil || in.App.Status.ObservedGeneration != in.App.Generation:
		set(working, "", doing)
	case Has(in.App.Status.GenericStatus, failed):
		set(failed, seeUseful, prefix+seeUseful)
		s.UsefulErrorMessage = in.App.Status.UsefulErrorMessage
	case in.Deleting:
		set(working, "", doing)
	case Has(in.App.Status.GenericStatus, kappctrl.ReconcileSucceeded):
		set(kappctrl.ReconcileSucceeded, "", descSucceeded)
	case paused(in.App):
		// A run that was cut short, or none at all: no condition, as nothing goes on.
		s.Conditions = nil
	default:
		set(working, "", doing)
	}
	if in.Failure == "" && !in.Deleting && in.App != nil && paused(in.App) {
		s.FriendlyDescription = descPaused
	}
	return s
}

// paused says that the App has taken notice of being paused or canceled.
func paused(app *kappctrl.App) bool {
	return app.Status.ObservedGeneration == app.Generation && (app.Spec.Paused || app.Spec.Canceled) &&
		app.Status.FriendlyDescription == descPaused
}

func setGeneric(s *kappctrl.GenericStatus, t kappctrl.ConditionType, message string) {
	s.Conditions = []kappctrl.Condition{{Type: t, Status: "True", Message: message}}
}

// maxBrief is how much of an error a column shows.
const maxBrief = 80

// brief returns an error's first line, at most maxBrief bytes of it.
func brief(text string) string {
	line, _, more := strings.Cut(text, "\n")
	if len(line) > maxBrief {
		end := maxBrief
		for end > 0 && !utf8.RuneStart(line[end]) {
			end--
		}
		line, more = line[:end], true
	}
	if more {
		line += "..."
	}
	return line
}

// FitPackageInstall returns s with its texts cut to about budget bytes in all.
// Everything is valid UTF-8 afterwards.
func FitPackageInstall(s packaging.PackageInstallStatus, budget int) packaging.PackageInstallStatus {
	s = *s.DeepCopy()
	short := []*string{&s.FriendlyDescription}
	for i := range s.Conditions {
		short = append(short, &s.Conditions[i].Message)
	}
	for i := range s.Warnings {
		short = append(short, &s.Warnings[i])
	}
	for _, p := range short {
		*p = head(strings.ToValidUTF8(*p, "\uFFFD"), min(maxMessage, budget/max(8, 2*len(short))))
	}
	s.UsefulErrorMessage = tail(strings.ToValidUTF8(s.UsefulErrorMessage, "\uFFFD"), budget/2)
	return s
}

// InstallTransition is Transition for a PackageInstall.
func InstallTransition(old, next packaging.PackageInstallStatus) (Event, bool) {
	return Transition(kappctrl.AppStatus{GenericStatus: old.GenericStatus}, kappctrl.AppStatus{GenericStatus: next.GenericStatus})
}
