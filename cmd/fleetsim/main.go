// Command fleetsim runs an emulated fleet on loopback addresses, for the demo,
// for scale tests, and for trying the product without hardware.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/talos-provision/provision/bmc/redfishtest"
	"github.com/talos-provision/provision/e2e/fleet"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "fleetsim:", err)
		os.Exit(1) //nolint:gocritic // stop has nothing left to do
	}
}

func run(ctx context.Context, args []string) (err error) {
	config, level, err := parse(args)
	if err != nil {
		return err
	}
	config.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
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
	fmt.Print("\nCtrl-C ends the fleet.\n")
	<-ctx.Done()
	fmt.Println()
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

func parse(args []string) (config fleet.Config, level slog.Level, err error) {
	flags := flag.NewFlagSet("fleetsim", flag.ExitOnError)
	vendor := flags.String("vendor", "supermicro", "vendor whose BMCs are emulated")
	network := flags.String("network", "127.80.0.0/16", "a /16 of 127.0.0.0/8 for all addresses of the fleet")
	flags.StringVar(&config.Dir, "dir", ".demo", "folder for inventory, configuration, state and cache")
	flags.StringVar(&config.Cluster, "cluster", "demo", "name of the cluster")
	flags.IntVar(&config.Nodes, "nodes", 12, "number of machines")
	flags.Func("clusters", "clusters in place of --cluster and --nodes, as `name:control-planes:workers,...`", func(text string) (err error) {
		config.Clusters, err = parseClusters(text)
		return err
	})
	flags.BoolVar(&config.MachineConfigs, "machine-configs", false, "write a machine config for every node of --clusters, and talosconfigs")
	flags.BoolVar(&config.DeliverByURL, "deliver-by-url", false, "have provision.yaml deliver machine configs by URL")
	flags.BoolVar(&config.Installed, "installed", false, "the machines of --clusters were installed before and are on; needs --machine-configs")
	flags.BoolVar(&config.Kubernetes, "kubernetes", false, "a real Kubernetes API for each cluster, from e2e/deps.sh; needs --machine-configs")
	flags.Func("releases", "versions of Talos whose installers there are, as `v1.12.12,...` (default all)", func(text string) error {
		config.Releases = strings.Split(text, ",")
		return nil
	})
	flags.IntVar(&config.PerChassis, "per-chassis", 4, "boards in one chassis, which share its serial")
	flags.StringVar(&config.TalosVersion, "talos-version", "v1.13.9", "Talos version that the inventory asks for")
	flags.DurationVar(&config.PowerLag, "power-lag", 500*time.Millisecond, "time that a BMC takes to switch")
	flags.DurationVar(&config.POST, "post", 2*time.Second, "time from power-on to the first DHCP packet")
	flags.DurationVar(&config.KernelTime, "kernel-time", 2*time.Second, "time from the kernel's start to the Talos API")
	flags.DurationVar(&config.InstallTime, "install-time", 3*time.Second, "time that Talos takes to install itself")
	flags.DurationVar(&config.ReadyTime, "ready-time", time.Second, "time of each late step of an installed node's boot: etcd, kubelet, ready")
	flags.IntVar(&config.ImageSize, "image-size", 1<<20, "bytes of kernel and of initramfs")
	flags.TextVar(&level, "log-level", slog.LevelError, "debug, info, warn or error")
	if err := flags.Parse(args); err != nil {
		return config, level, err
	}
	if config.Network, err = netip.ParsePrefix(*network); err != nil {
		return config, level, fmt.Errorf("--network: %w", err)
	}
	if !config.Network.Addr().IsLoopback() || config.Network.Bits() != 16 {
		return config, level, fmt.Errorf("--network %s: it must be a /16 of 127.0.0.0/8", *network)
	}
	profile, found := redfishtest.ProfileNamed(*vendor)
	if !found {
		return config, level, fmt.Errorf("--vendor %s is not known", *vendor)
	}
	config.Profile = profile
	if (config.Installed || config.Kubernetes) && !config.MachineConfigs {
		return config, level, errors.New("--installed and --kubernetes need --machine-configs")
	}
	if config.MachineConfigs && len(config.Clusters) == 0 {
		return config, level, errors.New("--machine-configs needs roles: name the clusters with --clusters")
	}
	return config, level, nil
}

// parseClusters reads "k8s-prod:3:1,k8s-test:1:1".
func parseClusters(text string) ([]fleet.Cluster, error) {
	var all []fleet.Cluster
	for part := range strings.SplitSeq(text, ",") {
		fields := strings.Split(part, ":")
		if len(fields) != 3 || fields[0] == "" {
			return nil, fmt.Errorf("%q: want the form k8s-prod:3:1", part)
		}
		controlPlanes, err := strconv.ParseUint(fields[1], 10, 16)
		if err != nil || controlPlanes == 0 {
			return nil, fmt.Errorf("%q: a cluster has one control plane or more", part)
		}
		workers, err := strconv.ParseUint(fields[2], 10, 16)
		if err != nil {
			return nil, fmt.Errorf("%q: %q is no number of workers", part, fields[2])
		}
		all = append(all, fleet.Cluster{Name: fields[0], ControlPlanes: int(controlPlanes), Workers: int(workers)})
	}
	return all, nil
}
