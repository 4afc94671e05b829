package dhcp

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// relay is a relay agent on loopback: it sends client packets from its giaddr
// and receives what the server sends there.
type relay struct {
	t    *testing.T
	conn *net.UDPConn
	to   netip.AddrPort
}

const (
	relayAddress  = "127.10.0.5"
	serverAddress = "127.10.0.1"
)

func loopbackOptions() Options {
	return Options{
		Listen: serverAddress + ":0", ServerAddress: netip.MustParseAddr(serverAddress), BootURL: "http://127.10.0.1:8080",
		Subnets: []Subnet{
			{CIDR: netip.MustParsePrefix("127.10.0.0/16"), First: netip.MustParseAddr("127.10.1.0"), Last: netip.MustParseAddr("127.10.8.255")},
			{CIDR: netip.MustParsePrefix("127.20.0.0/16"), First: netip.MustParseAddr("127.20.1.0"), Last: netip.MustParseAddr("127.20.1.255")},
		},
	}
}

func newRelay(t *testing.T) *relay {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(relayAddress)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &relay{t: t, conn: conn}
}

func (r *relay) port() int { return r.conn.LocalAddr().(*net.UDPAddr).Port }

func (r *relay) send(payload []byte) {
	r.t.Helper()
	if _, err := r.conn.WriteToUDPAddrPort(payload, r.to); err != nil {
		r.t.Fatal(err)
	}
}

// receive waits for the next reply.
func (r *relay) receive() (*dhcpv4.DHCPv4, netip.AddrPort) {
	r.t.Helper()
	_ = r.conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	buffer := make([]byte, 2048)
	n, from, err := r.conn.ReadFromUDPAddrPort(buffer)
	if err != nil {
		r.t.Fatalf("no reply: %v", err)
	}
	p, err := dhcpv4.FromBytes(buffer[:n])
	if err != nil {
		r.t.Fatal(err)
	}
	return p, from
}

func (r *relay) ask(p packet) *dhcpv4.DHCPv4 {
	r.t.Helper()
	p.giaddr = relayAddress
	r.send(p.bytes())
	reply, _ := r.receive()
	return reply
}

// lease runs the four-way exchange.
func (r *relay) lease(mac string) string {
	r.t.Helper()
	offer := r.ask(packet{mac: mac, options: with(discover, uefi())})
	ack := r.ask(packet{mac: mac, options: with(request, uefi(), address(54, serverAddress), address(50, offer.YourIPAddr.String()))})
	wantType(r.t, ack, dhcpv4.MessageTypeAck)
	return ack.YourIPAddr.String()
}

// serve runs a server until the test ends or the returned function is called.
func serve(t *testing.T, o Options) (*Server, func()) {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	var once sync.Once
	stop := func() {
		once.Do(func() {
			cancel()
			select {
			case err := <-ended:
				if err != nil {
					t.Errorf("Serve ended with %v, want nil", err)
				}
			case <-time.After(10 * time.Second):
				t.Error("Serve did not end")
			}
		})
	}
	t.Cleanup(stop)
	return s, stop
}

func serveRelay(t *testing.T, change ...func(*Options)) (*relay, *Server, func()) {
	t.Helper()
	r := newRelay(t)
	o := loopbackOptions()
	o.RelayPort = r.port()
	for _, c := range change {
		c(&o)
	}
	s, stop := serve(t, o)
	r.to = s.Addr()
	return r, s, stop
}
