package tftp

import (
	"context"
	"encoding/binary"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// sender runs many transfers over one socket. RFC 1350 gives a transfer a port
// of its own; the pair of both ports is what tells transfers apart, so one port
// of ours serves every client. That spares a socket, a goroutine and a wake-up
// for each, and lets one system call carry the packets of many.
type sender struct {
	server *Server
	port   *port

	mu        sync.Mutex
	transfers map[netip.AddrPort]*transfer
	ended     []Transfer // to be told once mu is free
	batch     batch
}

const (
	// slowestTick bounds how late a repetition is.
	slowestTick = 100 * time.Millisecond
	// crowd is how many transfers at one time make it worth while to wait a moment
	// for more answers. Fewer of them get every block at once.
	crowd = 16
)

func newSender(s *Server, p *port) *sender {
	return &sender{server: s, port: p, transfers: map[netip.AddrPort]*transfer{}, batch: batch{port: p, out: newOutbound()}}
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
	if err := w.port.setWait(tick); err != nil {
		return err
	}
	var next time.Time // of looking after the silent
	for ctx.Err() == nil {
		n, err := w.port.receive(in)
		if err != nil {
			return err
		}
		now := time.Now()
		w.mu.Lock()
		for i := range n {
			packet, from := in.at(i)
			w.receive(packet, from, now)
		}
		if !now.Before(next) {
			w.lookAfter(now)
			next = now.Add(tick)
		}
		running := len(w.transfers)
		w.unlock()
		if n > 0 && running >= crowd && n < running/2 {
			gather()
		}
	}
	w.stop()
	return nil
}

// gather lets more answers arrive, so that the next system calls carry more
// packets and nobody has to wake us for each. It takes the shortest sleep that
// there is, some 50 µs (PR_SET_TIMERSLACK): less than a round trip to a machine.
func gather() {
	_ = unix.Nanosleep(&unix.Timespec{Nsec: 1}, nil) // ends early by a signal, which does no harm
}

// receive handles one packet of a client. Strangers get no answer: it could be
// wanted by nobody but one who invents addresses.
func (w *sender) receive(packet []byte, from netip.AddrPort, now time.Time) {
	t := w.transfers[from]
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

// lookAfter is called with mu held.
func (w *sender) lookAfter(now time.Time) {
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

// batch gathers packets and sends them with one system call. What cannot be
// sent is sent again when its time is over.
type batch struct {
	port    *port
	out     *outbound
	headers [batchSize][headerSize]byte
}

// data implements outbox.
func (b *batch) data(t *transfer, block int64, chunk []byte) {
	header := &b.headers[b.out.n]
	binary.BigEndian.PutUint16(header[:], opData)
	binary.BigEndian.PutUint16(header[2:], uint16(block))
	b.add(t, header[:], chunk)
}

// plain implements outbox.
func (b *batch) plain(t *transfer, packet []byte) { b.add(t, packet, nil) }

func (b *batch) add(t *transfer, first, second []byte) {
	b.out.add(t.report.Client, t.control, first, second)
	if b.out.n == batchSize {
		b.flush()
	}
}

func (b *batch) flush() { b.port.send(b.out) }
