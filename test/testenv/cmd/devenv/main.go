// Command devenv is behind `make run`, `make up` and `make down`: a control plane,
// content servers and Garboard, with the examples at work.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/garboard-dev/garboard/test/testenv"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := dispatch(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "devenv:", err)
		os.Exit(1)
	}
}

// dispatch runs one of the commands: run [-once], up, down.
func dispatch(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("want run, up or down")
	}
	root, err := testenv.Root()
	if err != nil {
		return err
	}
	home := filepath.Join(root, ".dev")
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	switch args[0] {
	case "run":
		once := flags.Bool("once", false, "end after the table")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		return run(ctx, home, *once, out)
	case "up":
		return up(ctx, home, out)
	case "down":
		return down(ctx, home, out)
	}
	return fmt.Errorf("unknown command %q: want run, up or down", args[0])
}
