package tftp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/pin/tftp/v3"
)

// BenchmarkDownloads sends a file of 1 MB to 1, 10 and 100 clients at once, and
// by the library github.com/pin/tftp for comparison. Clients and server share
// the processor, so that the differences between servers are larger than they look.
func BenchmarkDownloads(b *testing.B) {
	const size = 1 << 20
	for _, clients := range []int{1, 10, 100} {
		for name, start := range map[string]func(*testing.B, int) netip.AddrPort{"ours": benchOurs, "pin": benchPin} {
			b.Run(fmt.Sprintf("%s/%d", name, clients), func(b *testing.B) {
				to := start(b, size)
				b.SetBytes(int64(clients * size))
				for b.Loop() {
					var group sync.WaitGroup
					for range clients {
						group.Go(func() {
							if n, err := download(to, "ipxe-arm64.efi"); err != nil || n != size {
								b.Errorf("%d bytes, %v", n, err)
							}
						})
					}
					group.Wait()
				}
			})
		}
	}
}

func benchOurs(b *testing.B, size int) netip.AddrPort {
	folder := b.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "ipxe-arm64.efi"), pattern(size), 0o644); err != nil {
		b.Fatal(err)
	}
	s, err := New(Options{Listen: "127.0.0.1:0", IPXEDir: folder})
	if err != nil {
		b.Fatal(err)
	}
	if err := s.Listen(); err != nil {
		b.Fatal(err)
	}
	go func() { _ = s.Serve(b.Context()) }()
	return s.Addr()
}

func benchPin(b *testing.B, size int) netip.AddrPort {
	content := pattern(size)
	s := tftp.NewServer(func(_ string, to io.ReaderFrom) error {
		_, err := to.ReadFrom(bytes.NewReader(content))
		return err
	}, nil)
	s.SetTimeout(time.Second)
	s.SetBlockSize(largestBlock)
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		b.Fatal(err)
	}
	go func() { _ = s.Serve(conn) }()
	b.Cleanup(s.Shutdown)
	to := conn.LocalAddr().(*net.UDPAddr).AddrPort()
	for n := 0; n != size; { // until it has set its socket up, it ignores blksize
		if n, err = download(to, "warm-up"); err != nil {
			b.Fatal(err)
		}
	}
	return to
}

// download is a client as cheap as can be: it acknowledges and counts.
func download(to netip.AddrPort, name string) (int, error) {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.WriteToUDPAddrPort(requestPacket(opRead, name, "octet", "blksize", strconv.Itoa(largestBlock)), to); err != nil {
		return 0, err
	}
	buffer, ack, total, expected := make([]byte, 2048), make([]byte, headerSize), 0, uint16(1)
	binary.BigEndian.PutUint16(ack, opAck)
	for {
		if expected%64 == 1 {
			_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		}
		n, from, err := conn.ReadFromUDPAddrPort(buffer)
		if err != nil {
			return total, err
		}
		last := false
		if op := binary.BigEndian.Uint16(buffer); op == opOptions {
			binary.BigEndian.PutUint16(ack[2:], 0)
		} else {
			block := binary.BigEndian.Uint16(buffer[2:])
			if op != opData || block != expected {
				continue // a repetition
			}
			expected++
			total += n - headerSize
			last = n-headerSize < largestBlock
			binary.BigEndian.PutUint16(ack[2:], block)
		}
		if _, err := conn.WriteToUDPAddrPort(ack, from); err != nil || last {
			return total, err
		}
	}
}
