package main

import (
	"context"
	"log/slog"
	"os"

	"github.com/garboard-dev/garboard/pkg/sidecar"
)

// runSidecar serves tool runs until ctx ends. Tools are looked up in PATH.
func runSidecar(ctx context.Context, o Options) error {
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil)).With("logger", "kc-sidecarexec")
	log.InfoContext(ctx, "Starting", "version", Version)
	return sidecar.Serve(ctx, sidecar.ServerOptions{
		Socket: o.Socket, WorkDir: o.WorkDir, Log: log, RequireContainment: o.RequireContainment,
	})
}
