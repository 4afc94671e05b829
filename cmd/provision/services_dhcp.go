package main

import (
	"net"
	"net/netip"
	"slices"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/provisioner"
	"github.com/talos-provision/provision/pxe/dhcp"
)

// dhcpOptions are nil when DHCP is left to somebody else.
func (s *session) dhcpOptions(c *provisioner.Controller, nodes []inventory.Node) (*dhcp.Options, error) {
	config, network := s.config.DHCP, s.config.Network
	if config.Mode == dhcpOff {
		return nil, nil //nolint:nilnil // nil options leave the service out
	}
	if config.Mode == dhcpServer && len(config.Subnets) == 0 {
		return nil, usageError("dhcp.subnets is empty: give the provisioning network's cidr and range, or dhcp.mode: off where another server gives leases and boot files, or dhcp.mode: proxy where it gives leases only")
	}
	options := &dhcp.Options{
		Listen: config.Listen, BootListen: config.BootListen, RelayPort: config.RelayPort,
		Interface: network.Interface, Interfaces: network.Interfaces, ServerAddress: network.Address,
		Assertive: config.Assertive, Authoritative: config.Authoritative, Unicast: config.Unicast, ReplyDelay: config.ReplyDelay,
		LeaseFile: s.config.leaseFile(), OnLease: c.ObserveLease, HTTPPath: c.HTTPPath,
		OnProblem: c.ObserveProblem, // its log tells of each too
		OnCommit:  s.onCommit,
		OnPacket:  s.metrics.DHCP,
	}
	options.Admit = s.admit(c)
	if len(network.Interfaces) == 0 {
		address, err := s.config.serverAddress()
		if err != nil {
			return nil, err
		}
		options.ServerAddress = address
	}
	if config.Mode == dhcpProxy {
		options.Mode = dhcp.ModeProxy
		return options, nil
	}
	options.Subnets = s.subnets()
	options.Reservations = s.reservations(options.Subnets, nodes)
	return options, nil
}

// admit says how a machine is served; nil is that every one is, and boots. A process
// that leads its site no more, and does not know it yet, serves nobody: whoever took
// its offer would wait for it in vain.
func (s *session) admit(c *provisioner.Controller) func(mac string) dhcp.Admission {
	policy, mayServe := admissions[s.config.DHCP.Unknown], s.mayServe
	if policy == dhcp.Boot && mayServe == nil {
		return nil
	}
	return func(mac string) dhcp.Admission {
		if mayServe != nil && mayServe(s.config.Site) != nil {
			return dhcp.Silent
		}
		if policy == dhcp.Boot || c.KnowsMAC(mac) {
			return dhcp.Boot
		}
		return policy
	}
}

// subnets are the networks that leases are given in.
func (s *session) subnets() []dhcp.Subnet {
	subnets := make([]dhcp.Subnet, 0, len(s.config.DHCP.Subnets))
	for _, n := range s.config.DHCP.Subnets {
		subnets = append(subnets, dhcp.Subnet{
			CIDR: n.CIDR, First: n.Range.First, Last: n.Range.Last, Gateway: n.Gateway, DNS: n.DNS, Lease: n.Lease,
		})
	}
	return subnets
}

// reservations keep a node's address for the first of its MACs, so that it boots
// at the address it will have. Its other ports get one of the range: they may be
// up at the same time. What two nodes claim is reserved for neither.
func (s *session) reservations(subnets []dhcp.Subnet, nodes []inventory.Node) map[string]netip.Addr {
	macs, addresses := map[string]int{}, map[netip.Addr]int{}
	type claim struct {
		node inventory.Node
		mac  string
		ip   netip.Addr
	}
	var claims []claim
	for _, n := range nodes {
		ip, err := netip.ParseAddr(n.IP)
		served := slices.ContainsFunc(subnets, func(s dhcp.Subnet) bool { return s.CIDR.Contains(ip) })
		if err != nil || len(n.MACs) == 0 || !served {
			continue
		}
		hardware, err := net.ParseMAC(n.MACs[0])
		if err != nil {
			continue
		}
		claims = append(claims, claim{n, hardware.String(), ip})
		macs[hardware.String()]++
		addresses[ip]++
	}
	reserved := make(map[string]netip.Addr, len(claims))
	for _, c := range claims {
		if macs[c.mac] > 1 || addresses[c.ip] > 1 {
			s.log.Warn("DHCP: no address is reserved, because another node has the same MAC or address", "node", c.node.ID(), "mac", c.mac, "ip", c.ip)
			continue
		}
		reserved[c.mac] = c.ip
	}
	return reserved
}
