package web

import (
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// peerUID is the user of the process that opened the connection, from the kernel.
func peerUID(c *net.UnixConn) (int, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("ask who is at the socket: %w", err)
	}
	var (
		peer    *unix.Ucred
		errPeer error
	)
	err = raw.Control(func(fd uintptr) {
		peer, errPeer = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err != nil || errPeer != nil {
		return 0, fmt.Errorf("ask who is at the socket: %w", errors.Join(err, errPeer))
	}
	return int(peer.Uid), nil
}
