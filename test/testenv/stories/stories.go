// Package stories publishes the folders of examples/ to the servers of a test
// environment and applies them, as examples/README.md describes.
package stories

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/garboard-dev/garboard/test/testenv"
	"github.com/garboard-dev/garboard/test/testenv/files"
)

// Published are the examples with the addresses of running servers in them.
type Published struct {
	env       *testenv.Env
	namespace string
	dir       string
}

// Publish copies the examples, fills in the addresses and the namespace that
// they are for, and puts their content onto the servers.
func Publish(ctx context.Context, env *testenv.Env, s *testenv.Servers, namespace string) (*Published, error) {
	dir, err := env.Dir("examples-" + namespace)
	if err != nil {
		return nil, err
	}
	p := &Published{env: env, namespace: namespace, dir: dir}
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(env.Root(), "examples"))); err != nil {
		return nil, fmt.Errorf("publish examples: %w", err)
	}
	if err := p.publish(ctx, s); err != nil {
		return nil, fmt.Errorf("publish examples: %w", err)
	}
	return p, nil
}

func (p *Published) publish(ctx context.Context, s *testenv.Servers) error {
	err := p.fill("${NAMESPACE}", p.namespace, "${REGISTRY}", s.Registry.Host(), "${GIT_URL}", s.Git.URL(),
		"${FILES_URL}", s.Files.URL(), "${HELM_URL}", s.Helm.URL())
	if err != nil {
		return err
	}
	web, err := s.Registry.PushImage(ctx, "examples/web:1.0.0", p.sub("bundle-kbld/web"))
	if err != nil {
		return err
	}
	_, digest, _ := strings.Cut(web, "@")
	archive, err := files.TarGz(p.sub("http-archive/archive"))
	if err != nil {
		return err
	}
	s.Files.Put("http-archive.tar.gz", archive)
	// These are known only now, and the bundle has one of them in it.
	if err := p.fill("${WEB_DIGEST}", digest, "${ARCHIVE_SHA256}", files.SHA256(archive)); err != nil {
		return err
	}
	if _, err := s.Registry.PushBundle(ctx, "examples/bundle-kbld:1.0.0", p.sub("bundle-kbld/bundle")); err != nil {
		return err
	}
	if _, err := s.Registry.PushBundle(ctx, "examples/package-repository:1.0.0", p.sub("package-repository/bundle")); err != nil {
		return err
	}
	if err := s.Helm.Add(ctx, p.sub("helm-chart/chart")); err != nil {
		return err
	}
	repos, err := filepath.Glob(filepath.Join(p.dir, "*/repo"))
	if err != nil {
		return err
	}
	for _, repo := range repos {
		story := filepath.Base(filepath.Dir(repo))
		if _, err := s.Git.Commit(ctx, story, os.DirFS(repo), "Publish "+story); err != nil {
			return err
		}
	}
	return nil
}

func (p *Published) sub(name string) fs.FS { return os.DirFS(filepath.Join(p.dir, name)) }

// fill replaces placeholders in all files of the copy.
func (p *Published) fill(oldnew ...string) error {
	r := strings.NewReplacer(oldnew...)
	return filepath.WalkDir(p.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(path, []byte(r.Replace(string(content))), 0o600)
	})
}

// Names returns the examples' names, which are those of their Apps.
func (p *Published) Names() ([]string, error) {
	found, err := filepath.Glob(filepath.Join(p.dir, "*/app.yml"))
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(found))
	for _, f := range found {
		names = append(names, filepath.Base(filepath.Dir(f)))
	}
	return names, nil
}

// The files of the examples about Packages, in the order to apply them.
const (
	Repository = "package-repository/repository.yml"
	Install    = "package-install/install.yml"
	Upgrade    = "package-install/upgrade.yml"
)

// Apply applies one example and what it needs.
func (p *Published) Apply(ctx context.Context, name string) error {
	if _, err := os.Stat(filepath.Join(p.dir, name, "rbac.yml")); err == nil { // few need rights beyond the common ones
		if err := p.ApplyFiles(ctx, name+"/rbac.yml"); err != nil {
			return err
		}
	}
	return p.ApplyFiles(ctx, "rbac.yml", name+"/app.yml")
}

// ApplyFiles applies files of the examples in their order.
func (p *Published) ApplyFiles(ctx context.Context, files ...string) error {
	for _, file := range files {
		content, err := os.ReadFile(filepath.Join(p.dir, file))
		if err == nil {
			err = p.env.Apply(ctx, p.namespace, content)
		}
		if err != nil {
			return fmt.Errorf("apply example %s: %w", file, err)
		}
	}
	return nil
}
