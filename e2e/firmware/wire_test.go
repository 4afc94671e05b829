package firmware

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/insomniacslk/dhcp/dhcpv4"
)

// rawServer is a UDP socket that a test plays TFTP server on.
type rawServer struct {
	t    *testing.T
	conn *net.UDPConn
}

func newRawServer(t *testing.T) rawServer {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return rawServer{t, conn}
}

func (s rawServer) addr() netip.AddrPort { return s.conn.LocalAddr().(*net.UDPAddr).AddrPort() }

func (s rawServer) receive() (string, netip.AddrPort) {
	buffer := make([]byte, 2048)
	if err := s.conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		s.t.Error(err)
	}
	n, from, err := s.conn.ReadFromUDPAddrPort(buffer)
	if err != nil {
		s.t.Error(err)
	}
	return string(buffer[:n]), from
}

func (s rawServer) send(to netip.AddrPort, packet string) {
	if _, err := s.conn.WriteToUDPAddrPort([]byte(packet), to); err != nil {
		s.t.Error(err)
	}
}

func newTestBoot(t testing.TB, platform string) *boot {
	t.Helper()
	b, err := Machine{MAC: "52:54:00:00:00:01", Platform: platform, TimeScale: 0.001, Timeout: 20 * time.Second}.newBoot(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The size probe ends in an ERROR that no server may answer (pin/tftp#125).
func TestSizeIsProbedAsTheFirmwareDoes(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ request, answer, abort string }{
		EFI: {
			"\x00\x01snponly.efi\x00octet\x00tsize\x000\x00blksize\x001468\x00",
			"\x00\x06tsize\x00284672\x00blksize\x001468\x00",
			"\x00\x05\x00\x08User aborted the transfer\x00",
		},
		PCBIOS: {
			"\x00\x01snponly.efi\x00octet\x00tsize\x000\x00",
			"\x00\x06TSIZE\x00284672\x00",
			"\x00\x05\x00\x00TFTP Aborted\x00",
		},
	}
	for platform, tt := range tests {
		t.Run(platform, func(t *testing.T) {
			t.Parallel()
			s := newRawServer(t)
			got := make(chan [2]string, 1)
			go func() {
				request, from := s.receive()
				s.send(from, tt.answer)
				abort, _ := s.receive()
				got <- [2]string{request, abort}
			}()
			size, err := newTestBoot(t, platform).probeSize(t.Context(), s.addr(), "snponly.efi")
			if err != nil || size != 284672 {
				t.Errorf("size = %d, %v, want 284672", size, err)
			}
			if diff := cmp.Diff([2]string{tt.request, tt.abort}, <-got); diff != "" {
				t.Errorf("packets (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDuplicateBlocksAreNotAcknowledgedTwice(t *testing.T) {
	t.Parallel()
	s := newRawServer(t)
	acks := make(chan []string, 1)
	go func() {
		_, from := s.receive()
		s.send(from, "\x00\x06blksize\x008\x00")
		first, _ := s.receive()
		s.send(from, "\x00\x03\x00\x0112345678")
		second, _ := s.receive()
		s.send(from, "\x00\x03\x00\x0112345678") // again: Sorcerer's Apprentice
		s.send(from, "\x00\x03\x00\x02end")
		third, _ := s.receive()
		acks <- []string{first, second, third}
	}()
	var body bytes.Buffer
	b := newTestBoot(t, EFI)
	b.machine.MinRetry = 10 * time.Second
	image, err := b.download(t.Context(), s.addr(), "x", &body, 100, "blksize", "8")
	if err != nil || body.String() != "12345678end" || image.Size != 11 {
		t.Errorf("body = %q, %+v, %v, want 11 bytes", body.String(), image, err)
	}
	want := []string{"\x00\x04\x00\x00", "\x00\x04\x00\x01", "\x00\x04\x00\x02"}
	if diff := cmp.Diff(want, <-acks); diff != "" {
		t.Errorf("acknowledgements (-want +got):\n%s", diff)
	}
}

func TestDownloadIsBounded(t *testing.T) {
	t.Parallel()
	s := newRawServer(t)
	go func() {
		_, from := s.receive()
		s.send(from, "\x00\x03\x00\x01too long")
	}()
	if _, err := newTestBoot(t, EFI).download(t.Context(), s.addr(), "x", io.Discard, 5); err == nil {
		t.Error("a file above the limit was taken")
	}
}

func TestSilentTFTPServerEndsTheTransfer(t *testing.T) {
	t.Parallel()
	b := newTestBoot(t, EFI)
	b.machine.MinRetry = 5 * time.Millisecond
	if _, err := b.probeSize(t.Context(), newRawServer(t).addr(), "x"); err == nil {
		t.Error("a silent server has a size")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.probeSize(ctx, newRawServer(t).addr(), "x"); !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v, want context.Canceled", err)
	}
}

// FuzzReply: nothing that a DHCP server may send makes a machine panic.
func FuzzReply(f *testing.F) {
	reply, err := dhcpv4.New(dhcpv4.WithMessageType(dhcpv4.MessageTypeAck), dhcpv4.WithYourIP(net.IPv4(10, 0, 0, 1)),
		dhcpv4.WithGeneric(dhcpv4.OptionVendorSpecificInformation, []byte{6, 1, 8, 255}),
		dhcpv4.WithGeneric(dhcpv4.GenericOptionCode(175), []byte{176, 1, 1}), dhcpv4.WithNetmask(net.CIDRMask(24, 32)))
	if err != nil {
		f.Fatal(err)
	}
	reply.OpCode = dhcpv4.OpcodeBootReply
	f.Add(reply.ToBytes())
	f.Add(reply.ToBytes()[:240])
	short := reply.ToBytes()
	short[2] = 200 // hlen
	f.Add(short)
	odd, err := hex.DecodeString("0201060011223344")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(odd)
	f.Fuzz(func(t *testing.T, data []byte) {
		r, ok := parseReply(data)
		if !ok {
			return
		}
		b := newTestBoot(t, EFI)
		_ = b.acceptAsROM(r)
		_ = complaint(b.rom(), r, r)
		b.lease = leaseOf(r)
		_ = newSettings(b).expand(b.lease.file + " ${ip} ${netmask} ${gateway} ${dns} ${next-server}")
		_ = b.sourceIP()
	})
}

// FuzzTFTP: no answer of a TFTP server makes a machine panic.
func FuzzTFTP(f *testing.F) {
	for _, seed := range []string{
		"\x00\x06tsize\x00284672\x00blksize\x001468\x00", "\x00\x06", "\x00\x06\x00\x00\x00", "\x00\x05\x00\x01File not found", "\x00\x03\x00\x01x",
		"\x00\x06blksize\x000\x00", "\x00\x06blksize\x00-1\x00tsize\x0099999999999999999999\x00", "\x00\x09xx", "\x00",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		server, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = server.Close() }()
		go func() {
			buffer := make([]byte, 2048)
			for {
				_, from, err := server.ReadFromUDPAddrPort(buffer)
				if err != nil {
					return
				}
				_, _ = server.WriteToUDPAddrPort(data, from)
			}
		}()
		b := newTestBoot(t, EFI)
		b.machine.MinRetry = time.Millisecond
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		address := server.LocalAddr().(*net.UDPAddr).AddrPort()
		_, _ = b.probeSize(ctx, address, "x")
		_, _ = b.download(ctx, address, "x", io.Discard, 1<<20, "blksize", "1468")
	})
}
