// Command compose reads a compose file as the engines do, with the library that
// they share, and prints what it comes to as JSON. It starts nothing.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "compose: name one compose file")
		os.Exit(2)
	}
	if err := show(os.Args[1]); err != nil {
		fmt.Fprintf(os.Stderr, "compose: %v\n", err)
		os.Exit(1)
	}
}

func show(file string) error {
	details := types.ConfigDetails{
		WorkingDir:  filepath.Dir(file),
		ConfigFiles: []types.ConfigFile{{Filename: file}},
		Environment: types.NewMapping(os.Environ()),
	}
	project, err := loader.LoadWithContext(context.Background(), details)
	if err != nil {
		return fmt.Errorf("load %s: %w", file, err)
	}
	raw, err := project.MarshalJSON()
	if err != nil {
		return fmt.Errorf("encode %s: %w", file, err)
	}
	_, err = os.Stdout.Write(raw)
	return err
}
