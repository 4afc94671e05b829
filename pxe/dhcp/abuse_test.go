package dhcp

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// load is many clients behind relays of their own, which lease one after the
// other and keep book of what they were told.
type load struct {
	t  *testing.T
	to netip.AddrPort

	mu     sync.Mutex
	leased map[string]string // IP -> MAC
	acks   chan struct{}
}

// run leases until ctx ends.
func (l *load) run(ctx context.Context, conn *net.UDPConn, giaddr string, round, worker byte) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	for i := uint16(0); ctx.Err() == nil; i++ {
		mac := netMAC(binary.BigEndian.AppendUint16([]byte{2, 0, round, worker}, i))
		ip := l.lease(ctx, conn, giaddr, mac, uint32(round)<<24|uint32(i)<<1|1)
		if ip == "" {
			return
		}
		l.mu.Lock()
		if other, twice := l.leased[ip]; twice && other != mac {
			l.t.Errorf("%s was leased to %s and to %s", ip, other, mac)
		}
		l.leased[ip] = mac
		l.mu.Unlock()
		l.acks <- struct{}{}
	}
}

// lease runs a four-way exchange; empty when ctx ended before its ACK.
func (l *load) lease(ctx context.Context, conn *net.UDPConn, giaddr, mac string, xid uint32) string {
	offer := l.ask(ctx, conn, packet{mac: mac, xid: xid, giaddr: giaddr, options: with(discover, uefi())}, dhcpv4.MessageTypeOffer)
	if offer == nil {
		return ""
	}
	chosen := with(request, uefi(), address(54, serverAddress), address(50, offer.YourIPAddr.String()))
	ack := l.ask(ctx, conn, packet{mac: mac, xid: xid, giaddr: giaddr, options: chosen}, dhcpv4.MessageTypeAck)
	if ack == nil {
		return ""
	}
	return ack.YourIPAddr.String()
}

// ask sends a packet, again if need be, until its answer comes or ctx ends.
func (l *load) ask(ctx context.Context, conn *net.UDPConn, p packet, want dhcpv4.MessageType) *dhcpv4.DHCPv4 {
	b := make([]byte, packetSize)
	for {
		_ = conn.SetReadDeadline(time.Now().Add(time.Second))
		if ctx.Err() != nil {
			return nil
		}
		_, _ = conn.WriteToUDPAddrPort(p.bytes(), l.to) // fails once when the killed server's port is closed
		for {
			n, err := conn.Read(b)
			if err != nil {
				break
			}
			reply, err := dhcpv4.FromBytes(b[:n])
			if err == nil && reply.MessageType() == want && binary.BigEndian.Uint32(reply.TransactionID[:]) == p.xid {
				return reply
			}
		}
	}
}

// I8: SIGKILL at any instant under load. No confirmed lease is forgotten and no
// address is given twice.
func TestKilledServerForgetsNoConfirmedLease(t *testing.T) {
	t.Parallel()
	const workers, rounds, acksBeforeKill = 4, 4, 150
	file := filepath.Join(t.TempDir(), "leases")
	r := newRelay(t)
	l := &load{t: t, leased: map[string]string{}, acks: make(chan struct{}, 100_000)}
	conns := make([]*net.UDPConn, 0, workers)
	giaddr := func(n int) string { return netip.AddrFrom4([4]byte{127, 10, 0, byte(50 + n)}).String() }
	for n := range workers {
		conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(giaddr(n)), Port: r.port()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		conns = append(conns, conn)
	}
	for round := range rounds {
		p := startProcess(t, file, r.port())
		l.to = p.addr
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		for n, conn := range conns {
			group.Go(func() { l.run(ctx, conn, giaddr(n), byte(round), byte(n)) })
		}
		for range acksBeforeKill {
			<-l.acks
		}
		if err := p.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		cancel()
		group.Wait()
		_ = p.cmd.Wait()
	}
	r.to = startProcess(t, file, r.port()).addr
	if len(l.leased) < rounds*acksBeforeKill {
		t.Fatalf("%d leases only", len(l.leased))
	}
	for ip, mac := range l.leased {
		ack := r.ask(packet{mac: mac, options: with(request, plain(), address(50, ip))})
		if got := ack.YourIPAddr.String(); got != ip {
			t.Errorf("%s got %s after the kills, had %s", mac, got, ip)
		}
	}
}

// Abuse: floods from one machine and from invented ones, and junk between.
// Memory is bounded, and a machine with a reservation is served meanwhile.
func TestFloodKeepsNoReservedMachineOut(t *testing.T) {
	t.Parallel()
	r, s, _ := serveRelay(t, func(o *Options) {
		o.Reservations = map[string]netip.Addr{testMAC: netip.MustParseAddr("127.10.8.5")}
	})
	flood := newRelay(t) // its answers go to the relay's port, which is r's
	flood.to = s.Addr()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const rounds, burst = 40, 250
	for round := range uint32(rounds) {
		for i := range uint32(burst) {
			mac := netMAC(binary.BigEndian.AppendUint32([]byte{2, 9}, round*burst+i))
			switch i % 4 {
			case 0: // one machine, over and over
				mac = "02:08:00:00:00:01"
			case 1:
				flood.send(make([]byte, 100+i))
				continue
			}
			flood.send(packet{mac: mac, giaddr: "127.10.0.66", xid: i + 1, options: with(discover, uefi(), text(82, "\x01\x04eth1"))}.bytes())
		}
		if got := r.lease(testMAC); got != "127.10.8.5" {
			t.Fatalf("round %d: the reserved machine got %s", round, got)
		}
	}
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapInuse) - int64(before.HeapInuse); grown > 64<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	s.work.Lock()
	defer s.work.Unlock()
	if n := len(s.engine.table.byIP); n > 2048 {
		t.Errorf("%d addresses of a pool of 2,048 are held", n)
	}
}
