package fetch

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
	"unicode"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/tool/localpath"
)

// validate checks everything that ends up as a path or as an argument of git or
// helm, which vendir passes on as it is. Errors begin with the source's index.
func validate(sources []v1alpha1.AppFetch) error {
	if len(sources) == 0 {
		return errors.New("Expected at least one fetch option")
	}
	for i, src := range sources {
		err := validateSource(src)
		if err == nil {
			err = validatePath(i, sources)
		}
		if err != nil {
			return fmt.Errorf("Fetching (%d): %w", i, err)
		}
	}
	return nil
}

// validatePath checks where source i is to land. vendir removes what is there
// first, so a path outside would reach other files of this run.
func validatePath(i int, sources []v1alpha1.AppFetch) error {
	p := sources[i].Path
	if p != "" {
		clean, err := localpath.Join(p)
		if err != nil || strings.HasPrefix(p, "/") || clean == "." {
			return fmt.Errorf("Invalid path: %q (hint: a relative path inside the fetched root is expected)", p)
		}
		if strings.HasPrefix(clean, ".vendir-tmp") {
			return fmt.Errorf("Invalid path: %q (hint: vendir works in folders of that name)", p)
		}
	}
	mine := folder(i, sources[i]) + "/"
	for j := range i {
		other := folder(j, sources[j]) + "/"
		if strings.HasPrefix(mine, other) || strings.HasPrefix(other, mine) {
			return fmt.Errorf("Expected paths of sources not to overlap, but '%s' overlaps with '%s' of source %d", path.Clean(mine), path.Clean(other), j)
		}
	}
	return nil
}

func validateSource(src v1alpha1.AppFetch) error {
	switch {
	case src.Inline != nil:
		return nil // its paths are checked together with what it names
	case src.Image != nil:
		return subPath(src.Image.SubPath)
	case src.HTTP != nil:
		if err := subPath(src.HTTP.SubPath); err != nil {
			return err
		}
		return address("url", src.HTTP.URL, "http", "https")
	case src.Git != nil:
		return validateGit(*src.Git)
	case src.HelmChart != nil:
		return validateHelm(*src.HelmChart)
	case src.ImgpkgBundle != nil:
		return nil
	}
	return errors.New("Unsupported way to fetch templates")
}

func subPath(p string) error {
	_, err := localpath.Join(p)
	if err != nil {
		return fmt.Errorf("subPath: %w", err)
	}
	return nil
}

// scp is git's short form of an ssh address. It does not match helper::address,
// which would run a program.
var scp = regexp.MustCompile(`^([A-Za-z0-9_.][A-Za-z0-9_.~+-]*@)?([A-Za-z0-9_][A-Za-z0-9_.-]*|\[[0-9A-Fa-f:.]+\]):[^:]`)

func validateGit(git v1alpha1.AppFetchGit) error {
	if err := subPath(git.SubPath); err != nil {
		return err
	}
	if strings.Contains(git.URL, "://") || !scp.MatchString(git.URL) {
		if err := address("url", git.URL, "http", "https", "ssh"); err != nil {
			return err
		}
	} else if err := plain("url", git.URL); err != nil {
		return err
	}
	if git.Ref == "" && git.RefSelection == nil {
		return errors.New("Expected either ref or ref selection to be specified")
	}
	if err := plain("ref", git.Ref); err != nil {
		return err
	}
	if err := plain("ref", strings.TrimPrefix(git.Ref, "origin/")); err != nil {
		return err
	}
	if git.Depth != nil && (*git.Depth < 0 || *git.Depth > 1<<31-1) {
		return fmt.Errorf("Invalid depth: %d (hint: 0 fetches all commits)", *git.Depth)
	}
	return nil
}

func validateHelm(chart v1alpha1.AppFetchHelmChart) error {
	if chart.Name == "" {
		return errors.New("Expected non-empty helm chart name")
	}
	if err := plain("name", chart.Name); err != nil {
		return err
	}
	if err := plain("version", chart.Version); err != nil {
		return err
	}
	if chart.Repository != nil {
		return address("repository.url", chart.Repository.URL, "http", "https", "oci")
	}
	return nil
}

// plain checks a value that becomes an argument. The value is not shown: it may
// be an address with a password.
func plain(field, value string) error {
	if strings.HasPrefix(value, "-") {
		return fmt.Errorf("Invalid %s: must not start with '-'", field)
	}
	if strings.ContainsFunc(value, unicode.IsControl) {
		return fmt.Errorf("Invalid %s: must not contain control characters", field)
	}
	return nil
}

// address checks the scheme of an address and that it has a host. It does not
// parse it: the parser's errors show passwords, and vendir parses it anyway.
func address(field, value string, schemes ...string) error {
	if value == "" {
		return fmt.Errorf("Expected non-empty %s", field)
	}
	if err := plain(field, value); err != nil {
		return err
	}
	for _, scheme := range schemes {
		if n := len(scheme) + len("://"); len(value) > n && strings.EqualFold(value[:n], scheme+"://") {
			if strings.ContainsRune("-/?#", rune(value[n])) {
				return fmt.Errorf("Invalid %s: expected a host after '%s://'", field, scheme)
			}
			return nil
		}
	}
	return fmt.Errorf("Invalid %s: expected an address that starts with %s://", field, strings.Join(schemes, ":// or "))
}
