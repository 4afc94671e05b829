package bmc

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/talos-provision/provision/inventory/identity"
)

// Bounds of what is read of the network adapters, far above real ones.
const (
	maxAdapters  = 16
	maxFunctions = 16
)

type interfaceDocument struct {
	Name        text `json:"Name"`
	Description text `json:"Description"`
	MAC         text `json:"MACAddress"`
	Permanent   text `json:"PermanentMACAddress"`
}

// adapterDocument is a NetworkAdapter (DSP2046), or HPE's BaseNetworkAdapter,
// which holds the addresses itself.
type adapterDocument struct {
	Functions link `json:"NetworkDeviceFunctions"`
	Ports     link `json:"Ports"`
	OldPorts  link `json:"NetworkPorts"` // before NetworkAdapter 1.5
	Physical  list[struct {
		MAC text `json:"MacAddress"`
	}] `json:"PhysicalPorts"`
}

// portDocument is a NetworkDeviceFunction, a Port or a NetworkPort.
type portDocument struct {
	Ethernet object[struct {
		MAC        text       `json:"MACAddress"`
		Permanent  text       `json:"PermanentMACAddress"`
		Associated list[text] `json:"AssociatedMACAddresses"`
	}] `json:"Ethernet"`
	Associated list[text] `json:"AssociatedNetworkAddresses"`
}

// readMACs collects the host's addresses: from the system's EthernetInterfaces,
// else, as those are empty on many BMCs until an operating system has run, from
// the network adapters. They only ever confirm a machine, so what cannot be read
// is passed over.
func (c *Client) readMACs(ctx context.Context, v vendor, sys *systemDocument, chassis []*chassisDocument, id *Identity) {
	for _, p := range c.list(ctx, string(sys.Interfaces), maxInterfaces) {
		var nic interfaceDocument
		if c.glance(ctx, p, &nic) {
			id.addMAC(string(nic.Permanent), p+"#/PermanentMACAddress"+nic.note())
			id.addMAC(string(nic.MAC), p+"#/MACAddress"+nic.note())
		}
	}
	if len(id.Facts.MACs) > 0 {
		return
	}
	for _, collection := range adapterCollections(v, sys, chassis) {
		for _, p := range c.list(ctx, collection, maxAdapters) {
			c.readAdapter(ctx, p, id)
		}
	}
}

// adapterCollections are where network adapters may be listed.
func adapterCollections(v vendor, sys *systemDocument, chassis []*chassisDocument) []string {
	var out []string
	for _, d := range chassis {
		if d.Adapters != "" && !slices.Contains(out, string(d.Adapters)) {
			out = append(out, string(d.Adapters))
		}
	}
	if l, _ := find(v.adapters, sys, chassis); localPath(l) != "" {
		out = append(out, localPath(l))
	}
	return out
}

// readAdapter reads one adapter: what it says itself, its functions, and where
// these show no address, its ports.
func (c *Client) readAdapter(ctx context.Context, path string, id *Identity) {
	var adapter adapterDocument
	if !c.glance(ctx, path, &adapter) {
		return
	}
	for _, port := range adapter.Physical {
		id.addMAC(string(port.MAC), path+"#/PhysicalPorts")
	}
	for _, collection := range []link{adapter.Functions, adapter.Ports, adapter.OldPorts} {
		before := len(id.Facts.MACs)
		for _, p := range c.list(ctx, string(collection), maxFunctions) {
			var port portDocument
			if !c.glance(ctx, p, &port) {
				continue
			}
			e := port.Ethernet.value
			id.addMAC(string(e.Permanent), p+"#/Ethernet/PermanentMACAddress")
			id.addMAC(string(e.MAC), p+"#/Ethernet/MACAddress")
			for _, mac := range e.Associated {
				id.addMAC(string(mac), p+"#/Ethernet/AssociatedMACAddresses")
			}
			for _, mac := range port.Associated {
				id.addMAC(string(mac), p+"#/AssociatedNetworkAddresses")
			}
		}
		if len(id.Facts.MACs) > before {
			return
		}
	}
}

// addMAC keeps an address once, with its first source.
func (id *Identity) addMAC(address, where string) {
	mac := identity.NormalizeMAC(address)
	if mac == "" || slices.Contains(id.Facts.MACs, mac) {
		return
	}
	id.Facts.MACs = append(id.Facts.MACs, mac)
	id.Sources["mac "+mac] = where
}

// list gives the members of a collection that may be missing, at most so many.
func (c *Client) list(ctx context.Context, collection string, most int) []string {
	if collection == "" || ctx.Err() != nil {
		return nil
	}
	members, err := c.members(ctx, collection)
	if err != nil {
		c.log.DebugContext(ctx, "skip a collection", "path", collection, "reason", err)
	}
	return members[:min(len(members), most)]
}

// glance reads a resource that may be missing.
func (c *Client) glance(ctx context.Context, path string, into any) bool {
	if ctx.Err() != nil {
		return false
	}
	_, err := c.fetch(ctx, request{method: http.MethodGet, path: path}, 2, into)
	if err != nil {
		c.log.DebugContext(ctx, "skip a network interface", "path", path, "reason", err)
	}
	return err == nil
}

// note marks the USB link between host and BMC, which is no way to the network.
func (n *interfaceDocument) note() string {
	for _, s := range []text{n.Name, n.Description} {
		if l := strings.ToLower(string(s)); strings.Contains(l, "usb") || strings.Contains(l, "host interface") || strings.Contains(l, "tomanager") {
			return " (link between host and BMC)"
		}
	}
	return ""
}
