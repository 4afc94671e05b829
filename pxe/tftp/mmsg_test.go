package tftp

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

var loopback = netip.MustParseAddr("127.0.0.1")

func testPort(t *testing.T) (*port, netip.AddrPort) {
	t.Helper()
	p, err := openPort(loopback)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.close() })
	if err := p.setWait(20 * time.Second); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(p.fd)
	if err != nil {
		t.Fatal(err)
	}
	return p, netip.AddrPortFrom(loopback, uint16(name.(*unix.SockaddrInet4).Port))
}

// Every packet of a batch arrives whole, in order and with its sender; one that
// cannot be sent takes none of the others with it.
func TestBatchesCarryEveryPacket(t *testing.T) {
	t.Parallel()
	from, fromAddress := testPort(t)
	to, toAddress := testPort(t)
	var want []string
	b := batch{port: from, out: newOutbound()}
	for i := range 3*batchSize + 5 {
		destination := toAddress
		if i%10 == 3 {
			destination = netip.AddrPortFrom(loopback, 0) // the kernel refuses it
		}
		x := &transfer{report: Transfer{Client: destination}}
		chunk := strings.Repeat("x", i)
		packet := string([]byte{0, opData, byte(i >> 8), byte(i)}) + chunk
		if i%7 == 0 {
			b.plain(x, []byte(packet))
		} else {
			b.data(x, int64(i), []byte(chunk))
		}
		if destination == toAddress {
			want = append(want, packet)
		}
	}
	b.flush()
	var got []string
	for in := newInbox(); len(got) < len(want); {
		n, err := to.receive(in)
		if err != nil || n == 0 {
			t.Fatalf("%d packets, then %d, %v", len(got), n, err)
		}
		for i := range n {
			packet, sender := in.at(i)
			if sender != fromAddress {
				t.Errorf("a packet of %s, want %s", sender, fromAddress)
			}
			got = append(got, string(packet))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("packets (-want +got):\n%s", diff)
	}
}

// A packet that is larger than any that is expected is cut, and a wait without a
// packet ends.
func TestReceiveIsBounded(t *testing.T) {
	t.Parallel()
	from, _ := testPort(t)
	to, toAddress := testPort(t)
	b := batch{port: from, out: newOutbound()}
	b.plain(&transfer{report: Transfer{Client: toAddress}}, make([]byte, 4*ackSize))
	b.flush()
	in := newInbox()
	if n, err := to.receive(in); n != 1 || err != nil {
		t.Fatalf("%d packets, %v", n, err)
	}
	if packet, _ := in.at(0); len(packet) != ackSize {
		t.Errorf("%d bytes, want %d", len(packet), ackSize)
	}
	if err := to.setWait(time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if n, err := to.receive(in); n != 0 || err != nil {
		t.Errorf("%d packets, %v; want none", n, err)
	}
}

// Close may come at any time: the transfers are ended in good order before their
// sockets go, and the server can listen again.
func TestCloseWhileServing(t *testing.T) {
	t.Parallel()
	s, err := New(Options{Listen: "127.0.0.1:0", IPXEDir: t.TempDir(), Autoexec: func(netip.Addr) string { return "#!ipxe\n" }})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	c := newClient(t, s.Addr(), "127.0.0.1")
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(context.Background()) }()
	c.read("autoexec.ipxe", "tsize", "0")
	c.options()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	c.wantError(refuseStopping)
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "ended by itself") {
			t.Errorf("Serve ended with %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("Serve did not end")
	}
	if err := s.Listen(); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
