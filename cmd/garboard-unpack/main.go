// Command garboard-unpack unpacks what vendir downloaded, in the sidecar, where it
// is installed as unpack. vendir's own unpacking keeps no links and writes through
// them. Standard input is a JSON list of sources; folders are relative to the
// working directory.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/garboard-dev/garboard/pkg/workdir/unpack"
)

func main() {
	if err := run(os.Stdin); err != nil {
		fmt.Fprintf(os.Stderr, "unpack: Error: %v\n", err)
		os.Exit(1)
	}
}

func run(stdin io.Reader) error {
	var sources []unpack.Source
	if err := json.NewDecoder(stdin).Decode(&sources); err != nil {
		return fmt.Errorf("read what to unpack: %w", err)
	}
	root, err := os.OpenRoot(".")
	if err != nil {
		return err
	}
	defer root.Close()
	for _, src := range sources {
		if err := unpack.Unpack(root, src); err != nil {
			return err
		}
	}
	return nil
}
