package tftp

import (
	"bytes"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Duplicate ACKs cost nothing: one DATA each (no Sorcerer's Apprentice), and no crash.
func TestDuplicateAcks(t *testing.T) {
	t.Parallel()
	b := serve(t)
	c := b.client(t)
	c.read("ipxe-arm64.efi", "blksize", "512")
	c.options()
	c.ack(0)
	for block := uint16(1); block <= 2; block++ {
		c.want(opData)
		for range 6 {
			c.ack(block)
		}
	}
	c.want(opData) // 1,024 bytes end with an empty third block
	c.ack(3)
	for range 6 {
		c.ack(3)
	}
	if got := b.transfer(t); got.Outcome != Done {
		t.Errorf("outcome %s (%s), want done", got.Outcome, got.Error)
	}
	c.wantSilence(200 * time.Millisecond)
}

func TestLostPacketsAreSentAgain(t *testing.T) {
	t.Parallel()
	b := serve(t, func(o *Options) { o.Timeout = 300 * time.Millisecond })
	c := b.client(t)
	c.read("ipxe-arm64.efi", "blksize", "1468")
	c.options()
	c.options() // not acknowledged: comes again
	c.ack(0)
	first := c.want(opData)
	if again := c.want(opData); !bytes.Equal(first, again) {
		t.Error("the repetition differs")
	}
	c.ack(1)
	if got := b.transfer(t); got.Outcome != Done {
		t.Errorf("outcome %s, want done", got.Outcome)
	}
}

func TestSilentClientIsGivenUp(t *testing.T) {
	t.Parallel()
	b := serve(t, func(o *Options) { o.Timeout = time.Millisecond })
	c := b.client(t)
	c.read("snponly.efi", "blksize", "1468")
	if got := b.transfer(t); got.Outcome != Failed {
		t.Errorf("outcome %s, want failed", got.Outcome)
	}
}

func TestGarbageIsIgnored(t *testing.T) {
	t.Parallel()
	b := serve(t)
	c := b.client(t)
	for _, garbage := range [][]byte{{}, {0}, {0, 1}, {0, 9, 1, 2}, {0, 1, 'a', 'b'}, {0, 4, 0, 1}, {0, 5, 0, 1, 0}, make([]byte, 2000), bytes.Repeat([]byte{0, 1}, 300)} {
		c.sendTo(garbage, c.to)
	}
	if got := b.client(t).fetch("ipxe-arm64.efi", 1468); len(got) != 1024 {
		t.Errorf("%d bytes after garbage, want 1024", len(got))
	}
}

func TestCaps(t *testing.T) {
	t.Parallel()
	hold := func(t *testing.T, b *boot, from string) *client {
		c := newClient(t, b.Addr(), from)
		c.read("snponly.efi", "tsize", "0")
		c.options()
		c.ack(0)
		c.want(opData)
		return c
	}
	t.Run("overall", func(t *testing.T) {
		t.Parallel()
		b := serve(t, func(o *Options) { o.MaxTransfers = 2 })
		first := hold(t, b, "127.0.0.1")
		hold(t, b, "127.0.0.1")
		c := b.client(t)
		c.read("snponly.efi")
		c.wantError(refuseBusy)
		if got := b.transfer(t); got.Outcome != Refused {
			t.Errorf("outcome %s, want refused", got.Outcome)
		}
		first.reply(opError, 8, "bye\x00")
		b.transfer(t)
		hold(t, b, "127.0.0.1")
	})
	t.Run("per client", func(t *testing.T) {
		t.Parallel()
		a := admission{most: 10, mostPerClient: 2}
		at := func(ip netip.Addr) *transfer {
			return &transfer{report: Transfer{Client: netip.AddrPortFrom(ip, 2070)}}
		}
		enter := func(ip netip.Addr) bool {
			t := at(ip)
			_, ok := a.enter(t)
			if ok {
				a.prove(t)
			}
			return ok
		}
		one, other, local := netip.MustParseAddr("10.0.0.5"), netip.MustParseAddr("10.0.0.6"), netip.MustParseAddr("127.0.0.1")
		got := []bool{enter(one), enter(one), enter(one), enter(other)}
		if diff := cmp.Diff([]bool{true, true, false, true}, got); diff != "" {
			t.Errorf("want two places for one client and others served (-want +got):\n%s", diff)
		}
		for range 7 {
			if !enter(local) {
				t.Error("loopback was bounded for one client")
			}
		}
		if enter(other) {
			t.Error("the overall bound did not hold")
		}
	})
}

func TestManyDownloadsAtOnce(t *testing.T) {
	t.Parallel()
	b := serve(t)
	var group sync.WaitGroup
	for range 50 {
		c := b.client(t)
		group.Go(func() {
			if got := c.fetch("snponly.efi", 1468); !bytes.Equal(got, pattern(sizeSNP)) {
				t.Error("content differs")
			}
		})
	}
	group.Wait()
}

func TestServeEndsWithTransfersRunning(t *testing.T) {
	t.Parallel()
	b := serve(t, func(o *Options) { o.Timeout = 50 * time.Millisecond })
	c := b.client(t)
	c.read("snponly.efi", "tsize", "0")
	c.options()
	b.stop() // reports an error if it takes long
	if got := b.transfer(t); got.Outcome != Failed {
		t.Errorf("outcome %s, want failed", got.Outcome)
	}
	second, err := New(b.options)
	if err != nil {
		t.Fatal(err)
	}
	second.options.Listen = b.Addr().String()
	// A program that a parallel test is just starting shares the socket for a moment.
	err = second.Listen()
	for deadline := time.Now().Add(5 * time.Second); err != nil && time.Now().Before(deadline); {
		err = second.Listen()
	}
	if err != nil {
		t.Errorf("the port is not free after the end: %v", err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}
