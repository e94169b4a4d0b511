package packages

import (
	"fmt"
	"strings"

	"github.com/carvel-dev/semver/v4"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	data "github.com/garboard-dev/garboard/pkg/apis/datapackaging/v1alpha1"
)

// ValidatePackage returns everything that is wrong with a Package; the schema of the
// store checks the shape of its template.
func ValidatePackage(p *data.Package) field.ErrorList {
	spec, name := field.NewPath("spec"), field.NewPath("metadata", "name")
	errs := validateRefName(p.Spec.RefName, spec.Child("refName"))
	errs = append(errs, validateVersion(p.Spec.Version, spec.Child("version"))...)
	if p.Name != p.Spec.RefName+"."+p.Spec.Version {
		errs = append(errs, field.Invalid(name, p.Name, "must be <spec.refName> + '.' + <spec.version>"))
	} else if n := len(p.Name); n > MaxNameLength {
		errs = append(errs, field.Invalid(name, p.Name, fmt.Sprintf(
			"has %d bytes, more than the %d that can be stored: use a shorter <spec.refName> or <spec.version>", n, MaxNameLength)))
	}
	errs = append(errs, validateRange(p.Spec.KappControllerVersionSelection, spec.Child("kappControllerVersionSelection", "constraints"))...)
	return append(errs, validateRange(p.Spec.KubernetesVersionSelection, spec.Child("kubernetesVersionSelection", "constraints"))...)
}

// ValidateMetadata returns everything that is wrong with a PackageMetadata.
func ValidateMetadata(m *data.PackageMetadata) field.ErrorList {
	return validation.IsFullyQualifiedName(field.NewPath("metadata", "name"), m.Name)
}

func validateRefName(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "can not be empty")}
	}
	return validation.IsFullyQualifiedName(path, name)
}

func validateVersion(version string, path *field.Path) field.ErrorList {
	if version == "" {
		return field.ErrorList{field.Required(path, "cannot be empty")}
	}
	if _, err := semver.Parse(version); err != nil {
		return field.ErrorList{field.Invalid(path, version, fmt.Sprintf("must be valid semver: %v", err))}
	}
	return nil
}

func validateRange(s *data.VersionSelection, path *field.Path) field.ErrorList {
	if s == nil {
		return nil
	}
	if _, err := semver.ParseRange(s.Constraints); err != nil {
		return field.ErrorList{field.Invalid(path, s.Constraints, err.Error())}
	}
	// The parser takes alternatives without a version and makes a range of them that
	// panics when it is used.
	for alternative := range strings.SplitSeq(s.Constraints, "||") {
		if fits, err := semver.ParseRange(alternative); err != nil || fits == nil {
			return field.ErrorList{field.Invalid(path, s.Constraints, fmt.Sprintf("the alternative %q has no version", alternative))}
		}
	}
	return nil
}
