package dhcp

import (
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"golang.org/x/net/ipv4"
)

// P1 over real sockets: the reply comes to giaddr at the relay port although
// the request left from another port.
func TestRelayedExchangeOverSockets(t *testing.T) {
	t.Parallel()
	leases := make(chan Lease, 8)
	r, s, _ := serveRelay(t, func(o *Options) { o.OnLease = func(l Lease) { leases <- l } })
	other, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP("127.10.0.6")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	agent := text(82, "\x01\x04eth1")
	q := packet{giaddr: relayAddress, hops: 1, flags: 0, options: with(discover, uefi(), agent)}
	if _, err := other.WriteToUDPAddrPort(q.bytes(), s.Addr()); err != nil {
		t.Fatal(err)
	}
	offer, from := r.receive()
	wantType(t, offer, dhcpv4.MessageTypeOffer)
	wantOption(t, offer, 82, agent[2:])
	if from != s.Addr() {
		t.Errorf("reply came from %s, want the server's %s", from, s.Addr())
	}
	l := <-leases
	want := Lease{
		MAC: testMAC, IP: netip.MustParseAddr("127.10.1.0"), Class: ClassPXE, Arch: ArchEFIx64, Type: TypeOffer, XID: testXID,
		BootFile: "snponly.efi", Relay: netip.MustParseAddr(relayAddress), Time: l.Time, Expires: l.Time.Add(time.Minute),
	}
	if l != want {
		t.Errorf("lease %+v, want %+v", l, want)
	}
}

func TestRenewalOverSocketsGoesToTheClient(t *testing.T) {
	t.Parallel()
	r, s, _ := serveRelay(t)
	ip := r.lease(testMAC)
	client, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(ip)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	direct := &relay{t: t, conn: client, to: s.Addr()}
	direct.send(packet{ciaddr: ip, options: with(request, plain())}.bytes())
	ack, from := direct.receive()
	wantType(t, ack, dhcpv4.MessageTypeAck)
	if from != s.Addr() || ack.ClientIPAddr.String() != ip || ack.YourIPAddr.String() != ip {
		t.Errorf("ACK from %s of ciaddr %s yiaddr %s, want %s", from, ack.ClientIPAddr, ack.YourIPAddr, ip)
	}
}

// A server that keeps silent would be told from a slow one by time alone; the
// answer to the next request shows that the first one got none.
func TestMalformedPacketsAreDroppedAndServingGoesOn(t *testing.T) {
	t.Parallel()
	r, _, _ := serveRelay(t)
	good := packet{giaddr: relayAddress, options: with(discover, uefi())}.bytes()
	for cut := range len(good) {
		r.send(good[:cut:cut])
	}
	r.send(make([]byte, 1500))
	r.send(packet{giaddr: relayAddress, xid: 7, options: with(discover, uefi())}.bytes())
	for { // cut packets that still parse are served: that is what the End option rule allows
		if p, _ := r.receive(); p.TransactionID == (dhcpv4.TransactionID{0, 0, 0, 7}) {
			return
		}
	}
}

// insomniacslk/dhcp#382: a panic costs one packet.
func TestPanicCostsOnePacket(t *testing.T) {
	t.Parallel()
	s, err := New(loopbackOptions())
	if err != nil {
		t.Fatal(err)
	}
	s.engine.table = nil // any bug at all
	m := ipv4.Message{Buffers: [][]byte{packet{options: with(discover, uefi())}.bytes()}}
	m.N = len(m.Buffers[0])
	if d := s.handle(&port{}, m, time.Now()); d.Reply != nil || d.Reason != "panic" {
		t.Errorf("decision %+v, want none", d)
	}
}

func TestPortInUseSaysWhoToLookFor(t *testing.T) {
	t.Parallel()
	holder, _ := serve(t, loopbackOptions())
	o := loopbackOptions()
	o.Listen = holder.Addr().String()
	second, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	err = second.Listen()
	if err == nil || !strings.Contains(err.Error(), "is in use by another program: find it with `ss -ulpn 'sport = :") {
		t.Errorf("error %v, want one that names the port and ss", err)
	}
}

func TestMissingInterfaceIsExplained(t *testing.T) {
	t.Parallel()
	o := loopbackOptions()
	o.Interface = "nosuch0"
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(); err == nil || !strings.Contains(err.Error(), "nosuch0") && !strings.Contains(err.Error(), "needs root") {
		t.Errorf("error %v, want one that names the interface", err)
	}
}

func TestServeWithoutListenFails(t *testing.T) {
	t.Parallel()
	s, err := New(loopbackOptions())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(t.Context()); err == nil {
		t.Error("Serve without Listen did not fail")
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// The reader fails as it does when its interface goes down; the server must be
// back on the same port.
func TestSocketIsReopenedAfterAReadError(t *testing.T) {
	t.Parallel()
	r, s, _ := serveRelay(t)
	before := r.lease(testMAC)
	s.ports[0].interrupt()
	deadline := time.Now().Add(10 * time.Second)
	for { // packets sent while the socket is closed are lost, as on a real network
		_, _ = r.conn.WriteToUDPAddrPort(packet{giaddr: relayAddress, options: with(discover, uefi())}.bytes(), r.to)
		_ = r.conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		buffer := make([]byte, 2048)
		n, err := r.conn.Read(buffer)
		if err == nil {
			p, err := dhcpv4.FromBytes(buffer[:n])
			if err != nil || p.YourIPAddr.String() != before {
				t.Errorf("after the reopening %v (%v), want an offer of %s", p, err, before)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the socket did not come back")
		}
	}
}

func TestManyClientsAtOnceGetDistinctAddresses(t *testing.T) {
	t.Parallel()
	const relays, clients = 4, 100
	shared := newRelay(t)
	o := loopbackOptions()
	o.RelayPort = shared.port()
	s, _ := serve(t, o)
	var group sync.WaitGroup
	var mu sync.Mutex
	owners := map[string]string{}
	for n := range relays {
		// Each relay is an address of its own with the same port.
		ip := netip.AddrFrom4([4]byte{127, 10, 0, byte(50 + n)})
		conn, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(ip, uint16(o.RelayPort))))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		group.Go(func() {
			r := &relay{t: t, conn: conn, to: s.Addr()}
			for i := range clients {
				mac := netMAC([]byte{2, 0, 0, 0, byte(n), byte(i)})
				q := packet{mac: mac, giaddr: ip.String(), options: with(discover, uefi())}
				r.send(q.bytes())
				p, _ := r.receive()
				mu.Lock()
				if other, taken := owners[p.YourIPAddr.String()]; taken {
					t.Errorf("%s was offered to %s and %s", p.YourIPAddr, other, mac)
				}
				owners[p.YourIPAddr.String()] = mac
				mu.Unlock()
			}
		})
	}
	group.Wait()
}

func TestProblemsAreReportedOnceAMinute(t *testing.T) {
	t.Parallel()
	var r reporter
	c := newClock()
	p := Problem{Kind: AddressInUse, MAC: testMAC, Message: "a"}
	same := Problem{Kind: AddressInUse, MAC: testMAC, Message: "b"}
	if !r.due(p, c.now()) || r.due(same, c.now()) {
		t.Error("want the first reported and its repetition not")
	}
	c.advance(time.Minute)
	if !r.due(p, c.now()) {
		t.Error("want it reported again after a minute")
	}
	for i := range 5000 {
		r.due(Problem{Kind: AddressInUse, MAC: netMAC([]byte{byte(i >> 8), byte(i)})}, c.now())
	}
	if len(r.last) > mostReports {
		t.Errorf("%d remembered problems, want at most %d", len(r.last), mostReports)
	}
}
