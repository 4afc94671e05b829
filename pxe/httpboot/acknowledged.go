package httpboot

import (
	"context"
	"time"

	"golang.org/x/sys/unix"
)

// ackPoll is how often the kernel is asked for acknowledgements.
const ackPoll = 5 * time.Millisecond

// tcpClose is the state of a connection that was reset (TCP_CLOSE in net/tcp_states.h).
const tcpClose = 7

// acknowledged waits until the other end has acknowledged everything that was
// sent on the connection, for at most patience. It is false when the connection
// broke before, and true where the kernel cannot tell.
func (q *queue) acknowledged(ctx context.Context, patience time.Duration) bool {
	if q == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	poll := time.NewTicker(ackPoll)
	defer poll.Stop()
	for {
		var (
			info *unix.TCPInfo
			err  error
		)
		if closed := q.raw.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.SOL_TCP, unix.TCP_INFO) }); closed != nil {
			return false
		}
		switch {
		case err != nil:
			return true
		case info.State == tcpClose:
			return false
		case info.Unacked == 0 && info.Notsent_bytes == 0:
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-poll.C:
		}
	}
}
