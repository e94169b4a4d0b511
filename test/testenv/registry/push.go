package registry

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// PushImage pushes an image whose one layer holds the files, under a name such
// as "apps/simple:1.0.0", and returns its reference by digest.
func (s *Server) PushImage(ctx context.Context, as string, files fs.FS) (string, error) {
	ref, err := name.ParseReference(s.host + "/" + as)
	if err != nil {
		return "", err
	}
	content, err := tarOf(files)
	if err != nil {
		return "", fmt.Errorf("push image %s: %w", as, err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil })
	if err != nil {
		return "", err
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return "", err
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithTransport(s.transport())}
	if s.o.User != "" {
		options = append(options, remote.WithAuth(&authn.Basic{Username: s.o.User, Password: s.o.Password}))
	}
	if err := remote.Write(ref, img, options...); err != nil {
		return "", fmt.Errorf("push image %s: %w", as, err)
	}
	digest, err := img.Digest()
	return ref.Context().Digest(digest.String()).String(), err
}

// Digest returns what a name such as "charts/app:1.0.0" stands for.
func (s *Server) Digest(ctx context.Context, as string) (string, error) {
	ref, err := name.ParseReference(s.host + "/" + as)
	if err != nil {
		return "", err
	}
	d, err := remote.Head(ref, remote.WithContext(ctx), remote.WithTransport(s.transport()))
	if err != nil {
		return "", fmt.Errorf("look up %s: %w", as, err)
	}
	return d.Digest.String(), nil
}

func tarOf(files fs.FS) ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	if err := w.AddFS(files); err != nil {
		return nil, err
	}
	return buf.Bytes(), w.Close()
}

// noImages is the lock file of a bundle that refers to no image.
const noImages = "apiVersion: imgpkg.carvel.dev/v1alpha1\nkind: ImagesLock\n"

var digestRef = regexp.MustCompile(`'([^']+@sha256:[0-9a-f]{64})'`)

// PushBundle pushes the files as an imgpkg bundle under a name such as
// "bundles/app:1.0.0" and returns its reference by digest. Files without an
// images lock get an empty one.
func (s *Server) PushBundle(ctx context.Context, as string, files fs.FS) (string, error) {
	dir, err := os.MkdirTemp(s.o.Dir, "bundle-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	if err := os.CopyFS(dir, files); err != nil {
		return "", fmt.Errorf("push bundle %s: %w", as, err)
	}
	lock := filepath.Join(dir, ".imgpkg/images.yml")
	if _, err := os.Stat(lock); err != nil {
		if err := os.MkdirAll(filepath.Dir(lock), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(lock, []byte(noImages), 0o600); err != nil {
			return "", err
		}
	}
	// Without a terminal it prints nothing unless told to.
	args := []string{"push", "--tty", "--bundle=" + s.host + "/" + as, "--file=" + dir}
	if s.o.CA != nil {
		args = append(args, "--registry-ca-cert-path="+s.path("ca.crt"))
	}
	if s.o.User != "" {
		args = append(args, "--registry-username="+s.o.User, "--registry-password="+s.o.Password)
	}
	out, err := s.run(ctx, filepath.Join(s.o.BinDir, "imgpkg"), args...)
	if err != nil {
		return "", err
	}
	m := digestRef.FindStringSubmatch(out)
	if m == nil {
		return "", fmt.Errorf("push bundle %s: no digest in what imgpkg printed: %s", as, out)
	}
	return m[1], nil
}

// PushChart packages a Helm chart and pushes it to oci://HOST/REPOSITORY/NAME,
// where NAME and the version are those of Chart.yaml.
func (s *Server) PushChart(ctx context.Context, repository string, chart fs.FS) error {
	dir, err := os.MkdirTemp(s.o.Dir, "chart-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.CopyFS(filepath.Join(dir, "chart"), chart); err != nil {
		return fmt.Errorf("push chart: %w", err)
	}
	helm := filepath.Join(s.o.ToolDir, "helm")
	if _, err := s.run(ctx, helm, "package", filepath.Join(dir, "chart"), "--destination="+dir); err != nil {
		return err
	}
	archives, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err != nil {
		return err
	}
	args := []string{"push", archives[0], "oci://" + s.host + "/" + repository}
	if s.o.CA != nil {
		args = append(args, "--ca-file="+s.path("ca.crt"))
	} else {
		args = append(args, "--plain-http")
	}
	if s.o.User != "" {
		args = append(args, "--username="+s.o.User, "--password="+s.o.Password)
	}
	_, err = s.run(ctx, helm, args...)
	return err
}

// run runs a tool with nothing of the caller's configuration.
func (s *Server) run(ctx context.Context, path string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = []string{"HOME=" + s.o.Dir, "PATH=/usr/bin:/bin"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", filepath.Base(path), args[0], err, out)
	}
	return string(out), nil
}
