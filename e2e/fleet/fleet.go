// Package fleet is an emulated fleet: machines whose BMCs speak real Redfish
// over HTTPS, whose firmware sends real DHCP, TFTP and HTTP requests, and whose
// Talos API is real gRPC, all on loopback addresses of one process. It writes
// the inventory and the configuration that belong to it.
//
// A seed draws what is wrong with a share of the machines (Config.Faults), and
// an Oracle knows from the machines themselves what became of each, and how it
// had to end. Tests of a controller read its states and have them judged:
//
//	f, err := fleet.Start(ctx, fleet.Config{Dir: dir, Nodes: 300, Seed: 7, Faults: rates})
//	// run the controller, kill it, read its states; at any moment:
//	violations := f.Oracle().Safety(seen, nil)
//	// at the end of its run:
//	violations = f.Oracle().Check(seen, nil)
//
// A /16 of loopback is enough for 10,000 machines. Those that are off cost some
// 20 KB each, those whose Talos is up some 70 KB more.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/talos-provision/provision/bmc/redfishtest"
	"github.com/talos-provision/provision/e2e/firmware"
	"github.com/talos-provision/provision/e2e/talosnode"
)

// VanillaSchematic is the Image Factory's id of the schematic without any customisation.
const VanillaSchematic = "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba"

// The fleet's ports. All are above 1024, so that no root is needed; fleets of
// different networks do not meet, because every socket is bound to an address of
// its own, and the one that is not (Config.SharedBMCs) to a port of its own.
const (
	dhcpPort  = 6767
	relayPort = 6768
	tftpPort  = 6969
	httpPort  = 8069
	truthPort = 8070
	bmcPort   = 8443
)

// Where things are in the fleet's /16, by offset from its first address.
const (
	relayOffset      = 1     // the relay agent, which is also the gateway
	controllerOffset = 2     // the boot services
	factoryOffset    = 3     // the local Image Factory
	truthOffset      = 4     // the oracle
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
	site       *redfishtest.Site // nil where each BMC has a listener of its own
	teller     *teller
	machines   []*Machine
	clusters   talosnode.Clusters
	kubernetes []*kubernetes
	stop       context.CancelFunc
}

// Clusters is how the clusters of installed nodes look to somebody who sees everything.
func (f *Fleet) Clusters() []talosnode.ClusterReport { return f.clusters.Report() }

// Start starts BMCs, relay and factory and writes the inventory. Every machine
// is off, but for those that Installed or Faults have on. Close ends it.
func Start(ctx context.Context, config Config) (_ *Fleet, err error) {
	if config, err = config.complete(); err != nil {
		return nil, err
	}
	config.SharedBMCs = config.SharedBMCs || tooManyListeners(config.Nodes)
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
	f.makeMachines()
	if err := f.startBMCs(life); err != nil {
		return nil, err
	}
	if err := f.write(); err != nil {
		return nil, err
	}
	if f.teller, err = startTeller(life, f); err != nil {
		return nil, err
	}
	for _, m := range f.machines {
		if err := m.startByItself(life); err != nil {
			return nil, err
		}
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
	if f.teller != nil {
		err = f.teller.close()
	}
	var group errgroup.Group
	group.SetLimit(64)
	for _, m := range f.machines {
		group.Go(m.close)
	}
	err = errors.Join(err, group.Wait())
	if f.site != nil {
		f.site.Close()
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
