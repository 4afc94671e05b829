package dhcp

import (
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// Fields of the packets that the tests send, built byte by byte: the library
// that parses them must not be the one that wrote them.
type packet struct {
	op, hlen, hops byte
	xid            uint32
	flags          uint16
	ciaddr, giaddr string
	mac            string
	options        [][]byte
	noEnd          bool
}

const (
	testMAC = "52:54:00:12:34:56"
	testXID = 0x11223344
	// Option 53 values.
	discover, request, decline, release, inform = 1, 3, 4, 7, 8
)

func (p packet) bytes() []byte {
	b := make([]byte, 240)
	b[0], b[1], b[2], b[3] = p.op, 1, p.hlen, p.hops
	if p.op == 0 {
		b[0] = 1
	}
	if p.hlen == 0 {
		b[2] = 6
	}
	if p.xid == 0 {
		p.xid = testXID
	}
	binary.BigEndian.PutUint32(b[4:], p.xid)
	binary.BigEndian.PutUint16(b[10:], p.flags)
	putIP(b[12:], p.ciaddr)
	putIP(b[24:], p.giaddr)
	if p.mac == "" {
		p.mac = testMAC
	}
	mac, err := net.ParseMAC(p.mac)
	if err != nil {
		panic(err)
	}
	copy(b[28:44], mac)
	copy(b[236:], []byte{0x63, 0x82, 0x53, 0x63})
	for _, o := range p.options {
		b = append(b, o...)
	}
	if !p.noEnd {
		b = append(b, 255)
	}
	return b
}

func putIP(b []byte, ip string) {
	if ip != "" {
		copy(b, netip.MustParseAddr(ip).AsSlice())
	}
}

func option(code byte, value ...byte) []byte {
	return append([]byte{code, byte(len(value))}, value...)
}

func text(code byte, value string) []byte { return option(code, []byte(value)...) }

func address(code byte, ip string) []byte {
	return option(code, netip.MustParseAddr(ip).AsSlice()...)
}

func kind(k byte) []byte { return option(53, k) }

var testGUID = append([]byte{0}, "0123456789abcdef"...)

// uefi is what OVMF 2022.11 puts into every packet.
func uefi(extra ...[]byte) [][]byte {
	return append([][]byte{
		option(57, 0x05, 0xc0),
		option(55, 1, 2, 3, 4, 5, 6, 12, 13, 15, 17, 18, 22, 23, 28, 40, 41, 42, 43, 50, 51, 54, 58, 59, 60, 66, 67, 97),
		option(97, testGUID...),
		option(94, 1, 3, 0),
		option(93, 0, 7),
		text(60, "PXEClient:Arch:00007:UNDI:003000"),
	}, extra...)
}

func romOptions(arch byte, extra ...[]byte) [][]byte {
	return append([][]byte{option(93, 0, arch), text(60, "PXEClient:Arch:000xx:UNDI:002001")}, extra...)
}

func ipxe() [][]byte { return uefi(text(77, "iPXE"), option(175, 0x13, 1, 1)) }

func plain() [][]byte { return [][]byte{option(55, 1, 3, 6, 15, 26)} }

func with(k byte, options [][]byte, extra ...[]byte) [][]byte {
	return slices.Concat([][]byte{kind(k)}, options, extra)
}

// clock is a clock that a test turns.
type clock struct{ at time.Time }

func (c *clock) now() time.Time          { return c.at }
func (c *clock) advance(d time.Duration) { c.at = c.at.Add(d) }
func newClock() *clock                   { return &clock{time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)} }

// rig is an engine with a clock: decisions without sockets.
type rig struct {
	t *testing.T
	*clock
	*engine
	link        Link
	destination netip.Addr
	source      netip.AddrPort
}

func testOptions() Options {
	return Options{
		ServerAddress: netip.MustParseAddr("10.0.0.1"),
		BootURL:       "http://10.0.0.1:8080",
		Subnets: []Subnet{
			{
				CIDR: netip.MustParsePrefix("10.0.0.0/24"), First: netip.MustParseAddr("10.0.0.100"), Last: netip.MustParseAddr("10.0.0.199"),
				Gateway: netip.MustParseAddr("10.0.0.254"), DNS: []netip.Addr{netip.MustParseAddr("1.1.1.1"), netip.MustParseAddr("8.8.8.8")},
			},
			{CIDR: netip.MustParsePrefix("10.20.0.0/16"), First: netip.MustParseAddr("10.20.1.0"), Last: netip.MustParseAddr("10.20.1.255")},
		},
	}
}

func newRig(t *testing.T, change ...func(*Options)) *rig {
	t.Helper()
	o := testOptions()
	for _, c := range change {
		c(&o)
	}
	e, err := newEngine(o)
	if err != nil {
		t.Fatal(err)
	}
	return &rig{
		t: t, clock: newClock(), engine: e,
		link:        Link{Index: 7, Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/24")}},
		destination: broadcastAddress,
	}
}

func (r *rig) ask(p packet) Decision {
	r.t.Helper()
	q, err := ParseRequest(p.bytes())
	if err != nil {
		r.t.Fatal(err)
	}
	q.Link, q.Destination, q.Source = r.link, r.destination, r.source
	return r.decide(q, r.now())
}

// reply asks and wants an answer, which it returns as the client would parse it.
func (r *rig) reply(p packet) *dhcpv4.DHCPv4 {
	r.t.Helper()
	d := r.ask(p)
	if d.Reply == nil {
		r.t.Fatalf("no reply: %s", d.Reason)
	}
	return onWire(r.t, d.Reply)
}

// silent asks and wants no answer.
func (r *rig) silent(p packet) Decision {
	r.t.Helper()
	d := r.ask(p)
	if d.Reply != nil {
		r.t.Fatalf("want silence, got %s of %s", d.Reply.Packet.MessageType(), d.Reply.Packet.YourIPAddr)
	}
	return d
}

func (r *rig) lease(mac string) netip.Addr {
	r.t.Helper()
	offer := r.reply(packet{mac: mac, options: with(discover, plain())})
	ack := r.reply(packet{mac: mac, options: with(request, plain(), address(54, "10.0.0.1"), address(50, offer.YourIPAddr.String()))})
	wantType(r.t, ack, dhcpv4.MessageTypeAck)
	return fromIP(ack.YourIPAddr)
}

func onWire(t *testing.T, r *Reply) *dhcpv4.DHCPv4 {
	t.Helper()
	p, err := dhcpv4.FromBytes(r.Packet.ToBytes())
	if err != nil {
		t.Fatalf("our own reply does not parse: %v", err)
	}
	return p
}

func wantType(t *testing.T, p *dhcpv4.DHCPv4, want dhcpv4.MessageType) {
	t.Helper()
	if got := p.MessageType(); got != want {
		t.Fatalf("message type %s, want %s (%s)", got, want, p.Message())
	}
}

func wantOption(t *testing.T, p *dhcpv4.DHCPv4, code byte, want []byte) {
	t.Helper()
	if got := p.Options[code]; !slices.Equal(got, want) {
		t.Errorf("option %d is % x %q, want % x %q", code, got, got, want, want)
	}
}

func wantNoOptions(t *testing.T, p *dhcpv4.DHCPv4, codes ...byte) {
	t.Helper()
	for _, code := range codes {
		if v, ok := p.Options[code]; ok {
			t.Errorf("option %d is present (% x), want none", code, v)
		}
	}
}
