package dhcp

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// discover offers an address and holds it, so that two clients that ask at
// once are never offered the same one (ironic-image#195).
func (e *engine) discover(x exchange) Decision {
	ip, ok := e.table.choose(x.key, x.wanted(), x.now)
	if !ok {
		return e.noAddress(x, ip)
	}
	x = e.bounded(x, ip)
	until := x.now.Add(min(e.options.OfferHold, x.subnet.Lease))
	e.table.offer(x.key, ip, until)
	return Decision{
		Reply:  e.reply(x, dhcpv4.MessageTypeOffer, ip),
		Lease:  x.lease(TypeOffer, ip, until),
		Reason: "offered",
	}
}

func (e *engine) noAddress(x exchange, reserved netip.Addr) Decision {
	if reserved.IsValid() {
		message := fmt.Sprintf("%s gets no address: its reserved address %s is used by another machine: find that machine and free the address", x.MAC(), reserved)
		return Decision{
			Reason:  "the reserved address is in use",
			Ignored: NoAddress,
			Problem: &Problem{Kind: ReservationBlocked, MAC: x.MAC().String(), IP: reserved, Message: message},
		}
	}
	message := fmt.Sprintf("%s gets no address: all addresses of subnet %s are in use: widen its range or shorten the lease time", x.MAC(), x.subnet.CIDR)
	return Decision{
		Reason:  "the pool is exhausted",
		Ignored: NoAddress,
		Problem: &Problem{Kind: PoolExhausted, MAC: x.MAC().String(), IP: x.subnet.CIDR.Addr(), Message: message},
	}
}

// request tells the four states of RFC 2131 4.3.2 apart.
func (e *engine) request(x exchange) Decision {
	switch {
	case x.selected().IsValid():
		return e.selecting(x)
	case x.current().IsValid():
		return e.renewing(x)
	case x.wanted().IsValid():
		return e.rebooting(x)
	}
	// Some PXE firmware leaves option 50 out after a fresh offer.
	if b := e.table.byKey[x.key]; b != nil && b.live(x.now) && e.table.available(x.key, b.ip, x.now) {
		return e.confirm(x, b.ip)
	}
	return silent(Incomplete, "the request names no address and no offer is pending")
}

// selecting answers a client that chose an offer. A client of another server
// is never answered: a NAK would make iPXE start over (ipxe#798).
func (e *engine) selecting(x exchange) Decision {
	if chosen := x.selected(); chosen != x.id && chosen != x.server && chosen != e.options.ServerAddress {
		e.table.withdraw(x.key)
		return Decision{
			Reason:  "the client chose another server",
			Ignored: OtherServer,
			Problem: &Problem{Kind: RivalServer, MAC: x.MAC().String(), IP: chosen, Message: fmt.Sprintf(
				"%s chose the DHCP server %s instead of this one: stop that server on the provisioning network, or let this one be assertive", x.MAC(), chosen)},
		}
	}
	ip := x.wanted()
	if !ip.IsValid() {
		ip = x.current()
	}
	if !ip.IsValid() {
		if b := e.table.byKey[x.key]; b != nil {
			ip = b.ip
		}
	}
	switch {
	case !ip.IsValid():
		return silent(Incomplete, "the request names no address and no offer is pending")
	case e.table.available(x.key, ip, x.now):
		return e.confirm(x, ip)
	}
	return e.refuse(x, ip, "the address is not free for this client")
}

// rebooting answers a client that remembers an address (INIT-REBOOT).
func (e *engine) rebooting(x exchange) Decision {
	ip := x.wanted()
	known := e.knows(x, ip)
	switch {
	case known && e.table.available(x.key, ip, x.now) && e.owns(x, ip):
		return e.confirm(x, ip)
	case known:
		return e.refuse(x, ip, "another address belongs to this client")
	case !e.options.Authoritative:
		return silent(UnknownClient, "the client is not known and this server is not authoritative")
	case e.table.available(x.key, ip, x.now):
		return e.confirm(x, ip)
	}
	return e.refuse(x, ip, "the address is not free for this client")
}

// renewing answers a client that extends its lease. A broadcast or relayed
// request of an unknown client (REBINDING) concerns another server's lease and
// is never answered: a NAK would end that lease.
func (e *engine) renewing(x exchange) Decision {
	ip := x.current()
	known := e.knows(x, ip)
	rebinding := x.relay().IsValid() || x.Destination == broadcastAddress
	switch {
	case known && e.owns(x, ip) && e.table.available(x.key, ip, x.now):
		return e.confirm(x, ip)
	case known:
		return e.refuse(x, ip, "another address belongs to this client")
	case rebinding:
		return silent(OtherServer, "the lease is another server's")
	case !e.options.Authoritative:
		return silent(UnknownClient, "the client is not known and this server is not authoritative")
	case e.table.available(x.key, ip, x.now):
		return e.confirm(x, ip)
	}
	return e.refuse(x, ip, "the address is not free for this client")
}

// knows reports whether the client is this server's: by a reservation, a lease
// that lasts, or one that ended for just this address. A client whose lease
// here ended long ago may be another server's by now.
func (e *engine) knows(x exchange, ip netip.Addr) bool {
	_, reserved := e.table.fixed[x.key]
	b := e.table.byKey[x.key]
	return reserved || b != nil && (b.live(x.now) || b.ip == ip)
}

// owns reports whether the address is the one that the client has here.
func (e *engine) owns(x exchange, ip netip.Addr) bool {
	if reserved, ok := e.table.fixed[x.key]; ok {
		return reserved == ip
	}
	b := e.table.byKey[x.key]
	return b != nil && b.ip == ip
}

// confirm gives the address to the client for the lease time, or for the rest of
// a lease that may not be renewed.
func (e *engine) confirm(x exchange, ip netip.Addr) Decision {
	x = e.bounded(x, ip)
	until := x.now.Add(x.subnet.Lease)
	e.table.lease(x.key, ip, until)
	return Decision{
		Reply:  e.reply(x, dhcpv4.MessageTypeAck, ip),
		Lease:  x.lease(TypeACK, ip, until),
		Reason: "confirmed",
	}
}

// refuse sends the client back to DISCOVER. It gives the address up by that, so
// its binding, if it is this address, ends.
func (e *engine) refuse(x exchange, ip netip.Addr, why string) Decision {
	if b := e.table.byKey[x.key]; b != nil && b.ip == ip {
		e.table.remove(b)
	}
	return Decision{Reply: e.nak(x, why), Reason: why}
}

// decline keeps everybody off an address that the client found in use. Only
// the holder can decline: anybody else could empty the pool.
func (e *engine) decline(x exchange) Decision {
	ip := x.wanted()
	b := e.table.byKey[x.key]
	if b == nil || b.ip != ip {
		return silent(UnknownClient, "the declined address is not this client's")
	}
	until := x.now.Add(e.options.DeclineHold)
	e.table.decline(x.key, ip, until)
	return Decision{
		Reason: "declined",
		Problem: &Problem{Kind: AddressInUse, MAC: x.MAC().String(), IP: ip, Message: fmt.Sprintf(
			"%s declined %s because another machine answers at it; the address is not used for %s: find the other machine", x.MAC(), ip, e.options.DeclineHold)},
	}
}

// release ends the client's lease at its wish.
func (e *engine) release(x exchange) Decision {
	b := e.table.byKey[x.key]
	if b == nil || b.ip != x.current() {
		return silent(UnknownClient, "the released address is not this client's")
	}
	e.table.release(x.key, x.now)
	return silent("", "released") // there is no answer to it
}

// inform gives options to a client that has its address from elsewhere.
func (e *engine) inform(x exchange) Decision {
	if !x.current().IsValid() {
		return silent(Incomplete, "the client names no address to answer to")
	}
	return Decision{Reply: e.reply(x, dhcpv4.MessageTypeAck, netip.Addr{}), Reason: "informed"}
}

func (x exchange) lease(kind string, ip netip.Addr, until time.Time) *Lease {
	return &Lease{
		MAC: x.MAC().String(), IP: ip, Expires: until,
		Class: x.ClientClass(), Arch: x.Arch(), Type: kind, XID: x.xid(),
		BootFile: x.boot.file, Relay: x.relay(), Time: x.now,
	}
}
