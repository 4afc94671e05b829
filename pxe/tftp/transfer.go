package tftp

import (
	"bytes"
	"context"
	"errors"
	"io"
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
	// Sent and Size are the bytes handed to the network and of the whole file.
	Sent, Size int64
	Started    time.Time
	Duration   time.Duration
	Outcome    Outcome
	// Error says more about an outcome other than Done; empty when there is nothing to say.
	Error string
}

// clientError is the ERROR packet with which a client ended its transfer.
type clientError struct {
	text string
}

func (e clientError) Error() string { return e.text }

// errStopping is what clients read when the server ends.
var errStopping = errors.New("server is shutting down, try again")

// body is the content of one transfer. It notices whether the size was asked
// for, which the library does by Seek, and ends when the server does.
type body struct {
	ctx     context.Context
	content *bytes.Reader
	sized   bool
	sent    int64
}

func newBody(ctx context.Context, content []byte) *body {
	return &body{ctx: ctx, content: bytes.NewReader(content)}
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if b.ctx.Err() != nil {
		return 0, errStopping
	}
	n, err := b.content.Read(p)
	b.sent += int64(n)
	return n, err
}

// Seek implements io.Seeker.
func (b *body) Seek(offset int64, whence int) (int64, error) {
	b.sized = true
	return b.content.Seek(offset, whence)
}

// outcome classifies the end of a transfer. An abort before the first block of
// a request that asked for the size is the probe.
func (b *body) outcome(err error) Outcome {
	var client clientError
	switch {
	case err == nil:
		return Done
	case !errors.As(err, &client):
		return Failed
	case b.sized && b.sent == 0:
		return Probed
	}
	return Aborted
}

var _ io.ReadSeeker = (*body)(nil)
