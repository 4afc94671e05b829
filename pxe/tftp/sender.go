package tftp

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/net/ipv4"
)

// sender runs many transfers over one socket. RFC 1350 gives a transfer a port
// of its own; the pair of both ports is what tells transfers apart, so one port
// of ours serves every client. That spares a socket, a goroutine and a wake-up
// for each, and lets one system call carry the packets of many.
type sender struct {
	server *Server
	conn   *ipv4.PacketConn

	mu        sync.Mutex
	transfers map[netip.AddrPort]*transfer
	ended     []Transfer // to be told once mu is free
	batch     batch
}

const (
	// batchSize is how many packets one system call takes.
	batchSize = 64
	// packetSize is more than a request needs; an ACK has 4 bytes.
	packetSize  = 2048
	controlSize = 64
	// socketBuffer holds the bursts of many clients.
	socketBuffer = 4 << 20
	// slowestTick bounds how late a repetition is.
	slowestTick = 100 * time.Millisecond
)

func newSender(s *Server, conn net.PacketConn) *sender {
	pc := ipv4.NewPacketConn(conn)
	return &sender{server: s, conn: pc, transfers: map[netip.AddrPort]*transfer{}, batch: newBatch(pc)}
}

// start begins the transfer and sends its first answer.
func (w *sender) start(t *transfer, now time.Time) {
	w.mu.Lock()
	defer w.unlock()
	if old := w.transfers[t.report.Client]; old != nil {
		w.end(old, old.quit(), "the client began anew")
	}
	w.transfers[t.report.Client] = t
	t.begin(now, &w.batch)
}

// repeated answers a request that a transfer is under way for: a repetition,
// because our first answer was lost, or a machine that was reset and begins
// anew. It reports whether nothing else is to be done.
func (w *sender) repeated(client netip.AddrPort, request []byte, now time.Time) bool {
	w.mu.Lock()
	defer w.unlock()
	t := w.transfers[client]
	switch {
	case t == nil || t.request != string(request):
		return false
	case !t.proven:
		t.transmit(now, &w.batch)
		return true
	}
	return now.Sub(t.heard) < t.wait
}

// evict ends a transfer that lost its place.
func (w *sender) evict(t *transfer) {
	w.mu.Lock()
	defer w.unlock()
	if w.transfers[t.report.Client] == t {
		w.batch.plain(t, refuseBusy.packet())
	}
	w.end(t, Failed, "the client did not answer and gave way to another one")
}

// refuse sends an ERROR.
func (w *sender) refuse(t *transfer, r refusal) {
	w.mu.Lock()
	defer w.unlock()
	w.batch.plain(t, r.packet())
}

// run reads acknowledgements until ctx is done, and looks after the silent.
func (w *sender) run(ctx context.Context) error {
	in := newInbox()
	tick := min(max(w.server.options.Timeout/4, time.Millisecond), slowestTick)
	var next time.Time // of looking after the silent
	for ctx.Err() == nil {
		if now := time.Now(); !now.Before(next) {
			w.lookAfter(now)
			next = now.Add(tick)
			if err := w.conn.SetReadDeadline(next); err != nil {
				return err
			}
		}
		n, err := w.conn.ReadBatch(in, 0)
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		now := time.Now()
		w.mu.Lock()
		for _, m := range in[:max(n, 0)] {
			w.receive(m, now)
		}
		w.unlock()
	}
	w.stop()
	return nil
}

// receive handles one packet of a client. Strangers get no answer: it could be
// wanted by nobody but one who invents addresses.
func (w *sender) receive(m ipv4.Message, now time.Time) {
	packet := m.Buffers[0][:m.N]
	t := w.transfers[addrPort(m.Addr)]
	if t == nil || len(packet) < headerSize {
		return
	}
	switch binary.BigEndian.Uint16(packet) {
	case opAck:
		proven := t.proven
		complete := t.acknowledge(binary.BigEndian.Uint16(packet[2:]), now, &w.batch)
		if t.proven && !proven {
			w.server.admission.prove(t)
		}
		if complete {
			w.end(t, Done, "")
		}
	case opError:
		// An ERROR is never answered (RFC 1350); EDK2 ends its size probe with one.
		w.end(t, t.quit(), clientError(packet))
	}
}

func (w *sender) lookAfter(now time.Time) {
	w.mu.Lock()
	defer w.unlock()
	for _, t := range w.transfers {
		if t.overdue(now, &w.batch) {
			w.end(t, Failed, "the client fell silent")
		}
	}
}

// stop ends what is under way.
func (w *sender) stop() {
	w.mu.Lock()
	defer w.unlock()
	for _, t := range w.transfers {
		w.batch.plain(t, refuseStopping.packet())
		w.end(t, Failed, refuseStopping.text)
	}
}

// end forgets the transfer, unless that was done meanwhile.
func (w *sender) end(t *transfer, outcome Outcome, reason string) {
	if w.transfers[t.report.Client] != t {
		return
	}
	delete(w.transfers, t.report.Client)
	w.server.admission.leave(t)
	report := t.report
	report.Outcome, report.Error = outcome, reason
	report.Duration = time.Since(report.Started)
	w.ended = append(w.ended, report)
}

// unlock sends what was gathered, frees the sender and tells what ended.
func (w *sender) unlock() {
	w.batch.flush()
	ended := w.ended
	w.ended = nil
	w.mu.Unlock()
	for _, t := range ended {
		w.server.finish(t)
	}
}

// batch gathers packets and sends them with one system call.
type batch struct {
	conn     *ipv4.PacketConn
	messages []ipv4.Message
	headers  [][headerSize]byte
	n        int
}

func newBatch(conn *ipv4.PacketConn) batch {
	b := batch{conn: conn, messages: make([]ipv4.Message, batchSize), headers: make([][headerSize]byte, batchSize)}
	for i := range b.messages {
		b.messages[i].Buffers = make([][]byte, 0, 2)
	}
	return b
}

// data implements outbox.
func (b *batch) data(t *transfer, block int64, chunk []byte) {
	header := &b.headers[b.n]
	binary.BigEndian.PutUint16(header[:], opData)
	binary.BigEndian.PutUint16(header[2:], uint16(block))
	b.add(t, header[:], chunk)
}

// plain implements outbox.
func (b *batch) plain(t *transfer, packet []byte) { b.add(t, packet) }

func (b *batch) add(t *transfer, parts ...[]byte) {
	m := &b.messages[b.n]
	m.Buffers = append(m.Buffers[:0], parts...)
	m.Addr, m.OOB = t.to, t.control
	if b.n++; b.n == len(b.messages) {
		b.flush()
	}
}

// flush sends everything. What cannot be sent is skipped: it is sent again when
// its time is over.
func (b *batch) flush() {
	for out := b.messages[:b.n]; len(out) > 0; {
		n, err := b.conn.WriteBatch(out, 0)
		if err != nil {
			n = max(n, 0) + 1
		}
		out = out[min(n, len(out)):]
	}
	b.n = 0
}

// newInbox is the memory of one batch of received packets.
func newInbox() []ipv4.Message {
	in := make([]ipv4.Message, batchSize)
	for i := range in {
		in[i].Buffers = [][]byte{make([]byte, packetSize)}
		in[i].OOB = make([]byte, controlSize)
	}
	return in
}

func addrPort(a net.Addr) netip.AddrPort {
	udp, ok := a.(*net.UDPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	ap := udp.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}
