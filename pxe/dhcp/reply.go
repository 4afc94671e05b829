package dhcp

import (
	"encoding/binary"
	"net"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// Reply is a packet and the way it leaves.
type Reply struct {
	// Packet is the BOOTREPLY.
	Packet *dhcpv4.DHCPv4
	// To is where it goes.
	To netip.AddrPort
	// From is the source address; invalid leaves it to the kernel.
	From netip.Addr
	// Interface is the kernel's number of the interface it leaves by; 0 leaves it to the routes.
	Interface int
	// Frame is the hardware address of a client that has no address yet and is
	// reached without ARP; nil sends by UDP.
	Frame net.HardwareAddr
	// Delay is how long the reply is held back.
	Delay time.Duration

	encoded []byte // Packet, when it was encoded before
}

// wire is the packet as it is sent.
func (r *Reply) wire() []byte {
	if r.encoded == nil {
		r.encoded = r.Packet.ToBytes()
	}
	return r.encoded
}

// Ports of DHCP.
const clientPort = 68

var broadcastAddress = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// Renewal and rebinding times as parts of the lease time (RFC 2131 4.4.5).
const (
	renewalShare   = 0.5
	rebindingShare = 0.875
)

// droppable are the options left out, in this order, when a reply would be
// larger than its client accepts. What the client cannot do without is not here.
var droppable = []dhcpv4.OptionCode{
	dhcpv4.OptionClientIdentifier, dhcpv4.OptionDomainNameServer,
	dhcpv4.OptionClientMachineIdentifier, dhcpv4.OptionRebindingTimeValue, dhcpv4.OptionRenewTimeValue,
}

// reply builds an OFFER or ACK. Without an address it answers an INFORM, which
// gets no lease times (RFC 2131 4.3.5).
func (e *engine) reply(x exchange, kind dhcpv4.MessageType, ip netip.Addr) *Reply {
	p := x.answer(kind)
	p.Options.Update(dhcpv4.OptSubnetMask(mask(x.subnet.CIDR)))
	if x.subnet.Gateway.IsValid() {
		p.Options.Update(dhcpv4.OptRouter(x.subnet.Gateway.AsSlice()))
	}
	if len(x.subnet.DNS) > 0 {
		var list []byte
		for _, dns := range x.subnet.DNS {
			list = append(list, dns.AsSlice()...)
		}
		p.Options.Update(dhcpv4.OptGeneric(dhcpv4.OptionDomainNameServer, list))
	}
	if ip.IsValid() {
		p.YourIPAddr = ip.AsSlice()
		lease := x.subnet.Lease
		setDuration(p, dhcpv4.OptionIPAddressLeaseTime, lease)
		setDuration(p, dhcpv4.OptionRenewTimeValue, time.Duration(float64(lease)*renewalShare))
		setDuration(p, dhcpv4.OptionRebindingTimeValue, time.Duration(float64(lease)*rebindingShare))
	}
	if kind == dhcpv4.MessageTypeAck && x.current().IsValid() {
		p.ClientIPAddr = x.current().AsSlice()
	}
	x.boot.apply(p, x.server)
	return e.address(x, p).fit(x.limit())
}

// fit leaves options out until the packet has at most so many bytes.
func (r *Reply) fit(limit int) *Reply {
	r.encoded = r.Packet.ToBytes()
	for _, code := range droppable {
		if len(r.encoded) <= limit {
			break
		}
		r.Packet.Options.Del(code)
		r.encoded = r.Packet.ToBytes()
	}
	return r
}

// nak refuses the client's address.
func (e *engine) nak(x exchange, why string) *Reply {
	p := x.answer(dhcpv4.MessageTypeNak)
	p.Options.Del(dhcpv4.OptionClientMachineIdentifier)
	p.Options.Update(dhcpv4.OptMessage(why))
	if x.relay().IsValid() {
		// The client may not hold the address that the relay would unicast to (RFC 2131 4.3.2).
		p.SetBroadcast()
	}
	return e.address(x, p)
}

// answer starts a reply: what it repeats from the request and what names us.
// Flags and giaddr are repeated as they are, because the relay decides by them
// (pdhcp#3); option 82 returns unchanged and the encoder puts it last.
func (x exchange) answer(kind dhcpv4.MessageType) *dhcpv4.DHCPv4 {
	q := x.Packet
	p := &dhcpv4.DHCPv4{
		OpCode: dhcpv4.OpcodeBootReply, HWType: q.HWType, HopCount: q.HopCount,
		TransactionID: q.TransactionID, Flags: q.Flags,
		GatewayIPAddr: q.GatewayIPAddr, ClientHWAddr: q.ClientHWAddr,
		Options: dhcpv4.Options{},
	}
	p.Options.Update(dhcpv4.OptMessageType(kind))
	p.Options.Update(dhcpv4.OptServerIdentifier(x.id.AsSlice()))
	for _, code := range []dhcpv4.OptionCode{dhcpv4.OptionRelayAgentInformation, dhcpv4.OptionClientIdentifier} {
		if v := q.Options.Get(code); v != nil {
			p.Options.Update(dhcpv4.OptGeneric(code, v))
		}
	}
	if guid := x.GUID(); guid != nil {
		p.Options.Update(dhcpv4.OptGeneric(dhcpv4.OptionClientMachineIdentifier, guid))
	}
	return p
}

func mask(p netip.Prefix) []byte {
	return binary.BigEndian.AppendUint32(nil, ^uint32(0)<<(32-p.Bits()))
}

func setDuration(p *dhcpv4.DHCPv4, code dhcpv4.OptionCode, d time.Duration) {
	p.Options.Update(dhcpv4.OptGeneric(code, binary.BigEndian.AppendUint32(nil, uint32(d.Seconds()))))
}
