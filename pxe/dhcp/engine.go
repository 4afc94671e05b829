package dhcp

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// Lease is one address offered or confirmed.
type Lease struct {
	// MAC is the client's hardware address, lower case with colons.
	MAC string
	// IP is the address; Expires ends the offer or lease.
	IP      netip.Addr
	Expires time.Time
	// Class and Arch are what the client said it is.
	Class Class
	Arch  Arch
	// Type is OFFER, ACK or PROXY.
	Type string
	// XID is the client's transaction id.
	XID uint32
	// BootFile is the file name or URL given, empty for none.
	BootFile string
	// Relay is the relay agent's address, invalid for a client on the link.
	Relay netip.Addr
	// Time is when it was decided.
	Time time.Time
}

// Values of Lease.Type.
const (
	TypeOffer = "OFFER"
	TypeACK   = "ACK"
	// TypeProxy is no lease of ours: in ModeProxy, or at the ProxyDHCP port, a
	// machine with an address of another server was told what to boot.
	TypeProxy = "PROXY"
)

// Decision is what to do about one request.
type Decision struct {
	// Reply is the packet to send; nil keeps silent.
	Reply *Reply
	// Lease is set when an address was offered or confirmed.
	Lease *Lease
	// Problem is set when a person should know.
	Problem *Problem
	// Reason says why, for the log.
	Reason string
	// Ignored is the class of Reason where there is no reply although one was asked for.
	Ignored Ignored
	// asked is the type of the packet; 0 when it is none of a client.
	asked dhcpv4.MessageType
}

// engine decides about requests. It changes its table and does no I/O.
type engine struct {
	options Options
	table   *table
	loops   loops
}

func newEngine(o Options) (*engine, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	fixed, err := o.reservations()
	if err != nil {
		return nil, err
	}
	return &engine{options: o, table: newTable(o.Subnets, fixed, o.ServerAddress)}, nil
}

// exchange is one request with everything that is known about it.
type exchange struct {
	Request
	kind   dhcpv4.MessageType
	key    key
	subnet Subnet
	server netip.Addr // our address as this client sees it
	id     netip.Addr // option 54; differs from server behind an RFC 5107 relay
	boot   boot
	now    time.Time
}

// handlers holds the server's side of RFC 2131 4.3, one function a message.
var handlers = map[dhcpv4.MessageType]func(*engine, exchange) Decision{
	dhcpv4.MessageTypeDiscover: (*engine).discover,
	dhcpv4.MessageTypeRequest:  (*engine).request,
	dhcpv4.MessageTypeDecline:  (*engine).decline,
	dhcpv4.MessageTypeRelease:  (*engine).release,
	dhcpv4.MessageTypeInform:   (*engine).inform,
}

// decide answers one request. Equal tables, requests and times give equal decisions.
func (e *engine) decide(r Request, now time.Time) Decision {
	e.table.sweep(now)
	admission := e.admit(r.MAC().String())
	switch {
	case admission == Silent:
		return silent(NotAdmitted, "the machine is not to be answered")
	case r.BootPort:
		return e.bootService(r, admission, now)
	case e.options.Mode == ModeProxy:
		return e.proxy(r, admission, now)
	}
	kind := r.Packet.MessageType()
	handle, known := handlers[kind]
	if !known {
		return silent(ForeignMessage, "message type %s is not a client's", kind)
	}
	index, ok := e.subnetOf(r)
	if !ok {
		return e.unknownNetwork(r)
	}
	x := exchange{
		Request: r, kind: kind, now: now,
		key: key{index, string(r.MAC())}, subnet: e.options.Subnets[index],
	}
	x.server = e.serverAddress(r, x.subnet)
	if !x.server.IsValid() {
		return silent(NoOwnAddress, "this server's own address is not known: set the server address")
	}
	x.id = x.server
	if override := r.agent(dhcpv4.ServerIdentifierOverrideSubOption); override.IsValid() {
		x.id = override
	}
	if admission == LeaseOnly || e.loops.paused(x.key.mac, now) {
		return handle(e, x)
	}
	if x.boot, ok = e.bootOf(r, x.server); !ok {
		return unsupported(r)
	}
	return e.watched(x, handle(e, x))
}

// watched counts the binaries that a machine is told to load. A decision that
// makes a loop goes out once more; from then on there is a pause.
func (e *engine) watched(x exchange, d Decision) Decision {
	if d.Lease == nil || d.Lease.Type == TypeOffer || !x.boot.binary || !e.loops.count(string(x.MAC()), x.xid(), x.now) {
		return d
	}
	d.Problem = &Problem{Kind: BootLoop, MAC: x.MAC().String(), IP: d.Lease.IP, Message: fmt.Sprintf(
		"%s loaded iPXE %d times within %s without asking for its boot script; it is told nothing to boot for %s: look at its screen, and check that it reaches HTTP on this host",
		x.MAC(), mostBinaries+1, loopWindow, loopPause)}
	return d
}

func unsupported(r Request) Decision {
	return Decision{
		Reason:  "architecture cannot boot Talos",
		Ignored: NoBinary,
		Problem: &Problem{Kind: UnsupportedArch, MAC: r.MAC().String(), Message: fmt.Sprintf("network boot of %s is not answered: there is no iPXE binary for architecture %s", r.MAC(), r.Arch())},
	}
}

func silent(class Ignored, format string, args ...any) Decision {
	return Decision{Reason: fmt.Sprintf(format, args...), Ignored: class}
}

// subnetOf finds the subnet of the client: the relay's network, the network of
// the address that a renewing client uses, or that of the link. A link
// without a configured subnet is not ours to serve.
func (e *engine) subnetOf(r Request) (int, bool) {
	if relay := r.network(); relay.IsValid() {
		i := subnetIndex(e.options.Subnets, relay)
		return i, i >= 0
	}
	if ip := r.current(); ip.IsValid() {
		if i := subnetIndex(e.options.Subnets, ip); i >= 0 {
			return i, true
		}
	}
	if len(r.Link.Addresses) == 0 {
		i := subnetIndex(e.options.Subnets, e.options.ServerAddress)
		return i, i >= 0
	}
	for _, address := range r.Link.Addresses {
		if i := subnetIndex(e.options.Subnets, address.Addr()); i >= 0 {
			return i, true
		}
	}
	return 0, false
}

func (e *engine) unknownNetwork(r Request) Decision {
	relay := r.network()
	if !relay.IsValid() {
		return silent(UnknownNetwork, "no subnet is configured for the link that the request came from")
	}
	return Decision{
		Reason:  "no subnet is configured for the relay",
		Ignored: UnknownNetwork,
		Problem: &Problem{Kind: UnknownSubnet, IP: relay, Message: fmt.Sprintf("requests relayed from network %s are not answered: no subnet contains it; add the subnet to the DHCP configuration", relay)},
	}
}

// serverAddress is our address as the client can reach it.
func (e *engine) serverAddress(r Request, subnet Subnet) netip.Addr {
	configured := e.options.ServerAddress
	if configured.IsValid() && (r.relay().IsValid() || subnet.CIDR.Contains(configured)) {
		return configured
	}
	if !r.relay().IsValid() {
		for _, address := range r.Link.Addresses {
			if subnet.CIDR.Contains(address.Addr()) {
				return address.Addr()
			}
		}
	}
	if configured.IsValid() {
		return configured
	}
	if d := r.Destination; d.IsValid() && !d.IsMulticast() && d != netip.AddrFrom4([4]byte{255, 255, 255, 255}) && d != subnet.broadcast() {
		return d
	}
	if len(r.Link.Addresses) > 0 {
		return r.Link.Addresses[0].Addr()
	}
	return netip.Addr{}
}
