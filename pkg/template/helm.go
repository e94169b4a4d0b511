package template

import (
	"context"
	"fmt"
	"path"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/tool"
)

const templatingChart = "Templating helm chart: "

// release is a name that Helm accepts. It keeps an option from standing where the
// name goes; the length is left to Helm.
var release = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// helmRun is what one run of helm template depends on.
type helmRun struct {
	name, namespace, chart string
	kubeVersion            string // empty: Helm's own idea of it
	apis                   []string
	values                 []string
}

func (r *run) helm(ctx context.Context, i int, spec v1alpha1.AppTemplateHelmTemplate) outcome {
	h := helmRun{name: spec.Name, namespace: spec.Namespace}
	if h.name == "" {
		h.name = r.req.Name
	}
	if h.namespace == "" {
		h.namespace = r.req.Namespace
	}
	if !release.MatchString(h.name) {
		return failed(templatingChart, fmt.Errorf("Invalid release name: %q", h.name))
	}
	if len(validation.IsDNS1123Label(h.namespace)) > 0 {
		return failed(templatingChart, fmt.Errorf("Invalid namespace: %q", h.namespace))
	}
	var err error
	if h.chart, err = r.below(spec.Path); err != nil {
		return failed("", err)
	}
	if h.kubeVersion, h.apis, err = r.capabilities(ctx, spec); err != nil {
		return failed("", err)
	}
	if h.values, err = r.values(ctx, valuesDir(i), spec.ValuesFrom); err != nil {
		return failed("", err)
	}
	c := helmCommand(h)
	for _, v := range h.values {
		if v == "-" {
			c.Stdin = r.stream
		}
	}
	out := r.run(ctx, templatingChart, c)
	if out.stage.Failed() {
		return out
	}
	manifest, notes, err := hooks(out.stdout)
	if err != nil {
		return failed(templatingChart, err)
	}
	out.stdout = manifest
	for _, note := range append(notes, r.lookups(ctx, h.chart)...) {
		out.stage.Stderr += "warning: " + note + "\n"
	}
	return out
}

// lookupCall finds a call of Helm's function lookup in an action of a template that
// is no comment.
const lookupCall = `\{\{-?\s*(?:\(|[^}\s/-][^}]*[^}\w."'$-])?lookup\s+["(.$\w\x60]`

// lookups warns of templates that ask the cluster: to helm template it is empty, so
// that for example a password that is to be kept is made anew each time.
func (r *run) lookups(ctx context.Context, chart string) (warnings []string) {
	root := path.Clean(chart)
	found, err := r.ws.Find(ctx, root, []string{".yaml", ".yml", ".tpl"}, lookupCall)
	if err != nil {
		return nil // the chart was rendered, so nobody misses more than a warning
	}
	for _, file := range found {
		warnings = append(warnings, strings.TrimPrefix(file, root+"/")+
			" calls lookup, which finds nothing: charts are rendered without access to the cluster (hint: give what it looks for in valuesFrom)")
	}
	return warnings
}

// capabilities returns what the chart is to see of the cluster. What is given
// counts; kapp-controller ignores it and always asks the cluster.
func (r *run) capabilities(ctx context.Context, spec v1alpha1.AppTemplateHelmTemplate) (version string, apis []string, err error) {
	if spec.KubernetesVersion != nil {
		if version = spec.KubernetesVersion.Version; version == "" {
			if version, err = r.kubernetesVersion(ctx); err != nil {
				return "", nil, fmt.Errorf("Unable to get kubernetes version during helm template: %w", err)
			}
		}
	}
	if spec.KubernetesAPIs != nil {
		if apis = spec.KubernetesAPIs.GroupVersions; len(apis) == 0 {
			if apis, err = r.kubernetesAPIs(ctx); err != nil {
				return "", nil, fmt.Errorf("Unable to list all server apigroups/version: %w", err)
			}
		}
	}
	return version, apis, nil
}

func helmCommand(h helmRun) tool.Command {
	args := []string{"template", h.name, h.chart, "--namespace", h.namespace, "--include-crds"}
	if h.kubeVersion != "" {
		args = append(args, "--kube-version="+h.kubeVersion)
	}
	if len(h.apis) > 0 {
		items := make([]string, len(h.apis))
		for i, a := range h.apis {
			items[i] = listItem(a)
		}
		args = append(args, "--api-versions="+strings.Join(items, ","))
	}
	for _, v := range h.values {
		args = append(args, "--values", listItem(v))
	}
	return tool.Command{Name: "helm", Args: args}
}
