package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/garboard-dev/garboard/pkg/sidecar"
)

// runSidecar serves tool runs until ctx ends. The folder where PATH finds vendir
// holds all tools: vendir runs helm and ssh, which must come from there too.
func runSidecar(ctx context.Context, o Options) error {
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil)).With("logger", "kc-sidecarexec")
	log.InfoContext(ctx, "Starting", "version", Version)
	vendir, err := exec.LookPath("vendir")
	if err != nil {
		return fmt.Errorf("find the tools: %w", err)
	}
	tools, err := filepath.Abs(filepath.Dir(vendir))
	if err != nil {
		return fmt.Errorf("find the tools: %w", err)
	}
	return sidecar.Serve(ctx, sidecar.ServerOptions{
		Socket: o.Socket, WorkDir: o.WorkDir, ToolDir: tools, Log: log, RequireContainment: o.RequireContainment,
		CacheBytes: o.CacheBytes,
	})
}
