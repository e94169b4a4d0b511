package deploy

import (
	"bytes"
	"slices"
)

// logsAnnotation on a Pod makes kapp print its logs.
const logsAnnotation = "kapp.k14s.io/deploy-logs"

// defaultOptions hold for Apps' deploys unless said otherwise.
var defaultOptions = []string{"--app-changes-max-to-keep=5", "--apply-timeout=5m"}

// appSuffix is the Suffix of Apps.
const appSuffix = ".app"

// ArgsToDeploy are kapp's arguments to deploy the manifest at path file. Its errors
// are whole texts for the user, without a prefix.
func ArgsToDeploy(req Request, file string) ([]string, error) {
	var global []string
	if req.Suffix == appSuffix {
		global = slices.Concat(defaultOptions, req.GlobalRawOptions)
	}
	options := slices.Concat(global, req.Kapp.RawOptions)
	if err := checkOptions(options, deployFlags); err != nil {
		return nil, err
	}
	args := []string{"deploy", "--prev-app", req.Name + "-ctrl", "-f", file}
	if req.Kapp.IntoNs != "" {
		args = append(args, "--into-ns", req.Kapp.IntoNs)
	}
	for _, m := range req.Kapp.MapNs {
		args = append(args, "--map-ns", m)
	}
	if quiet(req.Manifest) && !hasOption(options, "--logs", "--logs-all") {
		args = append(args, "--logs=false")
	}
	args = append(args, options...)
	return append(args, common(req)...), nil
}

// ArgsToDelete are kapp's arguments to delete what was deployed.
func ArgsToDelete(req Request) ([]string, error) {
	var options []string
	if req.Kapp.Delete != nil {
		options = req.Kapp.Delete.RawOptions
	}
	if err := checkOptions(options, deleteFlags); err != nil {
		return nil, err
	}
	args := append([]string{"delete", "--prev-app", req.Name + "-ctrl"}, options...)
	return append(args, common(req)...), nil
}

// ArgsToInspect are kapp's arguments to show what was deployed.
func ArgsToInspect(req Request) ([]string, error) {
	var options []string
	if req.Kapp.Inspect != nil {
		options = req.Kapp.Inspect.RawOptions
	}
	if err := checkOptions(options, inspectFlags); err != nil {
		return nil, err
	}
	// PodMetrics come and go, so a table with them never settles.
	args := append([]string{"inspect", "--filter", `{"not":{"resource":{"kinds":["PodMetrics"]}}}`, "--tty"}, options...)
	return append(args, common(req)...), nil
}

func common(req Request) []string {
	args := []string{"--app", AppName(req.Name, req.Suffix)}
	if req.Target.Namespace != "" {
		args = append(args, "--namespace", req.Target.Namespace)
	}
	if req.Target.AppNamespace != "" {
		args = append(args, "--app-namespace", req.Target.AppNamespace)
	}
	return append(args, "--yes")
}

// quiet says that kapp may leave Pods' logs alone, which saves it a list of all
// Pods: there are objects, and none asks for logs. Without objects the list must
// stay, for kapp takes an empty set of kinds for "every kind in the cluster".
func quiet(manifest []byte) bool {
	return bytes.Contains(manifest, []byte("kind")) && !bytes.Contains(manifest, []byte(logsAnnotation))
}
