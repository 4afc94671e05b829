package dhcp

import (
	"net/netip"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// address decides where a reply goes and how it leaves (RFC 2131 4.1). A client
// without an address is reached by broadcast even if it did not ask for that:
// the kernel cannot resolve an address that nobody answers for yet, and all PXE
// firmware accepts broadcasts.
func (e *engine) address(x exchange, p *dhcpv4.DHCPv4) *Reply {
	r := &Reply{Packet: p, Interface: x.Link.Index}
	if ownAddress(x.Request, x.server) {
		r.From = x.server
	}
	current := x.current()
	switch {
	case x.relay().IsValid():
		r.To = netip.AddrPortFrom(x.relay(), uint16(e.options.RelayPort))
		r.Interface = 0 // the relay may be several hops away: the routes know
		return r
	case p.MessageType() == dhcpv4.MessageTypeNak || !current.IsValid():
		r.To = netip.AddrPortFrom(broadcastAddress, clientPort)
		return r
	case x.Source.Addr() == current:
		r.To = x.Source
	default:
		r.To = netip.AddrPortFrom(current, clientPort)
	}
	if !x.Link.contains(current) {
		r.Interface = 0
	}
	return r
}

// ownAddress reports whether ip is known to be this host's, so that the kernel
// will take it as a source.
func ownAddress(r Request, ip netip.Addr) bool {
	if r.Destination == ip {
		return true
	}
	for _, address := range r.Link.Addresses {
		if address.Addr() == ip {
			return true
		}
	}
	return false
}
