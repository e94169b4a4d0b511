package packageinstall

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	data "github.com/garboard-dev/garboard/pkg/apis/datapackaging/v1alpha1"
	kappctrl "github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	packaging "github.com/garboard-dev/garboard/pkg/apis/packaging/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/resolve"
	"github.com/garboard-dev/garboard/pkg/status"
)

// state is everything that a decision is made on.
type state struct {
	pkgi *packaging.PackageInstall
	// app has the PackageInstall's name; nil is none.
	app *kappctrl.App
	// versions are those of the Package that the namespace sees.
	versions []*data.Package
	// refNames are those of all Packages that it sees; known only if there are no
	// versions.
	refNames []string
	// kubernetes and controller are versions; kubernetesErr says why the first,
	// although needed, is not known.
	kubernetes, controller string
	kubernetesErr          error
	// syncPeriod is the default.
	syncPeriod time.Duration
}

// decision is what is to be done, and what it comes to.
type decision struct {
	// outcome has Failure, Hidden, Version, Attempted and Warnings set.
	outcome status.Install
	// app is what the App has to be; nil leaves it as it is.
	app *kappctrl.App
	// placeholders are Secrets that have to exist before.
	placeholders []string
	// pkg is what is installed; nil when it is not known.
	pkg *data.Package
	// final says that time does not change a failure, only an edit or another Package.
	final bool
}

func fail(format string, args ...any) decision {
	return decision{outcome: status.Install{Failure: fmt.Sprintf(format, args...)}}
}

// request is the choice of a version that the state asks for.
func (s state) request() resolve.Request {
	r := resolve.Request{Kubernetes: s.kubernetes, Controller: s.controller}
	_, r.IgnoreKubernetes = s.pkgi.Annotations[ignoreKubernetesAnnotation]
	_, r.IgnoreController = s.pkgi.Annotations[ignoreControllerAnnotation]
	if ref := s.pkgi.Spec.PackageRef; ref != nil {
		r.Selection = ref.VersionSelection
	}
	for _, p := range s.versions {
		c := resolve.Candidate{Version: p.Spec.Version}
		if k := p.Spec.KubernetesVersionSelection; k != nil {
			c.Kubernetes = k.Constraints
		}
		if k := p.Spec.KappControllerVersionSelection; k != nil {
			c.Controller = k.Constraints
		}
		r.Candidates = append(r.Candidates, c)
	}
	return r
}

// decide says what installs the right version.
func decide(s state) decision {
	if problem := invalid(s.pkgi); problem != "" {
		d := fail("%s", problem)
		d.final = true
		return d
	}
	if s.kubernetesErr != nil {
		return fail("Unable to get kubernetes version: %v", s.kubernetesErr)
	}
	chosen, err := resolve.Choose(s.request())
	if err != nil {
		if s.vanished() {
			return s.keep("")
		}
		return fail("%s", s.explain(err))
	}
	last := s.pkgi.Status.LastAttemptedVersion
	if _, allowed := s.pkgi.Annotations[downgradableAnnotation]; !allowed {
		if stopped := resolve.Downgrade(chosen, last); stopped != "" {
			if s.vanished() {
				return s.keep(chosen)
			}
			return decision{outcome: status.Install{Failure: stopped, Hidden: true, Version: chosen}, final: true}
		}
	}
	d := s.install(chosen)
	d.outcome.Version = chosen
	d.outcome.Warnings = append(ignored(s.pkgi), d.outcome.Warnings...)
	return d
}

// invalid says what is wrong with the PackageInstall itself.
func invalid(pkgi *packaging.PackageInstall) string {
	var errs field.ErrorList
	for i, v := range pkgi.Spec.Values {
		at := field.NewPath("spec", "values").Index(i).Child("secretRef")
		switch {
		case v.SecretRef == nil:
			errs = append(errs, field.Required(at, ""))
		case v.SecretRef.Name == "":
			errs = append(errs, field.Required(at.Child("name"), ""))
		}
	}
	switch {
	case len(errs) > 0:
		return "Invalid fields: " + errs.ToAggregate().Error()
	case pkgi.Spec.PackageRef == nil:
		return "Expected non nil PackageRef"
	case pkgi.Spec.PackageRef.VersionSelection == nil:
		return "Expected non-empty version selection"
	}
	return ""
}

// ignored tells about what is accepted and has no effect.
func ignored(pkgi *packaging.PackageInstall) (warnings []string) {
	for i, v := range pkgi.Spec.Values {
		if v.SecretRef.Key != "" {
			warnings = append(warnings, fmt.Sprintf("spec.values[%d].secretRef.key is not used: every key of Secret '%s' is a values file", i, v.SecretRef.Name))
		}
	}
	return warnings
}

// explain adds to an error of the choice what may be meant instead.
func (s state) explain(err error) string {
	name := s.pkgi.Spec.PackageRef.RefName
	switch {
	case len(s.versions) > 0:
		return err.Error()
	case len(s.refNames) == 0:
		return fmt.Sprintf("Package %s not found", name)
	}
	text := fmt.Sprintf("%v\n- no Package '%s' in this namespace, nor a global one", err, name)
	if similar := resolve.Similar(name, s.refNames); len(similar) > 0 {
		text += fmt.Sprintf(" (hint: did you mean '%s'?)", strings.Join(similar, "' or '"))
	}
	return text
}

// install makes the App install the chosen version.
func (s state) install(chosen string) decision {
	var pkg *data.Package
	for _, p := range s.versions {
		if p.Spec.Version == chosen {
			pkg = p // as in the choice, the last one wins
		}
	}
	if pkg == nil || pkg.Spec.Template.Spec == nil {
		return fail("Package %s.%s has no template.spec, so there is nothing to install", s.pkgi.Spec.PackageRef.RefName, chosen)
	}
	d := decision{pkg: pkg, outcome: status.Install{Attempted: chosen}}
	if len(s.pkgi.Spec.Values) > 0 && valuesStep(pkg.Spec.Template.Spec.Template) < 0 {
		d.outcome.Warnings = []string{"spec.values are not used: the Package has no ytt and no helmTemplate step"}
	}
	if s.app != nil {
		if _, manual := s.app.Annotations[manuallyControlledAnnotation]; manual {
			return d
		}
		if owner := metav1.GetControllerOf(s.app); owner != nil && owner.UID != s.pkgi.UID {
			d.outcome.Failure = alreadyOwned(s.app, owner)
			return d
		}
	}
	d.app, d.placeholders = makeApp(s.app, s.pkgi, pkg, s.syncPeriod)
	return d
}

func alreadyOwned(app *kappctrl.App, owner *metav1.OwnerReference) string {
	return fmt.Sprintf("Object %s/%s is already owned by another %s controller %s", app.Namespace, app.Name, owner.Kind, owner.Name)
}

// vanished says that the installed version is not offered any more, although the
// user has not changed his mind: his selection still lets it in.
func (s state) vanished() bool {
	last, ref := s.pkgi.Status.LastAttemptedVersion, s.pkgi.Spec.PackageRef
	return last != "" && s.app != nil && controls(s.pkgi, s.app) &&
		s.app.Annotations[refNameAnnotation] == ref.RefName && s.app.Annotations[versionAnnotation] == last &&
		resolve.Accepts(ref.VersionSelection, last) &&
		!slices.ContainsFunc(s.versions, func(p *data.Package) bool { return p.Spec.Version == last })
}

func controls(pkgi *packaging.PackageInstall, app *kappctrl.App) bool {
	owner := metav1.GetControllerOf(app)
	return owner != nil && owner.UID == pkgi.UID
}

// keep leaves the App at a version whose Package is gone. Flags still reach it;
// for other changes the Package would be needed. lower is the highest version that
// is offered instead, if any.
func (s state) keep(lower string) decision {
	last := s.pkgi.Status.LastAttemptedVersion
	gone := fmt.Sprintf("Version '%s' of Package '%s' is not offered any more", last, s.pkgi.Spec.PackageRef.RefName)
	if !s.reflectsInstall() {
		return decision{outcome: status.Install{
			Version: last,
			Failure: gone + ". What is installed stays, but changes of values or annotations need the Package " +
				"(hint: offer that version again, or choose another; for a lower one add annotation " + downgradableAnnotation + ": \"\")",
		}}
	}
	text := gone + "; it stays installed"
	if lower != "" {
		text += fmt.Sprintf(" (the highest that is offered: '%s')", lower)
	}
	d := decision{outcome: status.Install{Version: last, Warnings: append(ignored(s.pkgi), text)}}
	if _, manual := s.app.Annotations[manuallyControlledAnnotation]; !manual {
		d.app = s.app.DeepCopy()
		setFlags(d.app, s.pkgi, s.syncPeriod)
	}
	return d
}

// reflectsInstall says whether values and annotations are in the App as the
// PackageInstall has them now.
func (s state) reflectsInstall() bool {
	bare := s.app.Spec.DeepCopy()
	if i := firstHelm(bare.Template); i >= 0 {
		bare.Template[i].HelmTemplate.ValuesFrom = withoutSecrets(bare.Template[i].HelmTemplate.ValuesFrom)
	}
	if i := firstYtt(bare.Template); i >= 0 {
		y := bare.Template[i].Ytt
		y.ValuesFrom = withoutSecrets(y.ValuesFrom)
		if y.Inline != nil {
			y.Inline.PathsFrom = slices.DeleteFunc(y.Inline.PathsFrom, func(f kappctrl.AppFetchInlineSource) bool { return f.SecretRef != nil })
		}
	}
	pkg := &data.Package{}
	pkg.Spec.Template.Spec = bare
	again, _ := makeApp(s.app, s.pkgi, pkg, s.syncPeriod)
	return equality.Semantic.DeepEqual(again.Spec.Template, s.app.Spec.Template) && equality.Semantic.DeepEqual(again.Spec.Fetch, s.app.Spec.Fetch)
}

func withoutSecrets(list []kappctrl.AppTemplateValuesSource) []kappctrl.AppTemplateValuesSource {
	return slices.DeleteFunc(list, func(v kappctrl.AppTemplateValuesSource) bool { return v.SecretRef != nil })
}
