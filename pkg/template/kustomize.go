package template

import (
	"context"
	"slices"
	"strings"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/tool"
)

// remoteWords are in what kustomize says about a remote base. The sidecar gives it
// no network, so all it knows is that git or a name server failed.
var remoteWords = []string{"://", "git@", "git repository", "git fetch"}

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
	if out.stage.Failed() && slices.ContainsFunc(remoteWords, func(w string) bool { return strings.Contains(out.stage.Stderr, w) }) {
		out.stage.Stderr = strings.TrimSuffix(out.stage.Stderr, "\n") + "\n" + remoteHint + "\n"
	}
	return out
}

func kustomizeCommand(folder string) tool.Command {
	return tool.Command{Name: "kustomize", Args: []string{"build", folder}}
}
