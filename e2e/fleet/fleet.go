// Package fleet is an emulated fleet: machines whose BMCs speak real Redfish
// over HTTPS, whose firmware sends real DHCP, TFTP and HTTP requests, and whose
// Talos API is real gRPC, all on loopback addresses of one process. It writes
// the inventory and the configuration that belong to it.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/talos-provision/provision/bmc/redfishtest"
	"github.com/talos-provision/provision/e2e/firmware"
	"github.com/talos-provision/provision/e2e/talosnode"
)

// VanillaSchematic is the Image Factory's id of the schematic without any customisation.
const VanillaSchematic = "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba"

// Config describes a fleet. Only Dir is required.
type Config struct {
	// Dir receives nodes/ (the inventory), provision.yaml and what they refer to. It is created.
	Dir string
	// Cluster is the cluster's name; "demo" when empty.
	Cluster string
	// Nodes is how many machines there are (1 to 10,000; 12 when 0), PerChassis
	// how many of them share a chassis and its serial (4 when 0).
	Nodes, PerChassis int
	// Clusters, when set, are the clusters in place of one cluster of Nodes machines: every machine has a
	// role, and installed nodes of a cluster find each other.
	Clusters []Cluster
	// MachineConfigs writes a machine config for every machine of Clusters, a talosconfig for each
	// cluster, and the inventory's fields for both.
	MachineConfigs bool
	// DeliverByURL has provision.yaml say that machines fetch their machine configs, by talos.config=.
	DeliverByURL bool
	// Installed: the machines of Clusters, which need MachineConfigs, were installed with TalosVersion before,
	// and are switched on.
	Installed bool
	// Kubernetes gives each cluster a real Kubernetes API, in which its nodes register; it needs
	// MachineConfigs, and kube-apiserver and etcd from e2e/deps.sh: else Start is a kubeapi.ErrNotBuilt.
	Kubernetes bool
	// Profile is the vendor of every BMC; Supermicro when zero.
	Profile redfishtest.Profile
	// TalosVersion is what the inventory asks for; v1.13.9 when empty.
	TalosVersion string
	// Releases are the versions whose installers there are, and which the factory lists; when empty there is
	// every installer, and no list.
	Releases []string
	// Network is a /16 of 127.0.0.0/8 that holds every address of the fleet; 127.80.0.0/16 when zero.
	Network netip.Prefix
	// PowerLag is how long a BMC takes to switch, POST how long a machine takes
	// to its first DHCP packet, KernelTime how long Talos takes from the
	// kernel's start to its API. All may be 0.
	PowerLag, POST, KernelTime time.Duration
	// InstallTime is how long Talos installs itself, ReadyTime how long each late step of the boot of an
	// installed node takes (etcd, kubelet, ready).
	InstallTime, ReadyTime time.Duration
	// TimeScale multiplies the waits of the firmware, such as EDK2's 4 s for offers; 0.05 when 0.
	TimeScale float64
	// ImageSize is the size of kernel and initramfs in bytes; 256 KiB when 0.
	ImageSize int
	// Adjust changes a machine before its BMC starts, for what a test needs to be wrong with it; may be nil.
	Adjust func(*Machine)
	// Log may be nil.
	Log *slog.Logger
}

// The fleet's ports. All are above 1024, so that no root is needed; fleets of
// different networks do not meet, because every socket is bound to an address of its own.
const (
	dhcpPort  = 6767
	relayPort = 6768
	tftpPort  = 6969
	httpPort  = 8069
	bmcPort   = 8443
)

// Where things are in the fleet's /16, by offset from its first address.
const (
	relayOffset      = 1     // the relay agent, which is also the gateway
	controllerOffset = 2     // the boot services
	factoryOffset    = 3     // the local Image Factory
	kubernetesOffset = 16    // one address a cluster for its Kubernetes API
	nodeOffset       = 256   // static addresses of nodes, up to 10,000
	leaseOffset      = 16384 // the DHCP pool
	leaseEnd         = 32767
	bmcOffset        = 32768 // one address a BMC
)

// Fleet is a running emulated fleet.
type Fleet struct {
	config     Config
	relay      *firmware.Relay
	factory    *factory
	machines   []*Machine
	clusters   talosnode.Clusters
	kubernetes []*kubernetes
	stop       context.CancelFunc
}

// Clusters is how the clusters of installed nodes look to somebody who sees everything.
func (f *Fleet) Clusters() []talosnode.ClusterReport { return f.clusters.Report() }

// Start starts BMCs, relay and factory and writes the inventory. Every machine
// is off. Close ends it.
func Start(ctx context.Context, config Config) (_ *Fleet, err error) {
	config = config.withDefaults()
	if len(config.Clusters) > 0 {
		config.Nodes = 0
		for _, c := range config.Clusters {
			config.Nodes += c.ControlPlanes + c.Workers
		}
	}
	if (config.Kubernetes || config.Installed) && !config.MachineConfigs {
		return nil, errors.New("start a fleet with Kubernetes or installed machines: it needs machine configs")
	}
	if config.Nodes < 1 || config.Nodes > 10000 {
		return nil, fmt.Errorf("start a fleet of %d nodes: 1 to 10,000 fit the emulated network", config.Nodes)
	}
	if err := os.MkdirAll(config.Dir, 0o750); err != nil {
		return nil, fmt.Errorf("start the fleet: %w", err)
	}
	life, stop := context.WithCancel(ctx)
	f := &Fleet{config: config, stop: stop}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	if f.factory, err = startFactory(life, f.address(factoryOffset), config.ImageSize, config.Releases); err != nil {
		return nil, err
	}
	f.relay, err = firmware.NewRelay(netip.AddrPortFrom(f.address(relayOffset), relayPort), netip.AddrPortFrom(f.address(controllerOffset), dhcpPort))
	if err != nil {
		return nil, err
	}
	if err := f.startMachines(life); err != nil {
		return nil, err
	}
	if err := f.write(); err != nil {
		return nil, err
	}
	if config.Kubernetes {
		if err := f.startKubernetes(life); err != nil {
			return nil, err
		}
	}
	if config.Installed {
		return f, f.startInstalled(life)
	}
	return f, nil
}

func (c Config) withDefaults() Config {
	if c.Profile.Name == "" {
		c.Profile = redfishtest.Supermicro()
	}
	c.Cluster = orDefault(c.Cluster, "demo")
	c.Nodes = orDefault(c.Nodes, 12)
	c.PerChassis = orDefault(c.PerChassis, 4)
	c.TalosVersion = orDefault(c.TalosVersion, "v1.13.9")
	c.Network = orDefault(c.Network, netip.MustParsePrefix("127.80.0.0/16"))
	c.TimeScale = orDefault(c.TimeScale, 0.05)
	c.ImageSize = orDefault(c.ImageSize, 256<<10)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

func orDefault[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}

// address is the address at an offset from the network's first.
func (f *Fleet) address(offset int) netip.Addr {
	base := f.config.Network.Masked().Addr().As4()
	return netip.AddrFrom4([4]byte{base[0], base[1], byte(offset >> 8), byte(offset)})
}

// Machines are the fleet's machines, in the order of their names.
func (f *Fleet) Machines() []*Machine { return f.machines }

// ConfigFile is the provision.yaml of this fleet.
func (f *Fleet) ConfigFile() string { return filepath.Join(f.config.Dir, "provision.yaml") }

// Controller is the address and port where the boot services are to serve HTTP.
func (f *Fleet) Controller() string {
	return netip.AddrPortFrom(f.address(controllerOffset), httpPort).String()
}

// Fetches is how often the factory was asked for a boot file.
func (f *Fleet) Fetches() int { return f.factory.fetches() }

// Close switches every machine off and ends everything the fleet started.
func (f *Fleet) Close() error {
	f.stop()
	var err error
	for _, m := range f.machines {
		err = errors.Join(err, m.close())
	}
	for _, k := range f.kubernetes {
		err = errors.Join(err, k.close())
	}
	if f.relay != nil {
		err = errors.Join(err, f.relay.Close())
	}
	if f.factory != nil {
		err = errors.Join(err, f.factory.close())
	}
	return err
}
