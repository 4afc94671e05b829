package provisioner

import (
	"net/netip"

	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/pxe/dhcp"
	"github.com/talos-provision/provision/pxe/tftp"
)

// ObserveLease takes note of a lease that a network boot stage of a node was given.
func (c *Controller) ObserveLease(l dhcp.Lease) {
	stage := stageDHCP
	switch l.Class {
	case dhcp.ClassIPXE:
		stage = stageBinary
	case dhcp.ClassPXE, dhcp.ClassHTTP:
	default:
		c.observeSystem(l) // an installed system renews its lease: that is no boot
		return
	}
	verdict := c.fleet.Match(identity.Facts{MACs: []string{l.MAC}})
	if verdict.Outcome != identity.Match {
		return
	}
	if n := c.lookup(verdict.Name); n != nil && n.armed() {
		c.remember(l.IP, n)
		n.see(stage, l.IP)
	}
}

// observeSystem takes note of the address that the system on a node has: its
// Talos API is looked for there.
func (c *Controller) observeSystem(l dhcp.Lease) {
	verdict := c.fleet.Match(identity.Facts{MACs: []string{l.MAC}})
	if verdict.Outcome != identity.Match {
		return
	}
	if n := c.lookup(verdict.Name); n != nil && n.state().rank() >= Booting.rank() {
		c.remember(l.IP, n)
		n.see(stageNone, l.IP)
	}
}

// KnowsMAC says whether a MAC is any node's, by the inventory or by what a BMC
// reported of its machine.
func (c *Controller) KnowsMAC(mac string) bool {
	return c.fleet.Match(identity.Facts{MACs: []string{mac}}).Outcome != identity.Nobody
}

// ObserveTFTP takes note of an iPXE binary that a node downloaded.
func (c *Controller) ObserveTFTP(t tftp.Transfer) {
	if t.Outcome == tftp.Done {
		c.observe(t.Client.Addr(), stageBinary)
	}
}

// observe joins a request that names nobody to the node last seen at its address.
func (c *Controller) observe(source netip.Addr, stage bootStage) {
	if n := c.bySource(source); n != nil && n.armed() {
		n.see(stage, netip.Addr{})
	}
}
