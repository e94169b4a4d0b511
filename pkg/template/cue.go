package template

import (
	"context"
	"fmt"
	"strings"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/tool"
	"github.com/garboard-dev/garboard/pkg/tool/localpath"
)

// cue runs in the root, where it looks for the module. Its values lie in a folder
// below, as the sidecar lets no argument lead out of the working directory; the
// name keeps them out of packages, and they are removed for the next step.
func (r *run) cue(ctx context.Context, i int, spec v1alpha1.AppTemplateCue) (out outcome) {
	if r.streaming {
		return failed(templatingDir, errNoStream)
	}
	paths, err := cuePaths(spec.Paths)
	if err != nil {
		return failed("", err)
	}
	dir := fmt.Sprintf("%s/.garboard-values-%d", r.req.Root, i)
	values, err := r.values(ctx, dir, spec.ValuesFrom)
	defer func() {
		err := r.ws.Remove(context.WithoutCancel(ctx), []string{dir})
		if err != nil && !out.stage.Failed() {
			out = failed("Removing values: ", err)
		}
	}()
	if err != nil {
		return failed("Writing values: ", err)
	}
	for i, v := range values {
		values[i] = "./" + strings.TrimPrefix(v, "./"+r.req.Root+"/")
	}
	c := cueCommand(spec, paths, values)
	c.Dir = r.req.Root
	return r.run(ctx, templatingDir, c)
}

func cuePaths(given []string) ([]string, error) {
	if len(given) == 0 {
		return []string{"."}, nil
	}
	var args []string
	for _, p := range given {
		arg, err := localpath.Arg(p)
		if err != nil {
			return nil, fmt.Errorf("Checking path: %w", err)
		}
		args = append(args, arg)
	}
	return args, nil
}

func cueCommand(spec v1alpha1.AppTemplateCue, paths, values []string) tool.Command {
	args := append([]string{"export", "--out", "yaml"}, paths...)
	if spec.InputExpression != "" {
		args = append(args, "--path="+spec.InputExpression)
	}
	args = append(args, values...)
	if spec.OutputExpression != "" {
		args = append(args, "--expression="+spec.OutputExpression)
	}
	return tool.Command{Name: "cue", Args: args}
}
