// Package helmrepo serves a Helm repository: an index and packaged charts.
package helmrepo

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/garboard-dev/garboard/test/testenv/files"
	"github.com/garboard-dev/garboard/test/testenv/web"
)

// Server serves what was added. Close it when done.
type Server struct {
	*files.Server
	dir, helm string
}

// Start starts a repository without charts. Dir is an empty folder that the
// caller removes; toolDir holds helm.
func Start(dir, toolDir string, o web.Options) (*Server, error) {
	f, err := files.Start(o)
	return &Server{Server: f, dir: dir, helm: filepath.Join(toolDir, "helm")}, err
}

// Add packages a chart under the name and version of its Chart.yaml and puts it
// into the index beside those added before. Not for concurrent use.
func (s *Server) Add(ctx context.Context, chart fs.FS) error {
	src, err := os.MkdirTemp("", "")
	if err != nil {
		return err
	}
	defer os.RemoveAll(src)
	if err := os.CopyFS(src, chart); err != nil {
		return fmt.Errorf("add chart: %w", err)
	}
	if err := s.run(ctx, "package", src, "--destination="+s.dir); err != nil {
		return err
	}
	if err := s.run(ctx, "repo", "index", s.dir, "--url="+s.URL()); err != nil {
		return err
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		content, err := os.ReadFile(filepath.Join(s.dir, e.Name()))
		if err != nil {
			return err
		}
		s.Put(e.Name(), content)
	}
	return nil
}

func (s *Server) run(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, s.helm, args...)
	cmd.Env = []string{"HOME=" + s.dir, "PATH=/usr/bin:/bin"}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("helm %s: %w: %s", args[0], err, out)
	}
	return nil
}
