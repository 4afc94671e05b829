package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/talos-provision/provision/pxe/dhcp"
)

// Values of dhcp.mode.
const (
	dhcpServer = "server"
	dhcpProxy  = "proxy"
	dhcpOff    = "off"
)

// admissions are the values of dhcp.unknown.
var admissions = map[string]dhcp.Admission{"boot": dhcp.Boot, "lease": dhcp.LeaseOnly, "silent": dhcp.Silent}

type dhcpConfig struct {
	// Mode is server, proxy (beside another DHCP server) or off.
	Mode    string         `yaml:"mode"`
	Listen  string         `yaml:"listen"`
	Subnets []subnetConfig `yaml:"subnets"`
	// Assertive wins against a second DHCP server; Authoritative refuses clients
	// that ask for addresses nobody here knows.
	Assertive bool `yaml:"assertive"`
	// Unknown says how machines are served whose MAC is no node's: boot (they get
	// iPXE, tell who they are and boot their own disk), lease (an address and
	// nothing to boot) or silent. The last two need every node's MAC to be known, by
	// mac in the inventory or from its BMC.
	Unknown       string `yaml:"unknown"`
	Authoritative bool   `yaml:"authoritative"`
	// Unicast answers clients without an address by a frame of their own.
	Unicast bool `yaml:"unicast"`
	// ReplyDelay holds answers to ROMs back, by the first three bytes of the MAC.
	ReplyDelay map[string]time.Duration `yaml:"replyDelay"`
	// RelayPort is where relays take replies; 67 but for tests without root.
	RelayPort int `yaml:"relayPort"`
	// BootListen is the ProxyDHCP port; empty is port 4011 beside port 67.
	BootListen string `yaml:"bootListen"`
}

type tftpConfig struct {
	Listen string `yaml:"listen"`
	// MaxTransfers and MaxPerClient bound the transfers at one time, overall and to
	// one address; 0 leaves it at 1,000 and 8. Raise the second where many machines
	// share one address.
	MaxTransfers int `yaml:"maxTransfers"`
	MaxPerClient int `yaml:"maxPerClient"`
}

type subnetConfig struct {
	CIDR    netip.Prefix  `yaml:"cidr"`
	Range   addressRange  `yaml:"range"`
	Gateway netip.Addr    `yaml:"gateway"`
	DNS     []netip.Addr  `yaml:"dns"`
	Lease   time.Duration `yaml:"lease"`
}

// addressRange is written FIRST-LAST.
type addressRange struct{ First, Last netip.Addr }

// UnmarshalText reads FIRST-LAST.
func (r *addressRange) UnmarshalText(text []byte) error {
	first, last, found := strings.Cut(string(text), "-")
	if !found {
		return fmt.Errorf("range %q is not FIRST-LAST, such as 192.168.42.100-192.168.42.200", text)
	}
	var err, errLast error
	r.First, err = netip.ParseAddr(strings.TrimSpace(first))
	r.Last, errLast = netip.ParseAddr(strings.TrimSpace(last))
	if err := errors.Join(err, errLast); err != nil {
		return fmt.Errorf("range %q: %w", text, err)
	}
	return nil
}

func (c *config) checkDHCP() error {
	placed := c.Network.Address.IsValid() || c.Network.Interface != "" || len(c.Network.Interfaces) > 0
	switch c.DHCP.Mode {
	case dhcpServer:
		if len(c.DHCP.Subnets) > 0 && !placed {
			return usageError("network: give interface or address, so that nodes can be told where this host is in their network")
		}
	case dhcpProxy:
		if !placed {
			return usageError("network: give interface or address, so that nodes can be told where this host is in their network")
		}
		if len(c.DHCP.Subnets) > 0 {
			return usageError("dhcp.subnets: in mode proxy another server gives the addresses: remove subnets, or use mode server")
		}
	case dhcpOff:
	default:
		return usageError("dhcp.mode is %q: it can be server, proxy or off", c.DHCP.Mode)
	}
	if _, known := admissions[c.DHCP.Unknown]; !known {
		return usageError("dhcp.unknown is %q: it can be boot, lease or silent", c.DHCP.Unknown)
	}
	if c.Network.Interface != "" && len(c.Network.Interfaces) > 0 {
		return usageError("network: give interface or interfaces, not both")
	}
	return nil
}

// serverAddress is this host's address in the provisioning network: the one
// configured, else the interface's only IPv4 address.
func (c *config) serverAddress() (netip.Addr, error) {
	if c.Network.Address.IsValid() {
		return c.Network.Address, nil
	}
	if len(c.Network.Interfaces) > 0 {
		return netip.Addr{}, usageError("network.interfaces names several: say with network.address by which of them BMCs reach this host")
	}
	if c.Network.Interface == "" {
		return netip.Addr{}, usageError("network: give interface or address in provision.yaml, so that nodes can be told where this host is in their network")
	}
	iface, err := net.InterfaceByName(c.Network.Interface)
	if err != nil {
		return netip.Addr{}, usageError("network.interface %s: %v; `ip -br address` lists the interfaces", c.Network.Interface, err)
	}
	addresses, err := iface.Addrs()
	if err != nil {
		return netip.Addr{}, usageError("network.interface %s: %v", c.Network.Interface, err)
	}
	var found []netip.Addr
	for _, a := range addresses {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil && prefix.Addr().Is4() {
			found = append(found, prefix.Addr())
		}
	}
	if len(found) != 1 {
		return netip.Addr{}, usageError("network.interface %s has %d IPv4 addresses: say which with network.address", c.Network.Interface, len(found))
	}
	return found[0], nil
}
