package httpboot

import (
	"context"
	"net"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// How much the kernel queues for a connection beyond what is on its way, in
// bytes. By default it takes megabytes from us for a machine that takes nothing
// from it, and a thousand of those use up the memory that the kernel has for all
// of TCP (net.ipv4.tcp_mem): then honest machines wait as well. A small bound
// costs processor time, because we are woken more often, and because the kernel
// sends from a full queue whenever a machine acknowledges, from an empty one
// only when we are at work. So a machine that takes what it gets, gets more.
// Measured beside nginx, 200 machines: 1 MiB for all moves 0.8 times its bytes per
// CPU-second, 2 MiB 1.0; as it is here 1.5. With still more, the processors do
// more work in total, that of the clients included.
const (
	someUnsent = 1 << 20
	muchUnsent = 9 << 19
	// takenBefore is how much a machine must have taken to be worth more.
	takenBefore = 2 << 20
)

// spare is how many connections may have much unsent at one time.
type spare struct {
	most  int64
	taken atomic.Int64
}

// newSpare leaves to those connections what the kernel has for TCP before it
// gets short of it: a twentieth of the memory, if nobody changed that
// (tcp_init_mem in net/ipv4/tcp.c).
func newSpare() *spare {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return &spare{}
	}
	return &spare{most: int64(info.Totalram * uint64(info.Unit) / 20 / muchUnsent)}
}

func (s *spare) enter() bool {
	if s.taken.Add(1) <= s.most {
		return true
	}
	s.taken.Add(-1)
	return false
}

func (s *spare) leave() { s.taken.Add(-1) }

// queue is the kernel's queue of one connection.
type queue struct {
	raw   syscall.RawConn
	spare *spare
	long  bool
}

// queueKey is the connection's queue in the context of its requests.
type queueKey struct{}

// withQueue bounds the queue of a new connection.
func withQueue(ctx context.Context, c net.Conn, s *spare) context.Context {
	conn, ok := c.(syscall.Conn)
	if !ok {
		return ctx
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return ctx
	}
	q := &queue{raw: raw, spare: s}
	q.bound(someUnsent)
	return context.WithValue(ctx, queueKey{}, q)
}

// adapt is called while a file is sent. Towards the end of it the queue gets
// short again: when the last byte is in it, nobody sees any more whether the
// machine takes it.
func (q *queue) adapt(sent, left int64) {
	switch {
	case q == nil:
	case q.long && left <= muchUnsent:
		q.shorten()
	case !q.long && sent >= takenBefore && left > 2*muchUnsent && q.spare.enter():
		q.long = true
		q.bound(muchUnsent)
	}
}

// shorten is called at the end of a file, too.
func (q *queue) shorten() {
	if q != nil && q.long {
		q.long = false
		q.bound(someUnsent)
		q.spare.leave()
	}
}

// bound sets the bound. The kernel's own bound on what is unsent and on its way
// together is about as large as much; it is raised where we may.
func (q *queue) bound(unsent int) {
	_ = q.raw.Control(func(fd uintptr) {
		if unsent > someUnsent {
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, unsent)
		}
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsent) // not all kernels have it; it works without
	})
}
