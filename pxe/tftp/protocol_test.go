package tftp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"
)

// RFC 7440: a window of blocks for one ACK; what was lost is sent again from
// the block that the client names.
func TestWindow(t *testing.T) {
	t.Parallel()
	b := serve(t)
	c := b.client(t)
	c.read("snponly.efi", "blksize", "1468", "windowsize", "4")
	c.options()
	c.ack(0)
	wantBlocks := func(from, to uint16) {
		t.Helper()
		for n := from; n <= to; n++ {
			if got := binary.BigEndian.Uint16(c.want(opData)); got != n {
				t.Fatalf("block %d, want %d", got, n)
			}
		}
	}
	wantBlocks(1, 4)
	c.ack(4)
	wantBlocks(5, 8)
	c.ack(6) // 7 was lost
	wantBlocks(7, 10)
	for range 5 {
		c.ack(6) // 7 was lost again: believed once
	}
	wantBlocks(7, 10)
	c.ack(10)
	wantBlocks(11, 14)
	c.reply(opError, 0, "enough\x00")
	if got := b.transfer(t); got.Outcome != Aborted || got.Sent != 14*1468 {
		t.Errorf("transfer %+v, want aborted after 14 blocks", got)
	}
}

// The client's own timeout is kept (RFC 2349).
func TestTimeoutOption(t *testing.T) {
	t.Parallel()
	r, refused := parseRequest(requestPacket(opRead, "x", "octet", "TimeOut", "7"))
	if refused != nil || r.timeout != 7*time.Second {
		t.Fatalf("request %+v refused %v, want 7 s", r, refused)
	}
	x := &transfer{block: 512, window: 1, wait: r.timeout, patient: true, content: make([]byte, 5)}
	start := time.Now()
	var out countingOutbox
	x.begin(start, &out)
	for i := range retriesUnproven {
		at := start.Add(time.Duration(i+1) * 7 * time.Second)
		if x.overdue(at.Add(-time.Millisecond), &out) || out.packets != i+1 {
			t.Fatalf("%d packets before %s", out.packets, at.Sub(start))
		}
		if x.overdue(at, &out) || out.packets != i+2 {
			t.Fatalf("%d packets at %s", out.packets, at.Sub(start))
		}
	}
	if !x.overdue(start.Add(time.Hour), &out) {
		t.Error("a silent client is waited for for ever")
	}
}

func TestModesAndMalformedRequests(t *testing.T) {
	t.Parallel()
	b := serve(t)
	for mode, want := range map[string]refusal{"mail": refuseMode, "junk": refuseMode, "": refuseMode} {
		c := b.client(t)
		c.sendTo(requestPacket(opRead, "snponly.efi", mode), c.to)
		c.wantError(want)
	}
	for _, mode := range []string{"OCTET", "NetAscii"} {
		c := b.client(t)
		c.sendTo(requestPacket(opRead, "snponly.efi", mode), c.to)
		c.want(opData)
	}
	for _, malformed := range []string{"\x00\x01snponly.efi", "\x00\x01snponly.efi\x00", "\x00\x01snponly.efi\x00octet", "\x00\x01"} {
		c := b.client(t)
		c.sendTo([]byte(malformed), c.to)
		c.wantError(refuseMalformed)
	}
	for _, stray := range []string{"\x00\x04\x00\x01", "\x00\x05\x00\x08no\x00", "\x00\x06tsize\x001\x00", "\x00\x63", "\x00"} {
		c := b.client(t)
		c.sendTo([]byte(stray), c.to)
		c.wantSilence(20 * time.Millisecond)
	}
}

func TestNetascii(t *testing.T) {
	t.Parallel()
	b := serve(t, func(o *Options) { o.Autoexec = func(netip.Addr) string { return "#!ipxe\necho \r\n" } })
	c := b.client(t)
	c.sendTo(requestPacket(opRead, "autoexec.ipxe", "netascii", "tsize", "0"), c.to)
	const want = "#!ipxe\r\necho \r\x00\r\n"
	if got := c.options()["tsize"]; got != fmt.Sprint(len(want)) {
		t.Errorf("tsize %s, want %d", got, len(want))
	}
	c.ack(0)
	if got := string(c.want(opData)[2:]); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A lost first answer: the repeated request gets it again, from the same port,
// and no second transfer.
func TestRepeatedRequest(t *testing.T) {
	t.Parallel()
	b := serve(t, func(o *Options) { o.Timeout = time.Hour })
	c := b.client(t)
	c.read("ipxe-arm64.efi", "blksize", "1468")
	c.options()
	first := c.tid
	c.read("ipxe-arm64.efi", "blksize", "1468")
	c.options()
	if c.tid != first {
		t.Errorf("the repetition came from %s, the first answer from %s", c.tid, first)
	}
	c.read("ipxe-arm64.efi") // something else from the same port: the ROM began anew
	c.want(opData)
	if got := b.transfer(t); got.Outcome != Aborted {
		t.Errorf("outcome %s, want the first one aborted", got.Outcome)
	}
}

// A stranger who knows a client's address can neither get data nor end its transfer.
func TestPacketsOfStrangersAreIgnored(t *testing.T) {
	t.Parallel()
	b := serve(t)
	c, stranger := b.client(t), b.client(t)
	c.read("ipxe-arm64.efi", "blksize", "512")
	c.options()
	stranger.tid = c.tid
	stranger.ack(0)
	stranger.reply(opError, 8, "end\x00")
	stranger.wantSilence(20 * time.Millisecond)
	c.ack(0)
	c.want(opData)
}

// Abuse: 1,000 half-open transfers from invented clients fill all places. An
// honest client is served all the same, and memory stays small.
func TestHalfOpenTransfersKeepNobodyOut(t *testing.T) {
	t.Parallel()
	b := serve(t, func(o *Options) { o.Timeout = time.Hour })
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 1500 {
		c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.WriteToUDPAddrPort(requestPacket(opRead, "snponly.efi", "octet", "tsize", "0"), b.Addr()); err != nil {
			t.Fatal(err)
		}
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, _, err := c.ReadFromUDPAddrPort(make([]byte, 64)); err != nil { // its answer: then it is half-open
			t.Fatal(err)
		}
		_ = c.Close()
	}
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapInuse) - int64(before.HeapInuse); grown > 32<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	b.admission.mu.Lock()
	running, listed := b.admission.running, b.admission.halfOpen.Len()
	b.admission.mu.Unlock()
	if running != 1000 || listed != 1000 {
		t.Errorf("%d transfers, %d half-open; want 1000 of both", running, listed)
	}
	time.Sleep(slowAnswer) // so that even the last one counts as half-open
	if got := b.client(t).fetch("snponly.efi", 1468); !bytes.Equal(got, pattern(sizeSNP)) {
		t.Error("the honest client got something else")
	}
}

// Block numbers wrap at 65,535: files above 33 MB with 512-byte blocks.
func TestBlockNumbersWrap(t *testing.T) {
	t.Parallel()
	x := &transfer{block: 8, window: 4, wait: time.Second, content: make([]byte, 8*200_000+3)}
	now := time.Now()
	var out countingOutbox
	x.begin(now, &out)
	for !x.acknowledge(uint16(x.sent), now, &out) {
	}
	if x.acked != 200_001 || out.bytes != len(x.content) {
		t.Errorf("%d blocks, %d bytes; want 200001 and %d", x.acked, out.bytes, len(x.content))
	}
}

// countingOutbox counts what a transfer sends.
type countingOutbox struct{ packets, bytes int }

func (o *countingOutbox) data(_ *transfer, _ int64, chunk []byte) {
	o.packets++
	o.bytes += len(chunk)
}
func (o *countingOutbox) plain(*transfer, []byte) { o.packets++ }

// FuzzRequest parses packets of any content.
func FuzzRequest(f *testing.F) {
	for _, s := range []string{
		"\x00\x01snponly.efi\x00octet\x00tsize\x000\x00blksize\x001468\x00", "\x00\x01a\x00octet\x00BLKSIZE\x007\x00windowsize\x0065535\x00timeout\x000\x00",
		"\x00\x01\x00\x00", "\x00\x02x\x00octet\x00", "\x00\x01a\x00netascii\x00blksize\x00", "\x00\x01", "\x00\x05\x00\x00", "\x00\x01a\x00octet\x00tsize\x00-1\x00tsize\x001\x00",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, packet []byte) {
		r, refused := parseRequest(packet)
		if r != nil && refused != nil {
			t.Fatal("both accepted and refused")
		}
		if refused != nil && strings.ContainsAny(refused.text, "/\\") {
			t.Errorf("refusal %q holds a path", refused.text)
		}
		if r == nil {
			return
		}
		if r.block < smallestBlock || r.block > largestBlock || r.window < 1 || r.window > largestWindow || r.timeout < 0 || r.timeout > longestTimeout*time.Second {
			t.Errorf("negotiated %+v", r)
		}
		// The answer is hardly larger than the question: values may grow to the file's size.
		if oack := r.oack(1 << 20); len(oack) > len(packet)+8 {
			t.Errorf("OACK of %d bytes for a request of %d", len(oack), len(packet))
		}
		_, _ = resolve(r.name)
	})
}

// FuzzTransfer lets a client acknowledge anything at any time. Whatever it
// does, one packet of its sets off no more than two windows, and a transfer is
// complete only if the last block was sent.
func FuzzTransfer(f *testing.F) {
	f.Add(uint16(1000), uint8(1), true, []byte{0, 1, 2, 3})
	f.Add(uint16(0), uint8(4), false, []byte{0, 0, 0, 1})
	f.Add(uint16(60000), uint8(32), true, []byte{0, 0, 0, 32, 31, 30, 64, 255})
	f.Fuzz(func(t *testing.T, size uint16, window uint8, oack bool, acks []byte) {
		x := &transfer{block: 8, window: max(1, min(int(window), largestWindow)), wait: time.Second, content: make([]byte, size)}
		if oack {
			x.oack = []byte("oack")
		}
		now := time.Now()
		var out countingOutbox
		x.begin(now, &out)
		random := rand.New(rand.NewPCG(uint64(size), uint64(window)))
		for _, a := range acks {
			before := out.packets
			number := uint16(x.acked) + uint16(a)
			if random.IntN(4) == 0 {
				number = uint16(random.Uint32())
			}
			complete := x.acknowledge(number, now, &out)
			if sent := out.packets - before; sent > x.window {
				t.Fatalf("one ACK set off %d packets, the window is %d", sent, x.window)
			}
			if x.acked > x.sent && !complete || x.sent > x.last || complete != (x.acked == x.last) {
				t.Fatalf("acked %d sent %d last %d complete %v", x.acked, x.sent, x.last, complete)
			}
			if complete {
				if x.report.Sent != int64(size) {
					t.Fatalf("complete after %d of %d bytes", x.report.Sent, size)
				}
				return
			}
			if before = out.packets; random.IntN(3) == 0 {
				now = now.Add(5 * time.Second)
				if gone := x.overdue(now, &out); gone != (out.packets == before) {
					t.Fatal("neither sent again nor given up")
				}
			}
		}
	})
}
