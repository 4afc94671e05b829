package tftp

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// client is one TFTP client port. It builds and reads packets byte by byte.
type client struct {
	t    *testing.T
	conn *net.UDPConn
	to   netip.AddrPort // the server's well-known port
	tid  netip.AddrPort // where the last packet came from
}

func newClient(t *testing.T, to netip.AddrPort, from string) *client {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(from)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &client{t: t, conn: conn, to: to}
}

func requestPacket(op uint16, fields ...string) []byte {
	b := binary.BigEndian.AppendUint16(nil, op)
	for _, f := range fields {
		b = append(append(b, f...), 0)
	}
	return b
}

// read asks for a file with option names and values.
func (c *client) read(name string, options ...string) {
	c.t.Helper()
	c.sendTo(requestPacket(opRead, append([]string{name, "octet"}, options...)...), c.to)
}

func (c *client) sendTo(b []byte, to netip.AddrPort) {
	c.t.Helper()
	if _, err := c.conn.WriteToUDPAddrPort(b, to); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) reply(op uint16, number uint16, rest string) {
	c.t.Helper()
	b := binary.BigEndian.AppendUint16(nil, op)
	b = binary.BigEndian.AppendUint16(b, number)
	c.sendTo(append(b, rest...), c.tid)
}

func (c *client) ack(block uint16) { c.t.Helper(); c.reply(opAck, block, "") }

// receive waits for a packet: its opcode and what follows.
func (c *client) receive(within time.Duration) (uint16, []byte, error) {
	_ = c.conn.SetReadDeadline(time.Now().Add(within))
	b := make([]byte, 70_000)
	n, from, err := c.conn.ReadFromUDPAddrPort(b)
	if err != nil {
		return 0, nil, err
	}
	c.tid = from
	return binary.BigEndian.Uint16(b), b[2:n], nil
}

func (c *client) want(op uint16) []byte {
	c.t.Helper()
	got, rest, err := c.receive(10 * time.Second)
	if err != nil {
		c.t.Fatalf("no packet: %v", err)
	}
	if got != op {
		c.t.Fatalf("opcode %d (%q), want %d", got, rest, op)
	}
	return rest
}

// wantSilence waits for a packet that must not come.
func (c *client) wantSilence(d time.Duration) {
	c.t.Helper()
	if op, rest, err := c.receive(d); err == nil {
		c.t.Errorf("got opcode %d (%q), want silence", op, rest)
	}
}

func (c *client) wantError(want refusal) {
	c.t.Helper()
	rest := c.want(opError)
	got := refusal{binary.BigEndian.Uint16(rest), string(bytes.TrimRight(rest[2:], "\x00"))}
	if got != want {
		c.t.Errorf("ERROR %d %q, want %d %q", got.code, got.text, want.code, want.text)
	}
}

// options reads an OACK.
func (c *client) options() map[string]string {
	c.t.Helper()
	fields := strings.Split(strings.TrimSuffix(string(c.want(opOptions)), "\x00"), "\x00")
	got := map[string]string{}
	for i := 0; i+1 < len(fields); i += 2 {
		got[fields[i]] = fields[i+1]
	}
	return got
}

// fetch downloads a whole file as iPXE and EDK2 do.
func (c *client) fetch(name string, blockSize int) []byte {
	c.t.Helper()
	c.read(name, "blksize", fmt.Sprint(blockSize))
	if got := c.options()["blksize"]; got != fmt.Sprint(blockSize) {
		c.t.Fatalf("blksize %s, want %d", got, blockSize)
	}
	c.ack(0)
	var content []byte
	for block := uint16(1); ; block++ {
		rest := c.want(opData)
		if got := binary.BigEndian.Uint16(rest); got != block {
			c.t.Fatalf("block %d, want %d", got, block)
		}
		content = append(content, rest[2:]...)
		c.ack(block)
		if len(rest)-2 < blockSize {
			return content
		}
	}
}

// boot is a folder of binaries with the server over it.
type boot struct {
	*Server
	folder    string
	transfers chan Transfer
	stop      func()
	// clients is the address of this server's clients: a port that another test gave back
	// may still be sent to.
	clients string
}

// serial numbers the servers of this package's tests.
var serial atomic.Uint32

func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 31 >> 3)
	}
	return b
}

const sizeSNP = 284_672 // as Debian 13 has it

func serve(t *testing.T, change ...func(*Options)) *boot {
	t.Helper()
	number := serial.Add(1)
	b := &boot{
		folder: t.TempDir(), transfers: make(chan Transfer, 4096),
		clients: fmt.Sprintf("127.3.%d.%d", number>>8&0xff, number&0xff),
	}
	for name, size := range map[string]int{"snponly.efi": sizeSNP, "ipxe-amd64.efi": 996_864, "undionly.kpxe": 108_847, "ipxe-arm64.efi": 1024} {
		if err := os.WriteFile(filepath.Join(b.folder, name), pattern(size), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	o := Options{
		Listen: "127.0.0.1:0", IPXEDir: b.folder, OnTransfer: func(t Transfer) { b.transfers <- t },
		Autoexec: func(local netip.Addr) string { return "#!ipxe\nchain http://" + local.String() + "/\n" },
	}
	for _, c := range change {
		c(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	b.Server = s
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	var once sync.Once
	b.stop = func() {
		once.Do(func() {
			cancel()
			select {
			case err := <-ended:
				if err != nil {
					t.Errorf("Serve ended with %v, want nil", err)
				}
			case <-time.After(20 * time.Second):
				t.Error("Serve did not end")
			}
		})
	}
	t.Cleanup(b.stop)
	return b
}

func (b *boot) client(t *testing.T) *client {
	t.Helper()
	return newClient(t, b.Addr(), b.clients)
}

// transfer waits for the next observed transfer.
func (b *boot) transfer(t *testing.T) Transfer {
	t.Helper()
	select {
	case got := <-b.transfers:
		return got
	case <-time.After(20 * time.Second):
		t.Fatal("no transfer was observed")
		return Transfer{}
	}
}
