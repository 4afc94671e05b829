package tftp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"
)

const (
	// requestSize is more than a request needs.
	requestSize = 2048
	// controlSize holds the address that a request reached.
	controlSize = 64
	// socketBuffer holds the bursts of many clients.
	socketBuffer = 4 << 20
)

// openSocket binds the well-known port. Neither SO_REUSEADDR nor SO_REUSEPORT is
// set: with them a second server would start silently and get half of the
// requests. It says which address each packet reached.
func openSocket(address netip.AddrPort) (net.PacketConn, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error { return prepareSocket(raw) }}
	return config.ListenPacket(context.Background(), "udp4", address.String())
}

// prepareSocket makes the kernel say which address each packet reached, before
// the first one can arrive.
func prepareSocket(raw syscall.RawConn) error {
	var err error
	controlErr := raw.Control(func(fd uintptr) {
		makeRoom(int(fd))
		err = os.NewSyscallError("setsockopt IP_PKTINFO", unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_PKTINFO, 1))
	})
	return errors.Join(controlErr, err)
}

// makeRoom gives a socket room for bursts.
func makeRoom(fd int) {
	for name, forced := range map[int]int{unix.SO_RCVBUF: unix.SO_RCVBUFFORCE, unix.SO_SNDBUF: unix.SO_SNDBUFFORCE} {
		// Root may exceed the system's limit; anybody else gets as much as it allows.
		if unix.SetsockoptInt(fd, unix.SOL_SOCKET, forced, socketBuffer) != nil {
			_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, name, socketBuffer)
		}
	}
}

// newRequests is the memory of one batch of requests.
func newRequests() []ipv4.Message {
	in := make([]ipv4.Message, batchSize)
	for i := range in {
		in[i].Buffers = [][]byte{make([]byte, requestSize)}
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

// source is the address of this host that a request reached, and the control
// message that makes answers leave from it; none is needed when the sockets are
// bound to one address.
func source(m ipv4.Message, bound netip.Addr) (netip.Addr, []byte) {
	if !bound.IsUnspecified() {
		return bound, nil
	}
	var control ipv4.ControlMessage
	if err := control.Parse(m.OOB[:m.NN]); err != nil {
		return netip.Addr{}, nil
	}
	local, ok := netip.AddrFromSlice(control.Dst)
	if !ok {
		return netip.Addr{}, nil
	}
	local = local.Unmap()
	// A request to a broadcast address cannot be answered from it: sending fails,
	// and RFC 1123 4.2.3.6 wants silence.
	return local, (&ipv4.ControlMessage{Src: local.AsSlice()}).Marshal()
}

func explainListen(address netip.AddrPort, err error) error {
	hint := "check the listen address"
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		hint = fmt.Sprintf("port %d is in use by another program: find it with `ss -ulpn 'sport = :%d'` and stop it, or choose another TFTP listen address", address.Port(), address.Port())
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		hint = "ports below 1024 need root: run as root or with CAP_NET_BIND_SERVICE"
	case errors.Is(err, unix.EADDRNOTAVAIL):
		hint = "no interface of this host has that address: list them with `ip -br addr`"
	}
	return fmt.Errorf("listen for TFTP on %s: %w; %s", address, err, hint)
}
