package template

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/refs/inline"
	"github.com/garboard-dev/garboard/pkg/tool"
)

// templatingDir begins the errors of most tools.
const templatingDir = "Templating dir: "

func (r *run) ytt(ctx context.Context, i int, spec v1alpha1.AppTemplateYtt) outcome {
	values, err := r.values(ctx, valuesDir(i), spec.ValuesFrom)
	if err != nil {
		return failed("", err)
	}
	paths, stdin, err := r.input(spec.Paths, values, yttPath)
	if err != nil {
		return failed("", err)
	}
	extra, err := r.inline(ctx, i, spec.Inline)
	if err != nil {
		return failed("Writing inline paths: ", err)
	}
	for _, v := range values {
		if _, err := yttPath(v); err != nil {
			return failed("Preparing template values: ", err)
		}
	}
	c := yttCommand(spec, append(paths, extra...), values)
	c.Stdin = stdin
	return r.run(ctx, templatingDir, c)
}

// inline writes the files that the step itself gives and returns their folder.
func (r *run) inline(ctx context.Context, i int, spec *v1alpha1.AppFetchInline) ([]string, error) {
	if spec == nil {
		return nil, nil
	}
	files, err := inline.Files(*spec, r.objects.lookup(ctx))
	if err != nil || len(files) == 0 {
		return nil, err
	}
	dir := fmt.Sprintf("inline/%d", i)
	for j := range files {
		files[j].Path = path.Join(dir, files[j].Path)
	}
	return []string{"./" + dir}, r.ws.Put(ctx, files)
}

// yttPath refuses what ytt would read as NAME=PATH, with a path anywhere.
func yttPath(p string) (string, error) {
	if strings.Contains(p, "=") {
		return "", fmt.Errorf("Invalid path: %s (hint: ytt gives '=' a meaning of its own)", p)
	}
	return p, nil
}

func yttCommand(spec v1alpha1.AppTemplateYtt, paths, values []string) tool.Command {
	var args []string
	if spec.IgnoreUnknownComments {
		args = append(args, "--ignore-unknown-comments")
	}
	if spec.Strict {
		args = append(args, "--strict")
	}
	for _, p := range paths {
		args = append(args, "-f", p)
	}
	for _, mark := range spec.FileMarks {
		args = append(args, "--file-mark="+mark)
	}
	for _, v := range values {
		args = append(args, "--data-values-file", v)
	}
	return tool.Command{Name: "ytt", Args: args}
}

func (r *run) kbld(ctx context.Context, spec v1alpha1.AppTemplateKbld) outcome {
	paths, stdin, err := r.input(spec.Paths, nil, func(p string) (string, error) { return listItem(p), nil })
	if err != nil {
		return failed("", err)
	}
	c := kbldCommand(paths)
	c.Stdin = stdin
	return r.run(ctx, templatingDir, c)
}

// kbldCommand never lets kbld build images: that would run code of the sources.
func kbldCommand(paths []string) tool.Command {
	var args []string
	for _, p := range paths {
		args = append(args, "-f", p)
	}
	return tool.Command{Name: "kbld", Args: append(args, "--build=false")}
}
