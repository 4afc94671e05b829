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

// openSocket binds a UDP socket. Neither SO_REUSEADDR nor SO_REUSEPORT is set:
// with them a second server would start silently and get half of the requests.
// A socket that asks for it says which address each packet reached.
func openSocket(address netip.AddrPort, reached bool) (net.PacketConn, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error { return prepareSocket(raw, reached) }}
	return config.ListenPacket(context.Background(), "udp4", address.String())
}

// prepareSocket makes the kernel say which address each packet reached, before
// the first one can arrive, and gives the socket room for bursts.
func prepareSocket(raw syscall.RawConn, reached bool) error {
	var err error
	controlErr := raw.Control(func(fd uintptr) {
		for name, forced := range map[int]int{unix.SO_RCVBUF: unix.SO_RCVBUFFORCE, unix.SO_SNDBUF: unix.SO_SNDBUFFORCE} {
			// Root may exceed the system's limit; anybody else gets as much as it allows.
			if unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, forced, socketBuffer) != nil {
				_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, name, socketBuffer)
			}
		}
		if !reached {
			return
		}
		err = os.NewSyscallError("setsockopt IP_PKTINFO", unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_PKTINFO, 1))
	})
	return errors.Join(controlErr, err)
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
