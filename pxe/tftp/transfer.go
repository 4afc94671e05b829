package tftp

import (
	"bytes"
	"container/list"
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"
)

// Outcome is how a transfer ended.
type Outcome string

// The outcomes.
const (
	// Done: the client acknowledged the last block.
	Done Outcome = "done"
	// Probed: the client asked for the size only, then broke off, as EDK2 and
	// Intel ROMs do before the real request. It is no failure.
	Probed Outcome = "probed"
	// Aborted: the client broke off in the middle.
	Aborted Outcome = "aborted"
	// Failed: the client fell silent, or the server ended meanwhile.
	Failed Outcome = "failed"
	// Missing: the requested name is not served.
	Missing Outcome = "missing"
	// Refused: too many transfers at one time.
	Refused Outcome = "refused"
)

// Transfer is one finished read request.
type Transfer struct {
	// Requested is the name as the client sent it, cut to what is printable;
	// Name is the file of the table that it stands for, empty when Missing.
	Requested, Name string
	// Client is the client's address and port; Local is the address of this host.
	Client netip.AddrPort
	Local  netip.Addr
	// Sent and Size are the bytes of the file that were handed to the network, each
	// counted once, and of the whole file.
	Sent, Size int64
	Started    time.Time
	Duration   time.Duration
	Outcome    Outcome
	// Error says more about an outcome other than Done; empty when there is nothing to say.
	Error string
}

// transfer is one file on its way to one client. It knows the protocol and
// touches no socket: what is to be sent is told to an outbox.
type transfer struct {
	report  Transfer
	sender  *sender
	request string // the packet that began it
	control []byte // chooses the source address; nil leaves it to the socket
	content []byte // never written
	oack    []byte // the first answer; nil when the first block is
	sized   bool   // the client asked for the size
	block   int    // bytes
	window  int    // blocks

	acked, sent int64 // blocks; sent-acked are under way
	last        int64 // number of the last block, shorter than the others
	proven      bool  // the client answered: its address is no invention
	rewound     bool  // this window was sent again at the client's wish

	wait    time.Duration
	patient bool // wait is the client's wish, kept exactly
	tries   int
	heard   time.Time // last progress
	due     time.Time // send again then

	place *list.Element // among the half-open ones, nil when proven; admission's
	gone  bool          // the place was left; admission's
}

// outbox takes the packets of a transfer. Buffers are sent one after the other
// as one packet and are not kept after the flush.
type outbox interface {
	data(t *transfer, block int64, chunk []byte)
	plain(t *transfer, packet []byte)
}

const (
	// retries is how often a packet is sent again before the client counts as gone.
	retries = 8
	// retriesUnproven is for clients that have never answered: an invented
	// address shall not be sent much.
	retriesUnproven = 5
)

// begin sends the first answer.
func (t *transfer) begin(now time.Time, out outbox) {
	t.last = int64(len(t.content)/t.block) + 1
	t.heard = now
	t.transmit(now, out)
}

// transmit sends what is under way, and as much more as the window allows.
func (t *transfer) transmit(now time.Time, out outbox) {
	t.due = now.Add(t.patience())
	if t.oack != nil && !t.proven {
		out.plain(t, t.oack)
		return
	}
	t.sent = max(t.sent, min(t.acked+int64(t.window), t.last))
	for n := t.acked + 1; n <= t.sent; n++ {
		from := (n - 1) * int64(t.block)
		to := min(from+int64(t.block), int64(len(t.content)))
		out.data(t, n, t.content[from:to])
		t.report.Sent = max(t.report.Sent, to)
	}
}

// patience grows with each repetition, unless the client set the time.
func (t *transfer) patience() time.Duration {
	if t.patient {
		return t.wait
	}
	return t.wait + time.Duration(t.tries)*t.wait/10
}

// acknowledge takes an ACK; it reports whether the transfer is complete. An ACK
// of what was acknowledged before costs nothing: answering it would send every
// later block twice (the Sorcerer's Apprentice). Only a client that asked for a
// window says by it that it missed the first block of the window (RFC 7440);
// it is believed once a window.
func (t *transfer) acknowledge(number uint16, now time.Time, out outbox) bool {
	if t.oack != nil && !t.proven {
		if number != 0 {
			return false
		}
		t.progress(now)
		t.transmit(now, out)
		return false
	}
	ahead := int64(number - uint16(t.acked)) // block numbers wrap
	switch {
	case ahead > t.sent-t.acked:
		return false
	case ahead == 0:
		if t.window > 1 && !t.rewound && t.sent > t.acked {
			t.rewound = true
			t.transmit(now, out)
		}
		return false
	}
	t.acked += ahead
	t.progress(now)
	if t.acked == t.last {
		return true
	}
	t.sent = t.acked // what was lost behind it is sent again
	t.transmit(now, out)
	return false
}

func (t *transfer) progress(now time.Time) {
	t.proven, t.rewound, t.tries, t.heard = true, false, 0, now
}

// overdue sends again what was not acknowledged in time; it reports whether the
// client counts as gone.
func (t *transfer) overdue(now time.Time, out outbox) bool {
	if now.Before(t.due) {
		return false
	}
	most := retries
	if !t.proven {
		most = retriesUnproven
	}
	if t.tries >= most {
		return true
	}
	t.tries++
	t.transmit(now, out)
	return false
}

// quit is the outcome of a transfer that its client gave up.
func (t *transfer) quit() Outcome {
	if t.sized && t.report.Sent == 0 {
		return Probed
	}
	return Aborted
}

// clientError describes an ERROR packet of a client.
func clientError(packet []byte) string {
	text, _, _ := bytes.Cut(packet[headerSize:], []byte{0})
	return fmt.Sprintf("the client ended the transfer: error %d: %s", binary.BigEndian.Uint16(packet[2:]), printable(string(text)))
}
