package deploy

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// rawOption is the one form of a raw option: a long flag with a value.
var rawOption = regexp.MustCompile(`\A(--[a-z]+(?:-[a-z]+)*)=(.+)\z`)

// Flags that may be given as raw options, by the commands that take them.
var (
	anyFlags = []string{
		"--column", "--debug", "--json", "--tty",
		"--dangerous-ignore-failing-api-services", "--dangerous-scope-to-fallback-allowed-namespaces",
		"--filter", "--filter-age", "--filter-kind", "--filter-kind-name", "--filter-kind-ns",
		"--filter-kind-ns-name", "--filter-name", "--filter-ns",
		"--kube-api-qps", "--kube-api-burst",
	}
	changeFlags = []string{
		"--diff-changes", "--diff-against-last-applied", "--diff-context", "--diff-line-numbers", "--diff-mask",
		"--diff-run", "--diff-summary", "--diff-anchored",
		"--apply-check-interval", "--apply-concurrency", "--apply-default-update-strategy", "--apply-ignored",
		"--apply-timeout", "--exit-early-on-apply-error",
		"--wait", "--wait-check-interval", "--wait-concurrency", "--wait-ignored", "--wait-timeout",
		"--exit-early-on-wait-error",
	}
	deployFlags = slices.Concat(anyFlags, changeFlags, []string{
		"--dangerous-allow-empty-list-of-resources", "--existing-non-labeled-resources-check",
		"--existing-non-labeled-resources-check-concurrency", "--dangerous-override-ownership-of-existing-resources",
		"--into-ns", "--map-ns", "--logs", "--logs-all", "--app-changes-max-to-keep", "--labels", "--patch",
	})
	deleteFlags  = slices.Concat(anyFlags, changeFlags)
	inspectFlags = slices.Concat(anyFlags, []string{"--raw", "--status", "--tree"})
)

// checkOptions fails on the first option that is malformed or not in allowed.
func checkOptions(options, allowed []string) error {
	for _, o := range options {
		m := rawOption.FindStringSubmatch(o)
		if m == nil {
			return fmt.Errorf("Expected flag '%s' to be in '--name=val' format", o)
		}
		if !slices.Contains(allowed, m[1]) {
			return fmt.Errorf("Unexpected flag '%s' specified (either forbidden or unknown)", m[1])
		}
	}
	return nil
}

// hasOption says whether options hold one of the flags names.
func hasOption(options []string, names ...string) bool {
	return slices.ContainsFunc(options, func(o string) bool {
		name, _, _ := strings.Cut(o, "=")
		return slices.Contains(names, name)
	})
}
