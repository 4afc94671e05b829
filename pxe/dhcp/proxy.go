package dhcp

import (
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// bootItem is the sub-option of option 43 by which a client of port 4011 names
// what it chose from a boot menu (PXE 2.1); the answer repeats it.
const (
	bootItem       = 71
	bootItemLength = 4
)

// proxy answers beside another DHCP server: a DISCOVER gets an offer without an
// address. The REQUEST that follows goes to the other server; it is only noted,
// because it tells which address the machine will use.
func (e *engine) proxy(r Request, admission Admission, now time.Time) Decision {
	x, refused := e.bootExchange(r, admission, now)
	if refused != nil {
		return *refused
	}
	if x.kind == dhcpv4.MessageTypeDiscover {
		return Decision{Reply: e.bootReply(x, dhcpv4.MessageTypeOffer), Reason: "proxy offer"}
	}
	ip := x.wanted()
	if !ip.IsValid() {
		ip = x.current()
	}
	if x.kind != dhcpv4.MessageTypeRequest || !ip.IsValid() {
		return silent(ForeignMessage, "message type %s is another server's", x.kind)
	}
	d := Decision{Lease: x.lease(TypeProxy, ip, now), Reason: "the request is another server's", Ignored: OtherServer}
	if x.ClientClass() == ClassPXE && x.boot.vendor == nil {
		return d // counted at port 4011, where it asks next
	}
	return e.watched(x, d)
}

// bootService answers at port 4011, where firmware with an address asks for its
// boot file.
func (e *engine) bootService(r Request, admission Admission, now time.Time) Decision {
	x, refused := e.bootExchange(r, admission, now)
	if refused != nil {
		return *refused
	}
	if x.kind != dhcpv4.MessageTypeRequest && x.kind != dhcpv4.MessageTypeInform {
		return silent(ForeignMessage, "message type %s is not for port %d", x.kind, bootPort)
	}
	if item, chosen := encapsulated(r.Packet.Options.Get(dhcpv4.OptionVendorSpecificInformation), bootItem); chosen && len(item) == bootItemLength {
		x.boot.vendor = append(append([]byte{bootItem, bootItemLength}, item...), encapsulatedEnd)
	}
	d := Decision{Reply: e.bootReply(x, dhcpv4.MessageTypeAck), Reason: "told at the ProxyDHCP port"}
	if ip := x.current(); ip.IsValid() {
		d.Lease = x.lease(TypeProxy, ip, now)
	}
	return e.watched(x, d)
}

// bootExchange is an exchange about the boot file only. The decision is set when
// there is nothing to tell.
func (e *engine) bootExchange(r Request, admission Admission, now time.Time) (exchange, *Decision) {
	x := exchange{Request: r, kind: r.Packet.MessageType(), key: key{mac: string(r.MAC())}, now: now}
	refuse := func(class Ignored, reason string) (exchange, *Decision) {
		d := silent(class, "%s", reason)
		return x, &d
	}
	x.server = e.linkAddress(r)
	x.id = x.server
	switch {
	case r.ClientClass() == ClassPlain:
		return refuse(BootsNothing, "the client boots nothing")
	case admission != Boot:
		return refuse(NotAdmitted, "the machine is not to boot")
	case e.loops.paused(x.key.mac, now):
		return refuse(InBootLoop, "the machine is in a boot loop")
	case !x.server.IsValid():
		return refuse(NoOwnAddress, "this server's own address is not known: set the server address")
	}
	var ok bool
	if x.boot, ok = e.bootOf(r, x.server); !ok {
		d := unsupported(r)
		return x, &d
	}
	if x.boot.file == "" {
		return refuse(BootsNothing, "there is nothing to boot for this client")
	}
	return x, nil
}

// linkAddress is our address as a client sees it that has its own from elsewhere.
func (e *engine) linkAddress(r Request) netip.Addr {
	if ownAddress(Request{Link: r.Link}, r.Destination) {
		return r.Destination
	}
	configured := e.options.ServerAddress
	if configured.IsValid() && (r.relay().IsValid() || len(r.Link.Addresses) == 0 || r.Link.contains(configured)) {
		return configured
	}
	if len(r.Link.Addresses) > 0 {
		return r.Link.Addresses[0].Addr()
	}
	return netip.Addr{}
}

// bootReply is an answer that gives no address: yiaddr, mask and lease time
// belong to the other server.
func (e *engine) bootReply(x exchange, kind dhcpv4.MessageType) *Reply {
	p := x.answer(kind)
	p.Options.Del(dhcpv4.OptionClientIdentifier)
	x.boot.apply(p, x.server)
	if kind == dhcpv4.MessageTypeOffer {
		if !x.relay().IsValid() {
			p.SetBroadcast()
		}
		return e.address(x, p).fit(x.limit())
	}
	p.ClientIPAddr = x.Packet.ClientIPAddr
	return e.bootAddress(x, p).fit(x.limit())
}

// bootAddress sends an answer of port 4011 to where the question came from: UEFI
// asks from port 4011, BIOS ROMs from 68 (infra#1363).
func (e *engine) bootAddress(x exchange, p *dhcpv4.DHCPv4) *Reply {
	r := &Reply{Packet: p, Interface: x.Link.Index, To: x.Source, Delay: e.delay(x.Request)}
	if ownAddress(x.Request, x.server) {
		r.From = x.server
	}
	switch {
	case fromIP(x.Source.Addr().AsSlice()).IsValid():
	case x.current().IsValid():
		r.To = netip.AddrPortFrom(x.current(), x.Source.Port())
	default:
		r.To = netip.AddrPortFrom(broadcastAddress, clientPort)
	}
	if r.To.Addr() != broadcastAddress && !x.Link.contains(r.To.Addr()) {
		r.Interface = 0
	}
	return r
}
