// Command fleetsim runs an emulated fleet on loopback addresses, for the demo,
// for scale tests, and for trying the product without hardware.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"

	"github.com/talos-provision/provision/e2e/fleet"
)

// gcPercent trades some time for memory: machines are many, and wait most of their lives.
const gcPercent = 50

func main() {
	debug.SetGCPercent(gcPercent)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	args, command := os.Args[1:], run
	if len(args) > 0 && args[0] == "check" {
		args, command = args[1:], func(ctx context.Context, args []string) error { return check(ctx, args, os.Stdin, os.Stdout) }
	}
	if err := command(ctx, args); err != nil {
		fmt.Fprintln(os.Stderr, "fleetsim:", err)
		os.Exit(1) //nolint:gocritic // stop has nothing left to do
	}
}

func run(ctx context.Context, args []string) (err error) {
	o, err := parse(args)
	if err != nil {
		return err
	}
	config := o.config
	config.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: o.level}))
	f, err := fleet.Start(ctx, config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	state := "all off"
	if config.Installed {
		if err := f.AwaitReady(ctx); err != nil {
			return err
		}
		state = "all on and ready"
	}
	// Scripts wait for this file.
	if err := os.WriteFile(filepath.Join(config.Dir, "ready"), nil, 0o644); err != nil {
		return err
	}
	fmt.Printf("%d machines are there, %s. In another terminal:\n\n", len(f.Machines()), state)
	for _, name := range names(config) {
		fmt.Printf("  provision --config %s --cluster %s\n", f.ConfigFile(), name)
	}
	fmt.Printf("\nThe truth about every machine, for `fleetsim check`: %s\n", f.TruthURL())
	fmt.Print("\nCtrl-C ends the fleet.\n")
	<-ctx.Done()
	fmt.Println()
	if err := writeTruth(o.oracle, f.Oracle()); err != nil {
		return err
	}
	return printNodes(os.Stdout, f.Clusters())
}

func names(config fleet.Config) []string {
	if len(config.Clusters) == 0 {
		return []string{config.Cluster}
	}
	var all []string
	for _, c := range config.Clusters {
		all = append(all, c.Name)
	}
	return all
}
