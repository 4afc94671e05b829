package pxe

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/talos-provision/provision/pxe/dhcp"
)

// dhcpAnswer is the address that a relayed client with the hardware address is
// offered by the server.
func dhcpAnswer(t *testing.T, server netip.AddrPort, relay *net.UDPConn, mac string) netip.Addr {
	t.Helper()
	hardware, err := net.ParseMAC(mac)
	if err != nil {
		t.Fatal(err)
	}
	discover := make([]byte, 244)
	discover[0], discover[1], discover[2], discover[3] = 1, 1, 6, 1
	copy(discover[24:], relay.LocalAddr().(*net.UDPAddr).IP.To4())
	copy(discover[28:], hardware)
	copy(discover[236:], "\x63\x82\x53\x63\x35\x01\x01\xff")
	if _, err := relay.WriteToUDPAddrPort(discover, server); err != nil {
		t.Fatal(err)
	}
	_ = relay.SetReadDeadline(time.Now().Add(10 * time.Second))
	offer := make([]byte, 1500)
	if n, err := relay.Read(offer); err != nil || n < 240 {
		t.Fatalf("%d bytes: %v", n, err)
	}
	return netip.AddrFrom4([4]byte(offer[16:20]))
}

// Reservations are replaced before Listen, while serving, and for the next Listen.
func TestReservationsAreReplacedAtAnyTime(t *testing.T) {
	t.Parallel()
	const mac = "52:54:00:12:34:56"
	relay, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 7, 1, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = relay.Close() })
	o := all(t)
	o.TFTP = nil
	o.DHCP.RelayPort = relay.LocalAddr().(*net.UDPAddr).Port
	o.DHCP.Reservations = map[string]netip.Addr{mac: netip.MustParseAddr("127.7.0.50")}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	set := func(ip string) {
		t.Helper()
		fixed := map[string]netip.Addr{mac: netip.MustParseAddr(ip)}
		if err := s.SetReservations(fixed); err != nil {
			t.Fatal(err)
		}
		clear(fixed) // the services have their own
	}
	want := func(ip string) {
		t.Helper()
		if got := dhcpAnswer(t, s.Addresses().DHCP, relay, mac); got != netip.MustParseAddr(ip) {
			t.Errorf("offered %s, want %s", got, ip)
		}
	}
	refused := func() {
		t.Helper()
		err := s.SetReservations(map[string]netip.Addr{mac: netip.MustParseAddr("10.0.0.1")})
		if err == nil || !strings.Contains(err.Error(), "none of the subnets") {
			t.Errorf("error %v", err)
		}
	}
	set("127.7.0.51")
	refused()
	ended := serve(t, s)
	want("127.7.0.51")
	set("127.7.0.52")
	refused()
	want("127.7.0.52")
	ended()
	ended = serve(t, s)
	want("127.7.0.52")
	ended()
}

// serve runs the services until the function that it returns is called.
func serve(t *testing.T, s *Services) func() {
	t.Helper()
	if err := s.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestReservationsWithoutALeasingServerDoNothing(t *testing.T) {
	t.Parallel()
	for name, server := range map[string]*dhcp.Options{"left out": nil, "proxy": {Mode: dhcp.ModeProxy, Listen: loopback}} {
		o := all(t)
		o.TFTP, o.DHCP = nil, server
		s, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // before and after Listen
			if err := s.SetReservations(map[string]netip.Addr{"52:54:00:12:34:56": netip.MustParseAddr("192.0.2.1")}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if s.Addresses() == (Addresses{}) {
				if err := s.Listen(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		s.Close()
	}
}
