// Command garboard is a Kubernetes controller that fetches, templates and deploys
// what App objects name, as kapp-controller does. One binary has two modes:
//
//	garboard                 the controller: reconciles, and deploys with kapp in its own process
//	garboard --sidecarexec   the sidecar: runs allowlisted tools, holds no API credentials
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/garboard-dev/garboard/pkg/deploy/kapp"
	"github.com/garboard-dev/garboard/pkg/tool"
)

// Version is set when a release is built.
var Version = "develop"

// kappChild is the first argument of the process that the controller starts for
// the few deploys whose kapp must not share this one's memory.
const kappChild = "--kapp-child"

func main() {
	if len(os.Args) == 2 && os.Args[1] == kappChild {
		os.Exit(kapp.ChildMain(os.Stdin, os.Stdout, os.Stderr))
	}
	limitMemory(tool.ContainerMemory())
	os.Exit(run(os.Args[1:], os.Getenv, os.Stderr))
}

// limitMemory makes this process collect garbage more often before its container
// is full: large manifests leave several times their size behind. GOMEMLIMIT,
// which the runtime has read, wins.
func limitMemory(container int64) {
	if os.Getenv("GOMEMLIMIT") == "" && container > 0 {
		debug.SetMemoryLimit(container / 10 * 9)
	}
}

// run returns the exit code: 0 after a stop that was asked for, 1 after a
// failure, 2 for arguments that make no sense.
func run(args []string, getenv func(string) string, stderr io.Writer) int {
	opts, err := parseOptions(args, getenv, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "garboard: %v\n", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if opts.Sidecar {
		err = runSidecar(ctx, opts)
	} else {
		err = runController(ctx, opts)
	}
	if err != nil {
		fmt.Fprintf(stderr, "garboard: exited with error: %v\n", err)
		return 1
	}
	return 0
}
