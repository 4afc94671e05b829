package firmware

import (
	"context"
	"io"
	"net/netip"
)

// Served is one thing that the boot services gave a machine: exactly one of its
// fields is set.
type Served struct {
	// Lease is an address that a DHCP server gave it.
	Lease netip.Addr
	// InstallScript: a script came to the command that loads a kernel.
	InstallScript bool
	// Kernel: a kernel was downloaded whole, or a signed image with one inside.
	Kernel bool
}

// served tells whoever watches the machine, at the moment at which it happens.
func (b *boot) served(what Served) {
	if b.machine.OnServed != nil {
		b.machine.OnServed(what)
	}
}

// stalled stops reading after so many bytes, as a machine that hangs: nothing
// more comes until its power goes.
type stalled struct {
	ctx  context.Context //nolint:containedctx // of the one request whose body this is
	from io.Reader
	left int64
}

// stall lets a body hang after so many bytes; 0 leaves it alone.
func stall(ctx context.Context, from io.Reader, after int64) io.Reader {
	if after <= 0 {
		return from
	}
	return &stalled{ctx: ctx, from: from, left: after}
}

// Read waits for the context once the bytes are used up.
func (s *stalled) Read(buffer []byte) (int, error) {
	if s.left == 0 {
		<-s.ctx.Done()
		return 0, s.ctx.Err()
	}
	n, err := s.from.Read(buffer[:min(int64(len(buffer)), s.left)])
	s.left -= int64(n)
	return n, err
}
