package template

import (
	"context"
	"strings"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/tool"
)

const remoteHint = "(hint: remote bases and resources are not fetched while templating; fetch them with spec.fetch and refer to their folder)"

func (r *run) kustomize(ctx context.Context, spec v1alpha1.AppTemplateKustomize) outcome {
	if r.streaming {
		return failed(templatingDir, errNoStream)
	}
	folder, err := r.below(spec.Path)
	if err != nil {
		return failed("Checking path: ", err)
	}
	out := r.run(ctx, templatingDir, kustomizeCommand(folder))
	// The sidecar gives kustomize no network, so what it says about a remote base
	// is that git or a name server failed.
	if out.stage.Failed() && (strings.Contains(out.stage.Stderr, "://") || strings.Contains(out.stage.Stderr, "git@") || strings.Contains(out.stage.Stderr, "git repository") || strings.Contains(out.stage.Stderr, "git fetch")) {
		out.stage.Stderr = strings.TrimSuffix(out.stage.Stderr, "\n") + "\n" + remoteHint + "\n"
	}
	return out
}

func kustomizeCommand(folder string) tool.Command {
	return tool.Command{Name: "kustomize", Args: []string{"build", folder}}
}
