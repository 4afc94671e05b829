package fleet

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/talos-provision/provision/bmc/redfishtest"
)

// maxNodes is how many addresses of each kind there are.
const maxNodes = 10000

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
	// Delays are the same where they differ from machine to machine and boot to boot; one that is zero is as above.
	Delays Delays
	// Seed decides all that is drawn, for each machine by its index: vendor, faults, delays.
	Seed uint64
	// Vendors, when set, is the mix of vendors in place of Profile; a chassis is of one vendor.
	Vendors []VendorShare
	// Faults are the shares of machines with which something is wrong. Without any, nothing is.
	Faults Rates
	// Attempts and BootTimeout are the budgets in provision.yaml; 2 and 2 minutes when 0.
	Attempts    int
	BootTimeout time.Duration
	// SessionTimeout is after how long a BMC ends a session that nobody uses; 0 is never.
	SessionTimeout time.Duration
	// SharedBMCs has one listener on all addresses of loopback for the BMCs of all machines, at a port
	// that the kernel chooses. It is so by itself where the process may not open a listener for each.
	SharedBMCs bool
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

// Delays are the times that a fleet's machines take.
type Delays struct {
	// PowerLag is drawn once for each BMC, POST and KernelTime at each boot.
	PowerLag, POST, KernelTime Delay
}

// complete fills in what is left out, and says what cannot be.
func (c Config) complete() (Config, error) {
	c = c.withDefaults()
	if len(c.Clusters) > 0 {
		c.Nodes = 0
		for _, one := range c.Clusters {
			c.Nodes += one.ControlPlanes + one.Workers
		}
	}
	if (c.Kubernetes || c.Installed) && !c.MachineConfigs {
		return c, errors.New("start a fleet with Kubernetes or installed machines: it needs machine configs")
	}
	if c.Nodes < 1 || c.Nodes > maxNodes {
		return c, fmt.Errorf("start a fleet of %d nodes: 1 to %d fit the emulated network", c.Nodes, maxNodes)
	}
	if c.PerChassis < 0 || c.Attempts < 0 || c.BootTimeout < 0 {
		return c, errors.New("start a fleet: boards of a chassis, attempts and boot timeout must be 1 or more, or left out")
	}
	if err := c.checkFaults(); err != nil {
		return c, fmt.Errorf("start a fleet with faults: %w", err)
	}
	return c, nil
}

// manyNodes is from where on BMCs remember no requests: they would fill the
// memory with what nobody reads.
const manyNodes = 1000

func (c Config) requestLimit() int {
	if c.Nodes >= manyNodes {
		return -1
	}
	return 0 // the service's own
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
	c.Attempts = orDefault(c.Attempts, 2)
	c.BootTimeout = orDefault(c.BootTimeout, 2*time.Minute)
	c.Delays.PowerLag = orDefault(c.Delays.PowerLag, Fixed(c.PowerLag))
	c.Delays.POST = orDefault(c.Delays.POST, Fixed(c.POST))
	c.Delays.KernelTime = orDefault(c.Delays.KernelTime, Fixed(c.KernelTime))
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
