package fleet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
)

// spareFiles are open files beside the listeners of machines: connections of
// machines that boot at the same time and of clients of their BMCs.
const spareFiles = 4000

// tooManyListeners tells whether a BMC and a Talos API of each node would be
// more listeners than the process may open, at the most that it may ask for.
func tooManyListeners(nodes int) bool {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return true
	}
	if limit.Cur < limit.Max {
		limit.Cur = limit.Max
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			return true
		}
	}
	return uint64(2*nodes+spareFiles) > limit.Cur //nolint:gosec // never negative
}

// listenOnLoopback listens on every address of the loopback interface, and on no
// other interface, at a free port.
func listenOnLoopback(ctx context.Context) (net.Listener, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var bound error
		err := raw.Control(func(fd uintptr) {
			bound = syscall.SetsockoptString(int(fd), syscall.SOL_SOCKET, syscall.SO_BINDTODEVICE, "lo")
		})
		return errors.Join(err, bound)
	}}
	listener, err := config.Listen(ctx, "tcp4", "0.0.0.0:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the BMCs of all machines on loopback: %w", err)
	}
	return listener, nil
}
