package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/garboard-dev/garboard/test/testenv/controlplane"
	"github.com/garboard-dev/garboard/test/testenv/scratch"
)

// Options say what Start starts.
type Options struct {
	// Nodes is the number of nodes; 0 means 2.
	Nodes int
	// LogDir is where all logs go; "" means a folder that Stop removes.
	LogDir string
}

// Env is a running control plane and what was started beside it. It is safe for
// concurrent use.
type Env struct {
	*controlplane.ControlPlane
	// Core and Dynamic act as a cluster administrator.
	Core    kubernetes.Interface
	Dynamic dynamic.Interface

	root    string
	logDir  string
	scratch *scratch.Dir
	applier *applier

	mu    sync.Mutex // guards what follows
	stops []func()
	units []*Unit
}

// Root returns the top folder of the repository that the working directory is in.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(mod), "module github.com/garboard-dev/garboard\n") {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("the working directory is not in the repository")
		}
		dir = filepath.Dir(dir)
	}
}

// Start starts a control plane. The caller stops it.
func Start(ctx context.Context, o Options) (*Env, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"devcluster", "kwok"} {
		if _, err := os.Stat(filepath.Join(root, "bin/dev", name)); err != nil {
			return nil, fmt.Errorf("%w: run `make devcluster tools` first", err)
		}
	}
	dir, err := scratch.New()
	if err != nil {
		return nil, err
	}
	e := &Env{root: root, scratch: dir}
	if err := e.start(ctx, o); err != nil {
		return nil, errors.Join(err, e.Stop())
	}
	return e, nil
}

func (e *Env) start(ctx context.Context, o Options) error {
	dir, err := e.scratch.Sub("cluster")
	if err != nil {
		return err
	}
	if e.logDir = o.LogDir; e.logDir == "" {
		e.logDir = filepath.Join(e.scratch.Path(), "logs")
	}
	e.ControlPlane, err = controlplane.Start(ctx, controlplane.Options{
		BinDir: e.BinDir("dev"), Dir: dir, LogDir: e.logDir, Nodes: o.Nodes,
	})
	if err != nil {
		return err
	}
	e.onStop(e.ControlPlane.Stop)
	if e.Core, err = kubernetes.NewForConfig(e.Config()); err != nil {
		return err
	}
	if e.Dynamic, err = dynamic.NewForConfig(e.Config()); err != nil {
		return err
	}
	e.applier, err = newApplier(e.Config(), e.Dynamic)
	return err
}

// Stop ends all that was started, last first, and removes all files.
func (e *Env) Stop() error {
	e.mu.Lock()
	stops := e.stops
	e.stops = nil
	e.mu.Unlock()
	for i := len(stops) - 1; i >= 0; i-- {
		stops[i]()
	}
	return e.scratch.Remove()
}

// onStop registers what ends something that was started in this environment.
func (e *Env) onStop(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stops = append(e.stops, f)
}

// Root returns the top folder of the repository.
func (e *Env) Root() string { return e.root }

// LogDir returns the folder with one log for each process.
func (e *Env) LogDir() string { return e.logDir }

// BinDir returns a folder of built binaries: "" (garboard), "tools" or "dev".
func (e *Env) BinDir(name string) string { return filepath.Join(e.root, "bin", name) }

// Dir returns a folder of the environment, made when it is not there. It is
// readable by all users and removed by Stop.
func (e *Env) Dir(name string) (string, error) { return e.scratch.Sub(name) }
