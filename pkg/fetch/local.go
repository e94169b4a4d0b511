package fetch

import (
	"context"
	"path"
	"regexp"

	vendir "carvel.dev/vendir/pkg/vendir/config"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/status"
	"github.com/garboard-dev/garboard/pkg/tool"
)

// onlyFiles returns all files when the sources are nothing but files. It says false
// for a source without any: vendir makes its folder.
func (c *collector) onlyFiles(sources []v1alpha1.AppFetch) ([]tool.File, bool) {
	var all []tool.File
	for i, src := range sources {
		if src.Inline == nil || len(c.files[i]) == 0 {
			return nil, false
		}
		for _, f := range c.files[i] {
			all = append(all, tool.File{Path: path.Join(dir, folder(i, src), f.Path), Content: f.Content})
		}
	}
	return all, true
}

// put writes the files as vendir would, without a process for it, and prints what
// vendir would.
func put(ctx context.Context, ws Workspace, files []tool.File, sources []v1alpha1.AppFetch) status.Stage {
	const prefix = "Fetching resources: "
	if err := ws.Put(ctx, files); err != nil {
		return status.Stage{}.Fail(prefix, err)
	}
	lock := vendir.NewLockConfig()
	for i, src := range sources {
		lock.Directories = append(lock.Directories, vendir.LockDirectory{
			Path:     folder(i, src),
			Contents: []vendir.LockDirectoryContents{{Path: vendir.EntireDirPath, Inline: &vendir.LockDirectoryContentsInline{}}},
		})
	}
	text, err := lock.AsBytes()
	return status.Stage{Stdout: string(text)}.Fail(prefix, err)
}

// byDigest and commit are names of content that never change.
var (
	byDigest = regexp.MustCompile(`@sha256:[0-9a-f]{64}$`)
	commit   = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)
)

// cacheable says what may be used again of an earlier fetch with the same input.
// vendir knows of images alone that they cannot change.
func cacheable(sources []v1alpha1.AppFetch) tool.Cache {
	all, parts := true, false
	for _, src := range sources {
		switch {
		case src.Inline != nil:
		case src.Image != nil:
			immutable := byDigest.MatchString(src.Image.URL) && src.Image.TagSelection == nil
			all, parts = all && immutable, parts || immutable
		case src.HTTP != nil:
			all = all && src.HTTP.SHA256 != ""
		case src.Git != nil:
			all = all && commit.MatchString(src.Git.Ref)
		case src.HelmChart != nil:
			// A repository may replace a version.
			all = all && byDigest.MatchString(src.HelmChart.Name)
		default:
			// Whether the images that a bundle names are beside it may change, and
			// with it what is fetched; vendir keeps those that are.
			all, parts = false, parts || byDigest.MatchString(src.ImgpkgBundle.Image)
		}
	}
	switch {
	case all:
		return tool.CacheAll
	case parts:
		return tool.CacheParts
	}
	return tool.CacheNothing
}
