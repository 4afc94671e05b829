package dhcp

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

// Sizes of the socket's work.
const (
	// receiveBuffer holds the burst of a fleet that is switched on at once.
	receiveBuffer = 4 << 20
	// batchSize is how many packets one system call takes; their leases share
	// one write to the lease file.
	batchSize = 64
	// packetSize is more than an Ethernet frame carries.
	packetSize  = 2048
	controlSize = 64
)

// openSocket binds the DHCP port. It sets neither SO_REUSEADDR nor
// SO_REUSEPORT: with them a second server would start silently and the kernel
// would split the relayed packets between the two.
func openSocket(ctx context.Context, address, device string) (*ipv4.PacketConn, netip.AddrPort, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var err error
		controlErr := raw.Control(func(fd uintptr) { err = prepareSocket(int(fd), device) })
		return errors.Join(controlErr, err)
	}}
	conn, err := config.ListenPacket(ctx, "udp4", address)
	if err != nil {
		return nil, netip.AddrPort{}, explainListen(address, device, err)
	}
	pc := ipv4.NewPacketConn(conn)
	bound, err := netip.ParseAddrPort(conn.LocalAddr().String())
	if err != nil {
		_ = pc.Close()
		return nil, netip.AddrPort{}, fmt.Errorf("read the bound DHCP address: %w; use an IPv4 listen address", err)
	}
	return pc, bound, nil
}

// prepareSocket sets the options that must hold before the bind.
func prepareSocket(fd int, device string) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BROADCAST, 1); err != nil {
		return os.NewSyscallError("setsockopt SO_BROADCAST", err)
	}
	// Set before the bind: no packet may arrive without saying where it came in.
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_PKTINFO, 1); err != nil {
		return os.NewSyscallError("setsockopt IP_PKTINFO", err)
	}
	// Root may exceed the system's limit; anybody else gets as much as it allows.
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer)
	}
	if device == "" {
		return nil
	}
	return os.NewSyscallError("setsockopt SO_BINDTODEVICE", unix.BindToDevice(fd, device))
}

func explainListen(address, device string, err error) error {
	hint := "check the listen address"
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		_, port, splitErr := net.SplitHostPort(address)
		if splitErr != nil {
			port = address
		}
		hint = fmt.Sprintf("port %s is in use by another program: find it with `ss -ulpn 'sport = :%s'` and stop it, or choose another DHCP listen address", port, port)
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		hint = "this port or interface needs root: run as root or with CAP_NET_BIND_SERVICE and CAP_NET_RAW"
	case errors.Is(err, unix.ENODEV):
		hint = fmt.Sprintf("there is no interface %q: list the interfaces with `ip -br link` and correct the name", device)
	case errors.Is(err, unix.EADDRNOTAVAIL):
		hint = "no interface of this host has that address: list them with `ip -br -4 addr`"
	}
	return fmt.Errorf("listen for DHCP on %s: %w; %s", address, err, hint)
}

// inbox is the reused memory of one batch of packets.
type inbox struct {
	messages []ipv4.Message
}

func newInbox() *inbox {
	b := &inbox{messages: make([]ipv4.Message, batchSize)}
	for i := range b.messages {
		b.messages[i].Buffers = [][]byte{make([]byte, packetSize)}
		b.messages[i].OOB = make([]byte, controlSize)
	}
	return b
}

// outMessage encodes a reply with the control message that chooses its way out.
func outMessage(r *Reply) ipv4.Message {
	control := ipv4.ControlMessage{IfIndex: r.Interface}
	if r.From.IsValid() {
		control.Src = r.From.AsSlice()
	}
	m := ipv4.Message{
		Buffers: [][]byte{r.wire()},
		Addr:    net.UDPAddrFromAddrPort(r.To),
	}
	if r.Interface != 0 || r.From.IsValid() {
		m.OOB = control.Marshal()
	}
	return m
}
