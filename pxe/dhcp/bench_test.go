package dhcp

import (
	"net"
	"net/netip"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/ipv4"
)

// BenchmarkExchanges runs four-way exchanges over sockets with durable leases, as
// perfdhcp does: a relay that keeps many clients in flight. Its own work is
// part of the figure.
func BenchmarkExchanges(b *testing.B) {
	const inFlight = 64
	for _, name := range []string{"pool", "reservations", "observed"} {
		b.Run(name, func(b *testing.B) {
			conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(relayAddress)})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			_ = conn.SetReadBuffer(4 << 20)
			o := loopbackOptions()
			o.RelayPort, o.LeaseFile = conn.LocalAddr().(*net.UDPAddr).Port, filepath.Join(b.TempDir(), "leases")
			o.Subnets[0].Last = netip.MustParseAddr("127.10.250.255")
			var observed atomic.Int64
			if name == "observed" {
				o.OnCommit = func(batch []LeaseRecord) { observed.Add(int64(len(batch))) }
			}
			if name == "reservations" {
				o.Reservations = map[string]netip.Addr{}
				for i, ip := 0, o.Subnets[0].First; i < 1000; i, ip = i+1, ip.Next() {
					o.Reservations[benchMAC(i)] = ip
				}
			}
			s, err := New(o)
			if err != nil {
				b.Fatal(err)
			}
			if err := s.Listen(); err != nil {
				b.Fatal(err)
			}
			go func() { _ = s.Serve(b.Context()) }()
			discovers := make([][]byte, 1000)
			for i := range discovers {
				discovers[i] = packet{mac: benchMAC(i), giaddr: relayAddress, options: with(discover, uefi())}.bytes()
			}
			var next atomic.Int64
			send := func(payload []byte) {
				if _, err := conn.WriteToUDPAddrPort(payload, s.Addr()); err != nil {
					b.Error(err)
				}
			}
			for range inFlight {
				send(discovers[int(next.Add(1))%len(discovers)])
			}
			buffer := make([]byte, 2048)
			for b.Loop() {
				for acked := false; !acked; {
					_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
					n, err := conn.Read(buffer)
					if err != nil {
						b.Fatal(err)
					}
					switch kind, _ := encapsulated(buffer[240:n], 53); kind[0] {
					case 2:
						send(requestFor(buffer[:n]))
					case 5:
						acked = true
						send(discovers[int(next.Add(1))%len(discovers)])
					}
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "exchanges/s")
		})
	}
}

func benchMAC(i int) string { return netMAC([]byte{2, 0, 0, 0, byte(i >> 8), byte(i)}) }

// requestFor answers an OFFER.
func requestFor(offer []byte) []byte {
	yiaddr := netip.AddrFrom4([4]byte(offer[16:20]))
	mac := netMAC(offer[28:34])
	return packet{mac: mac, giaddr: relayAddress, options: with(request, uefi(), address(54, serverAddress), address(50, yiaddr.String()))}.bytes()
}

// BenchmarkAnswer is the server's own share of an exchange: parse, decide,
// append to the lease file, encode; no sockets.
func BenchmarkAnswer(b *testing.B) {
	o := loopbackOptions()
	o.LeaseFile = filepath.Join(b.TempDir(), "leases")
	s, err := New(o)
	if err != nil {
		b.Fatal(err)
	}
	if s.journal, _, err = openJournal(o.LeaseFile, silentLog()); err != nil {
		b.Fatal(err)
	}
	batch := make([]ipv4.Message, 0, batchSize)
	for i := range batchSize / 2 {
		mac := benchMAC(i)
		ip := o.Subnets[0].First
		for range i {
			ip = ip.Next()
		}
		batch = append(batch,
			message(packet{mac: mac, giaddr: relayAddress, options: with(discover, uefi())}),
			message(packet{mac: mac, giaddr: relayAddress, options: with(request, uefi(), address(54, serverAddress), address(50, ip.String()))}))
	}
	b.ReportAllocs()
	p := &port{}
	for b.Loop() {
		s.answer(p, batch)
	}
	b.ReportMetric(float64(b.N*batchSize/2)/b.Elapsed().Seconds(), "exchanges/s")
}
