// Command licences says under which licences the code stands that is linked into a
// program, and fails where one is not on the list of those that we may hand on, or
// where none is found.
//
//	go run -C tools/licences . -dir "$PWD" ./cmd/...                    check
//	go run -C tools/licences . -dir "$PWD" -text ./cmd/... > FILE       check, and write every text
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "licences:", err)
		os.Exit(1) //nolint:gocritic // stop has nothing left to do
	}
}

// run checks the modules of the packages that the arguments name, and of all that they import.
func run(ctx context.Context, args []string, out, note io.Writer) error {
	flags := flag.NewFlagSet("licences", flag.ContinueOnError)
	dir := flags.String("dir", ".", "folder of the module whose programs are looked at")
	text := flags.Bool("text", false, "write the texts of all licences and notices to standard output")
	if err := flags.Parse(args); err != nil {
		return err
	}
	modules, err := linked(ctx, *dir, flags.Args())
	if err != nil {
		return err
	}
	if err := judge(modules); err != nil {
		return err
	}
	if *text {
		w := bufio.NewWriter(out)
		if err := write(w, modules); err != nil {
			return fmt.Errorf("write the licences: %w", err)
		}
		if err := w.Flush(); err != nil {
			return fmt.Errorf("write the licences: %w", err)
		}
	}
	_, err = fmt.Fprintf(note, "licences: %d modules are linked: %s\n", len(modules), tally(modules))
	return err
}
