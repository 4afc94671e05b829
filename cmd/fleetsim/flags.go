package main

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/talos-provision/provision/bmc/redfishtest"
	"github.com/talos-provision/provision/e2e/fleet"
)

// options are what the command line says.
type options struct {
	config fleet.Config
	level  slog.Level
	oracle string // file for the truth at the end, "" for none
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("fleetsim", flag.ExitOnError)
	flags.TextVar(&o.level, "log-level", slog.LevelError, "debug, info, warn or error")
	flags.StringVar(&o.oracle, "oracle", "", "`file` for the truth about every machine at the end, for \"fleetsim check\"")
	vendor := flags.String("vendor", "supermicro", "vendor whose BMCs are emulated")
	network := flags.String("network", "127.80.0.0/16", "a /16 of 127.0.0.0/8 for all addresses of the fleet")
	fleetFlags(flags, &o.config)
	timeFlags(flags, &o.config)
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	var err error
	if o.config.Network, err = netip.ParsePrefix(*network); err != nil {
		return o, fmt.Errorf("--network: %w", err)
	}
	if !o.config.Network.Addr().IsLoopback() || o.config.Network.Bits() != 16 {
		return o, fmt.Errorf("--network %s: it must be a /16 of 127.0.0.0/8", *network)
	}
	profile, found := redfishtest.ProfileNamed(*vendor)
	if !found {
		return o, fmt.Errorf("--vendor %s is not known", *vendor)
	}
	o.config.Profile = profile
	return o, checkRoles(o.config)
}

// checkRoles says which flags need another one.
func checkRoles(config fleet.Config) error {
	if (config.Installed || config.Kubernetes) && !config.MachineConfigs {
		return errors.New("--installed and --kubernetes need --machine-configs")
	}
	if config.MachineConfigs && len(config.Clusters) == 0 {
		return errors.New("--machine-configs needs roles: name the clusters with --clusters")
	}
	return nil
}

// fleetFlags are what the fleet consists of and what is wrong with it.
func fleetFlags(flags *flag.FlagSet, config *fleet.Config) {
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
	flags.Uint64Var(&config.Seed, "seed", 0, "decides vendors, faults and times of each machine")
	flags.Func("vendors", "mix of vendors in place of --vendor, by weight, as `supermicro:4,dell:3,...`", func(text string) (err error) {
		config.Vendors, err = fleet.ParseVendors(text)
		return err
	})
	flags.Func("faults", "shares of machines with which something is wrong, as `bmc-auth=0.01,packet-loss=0.05:0.2,...`; the second number is the strength. There are "+strings.Join(fleet.FaultNames(), ", "), func(text string) (err error) {
		config.Faults, err = fleet.ParseRates(text)
		return err
	})
	flags.BoolVar(&config.SharedBMCs, "shared-bmcs", false, "one listener for the BMCs of all machines (of itself where there are too many)")
	flags.IntVar(&config.ImageSize, "image-size", 1<<20, "bytes of kernel and of initramfs")
}

// timeFlags are how long things take, and how long a controller is told to wait.
func timeFlags(flags *flag.FlagSet, config *fleet.Config) {
	flags.TextVar(&config.Delays.PowerLag, "power-lag", fleet.Fixed(500*time.Millisecond), "time that a BMC takes to switch, as 500ms, uniform:1s-3s or normal:2s,500ms")
	flags.TextVar(&config.Delays.POST, "post", fleet.Fixed(2*time.Second), "time from power-on to the first DHCP packet, alike")
	flags.TextVar(&config.Delays.KernelTime, "kernel-time", fleet.Fixed(2*time.Second), "time from the kernel's start to the Talos API, alike")
	flags.IntVar(&config.Attempts, "attempts", 2, "budget of power cycles of a node, for provision.yaml")
	flags.DurationVar(&config.BootTimeout, "boot-timeout", 2*time.Minute, "time from power-on to maintenance, for provision.yaml")
	flags.DurationVar(&config.InstallTime, "install-time", 3*time.Second, "time that Talos takes to install itself")
	flags.DurationVar(&config.ReadyTime, "ready-time", time.Second, "time of each late step of an installed node's boot: etcd, kubelet, ready")
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
