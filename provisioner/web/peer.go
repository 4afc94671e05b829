package web

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/user"
	"strconv"

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

// socketUsers are the names of those who may use the socket: root, and who runs the daemon.
func socketUsers() map[int]string {
	names := map[int]string{}
	for _, uid := range []int{0, os.Getuid()} {
		if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
			names[uid] = u.Username
		}
	}
	return names
}

// userName is a user's name, or the number of one that has none.
func (s *Server) userName(uid int) string {
	if name := s.names[uid]; name != "" {
		return name
	}
	return "uid " + strconv.Itoa(uid)
}
