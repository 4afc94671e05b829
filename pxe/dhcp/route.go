package dhcp

import (
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// address decides where a reply goes and how it leaves (RFC 2131 4.1). A client
// without an address is reached by broadcast even if it did not ask for that:
// the kernel cannot resolve an address that nobody answers for yet, and all PXE
// firmware accepts broadcasts. Options.Unicast sends it a frame instead.
func (e *engine) address(x exchange, p *dhcpv4.DHCPv4) *Reply {
	r := &Reply{Packet: p, Interface: x.Link.Index, Delay: e.delay(x.Request)}
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
		if yours := fromIP(p.YourIPAddr); e.options.Unicast && yours.IsValid() && !p.IsBroadcast() && len(p.ClientHWAddr) == 6 && r.Interface != 0 && r.From.IsValid() {
			r.To, r.Frame = netip.AddrPortFrom(yours, clientPort), p.ClientHWAddr
		}
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

// delay is how long the answer to PXE firmware is held back.
func (e *engine) delay(r Request) time.Duration {
	mac := r.MAC()
	if len(e.options.ReplyDelay) == 0 || len(mac) < 3 || r.ClientClass() != ClassPXE {
		return 0
	}
	return e.options.ReplyDelay[string(mac[:3])]
}
