package dhcp

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// watchRivals listens for other DHCP servers' answers on the wire, where they
// are broadcast: the second server on a network is the top cause of machines
// that boot something else. It is done on real networks only, by a full server
// (beside a proxy there is another one by intention), and only with CAP_NET_RAW.
func (s *Server) watchRivals(ctx context.Context, helpers *sync.WaitGroup, ports []*port) {
	if s.engine.options.Mode != ModeServer {
		return
	}
	for _, p := range ports {
		if p.boot || !p.bound.Addr().IsUnspecified() || p.bound.Port() != serverPort {
			continue
		}
		helpers.Go(func() { s.listenForRivals(ctx, p.device) })
	}
}

// listenForRivals runs until ctx is done or it has no right to listen.
func (s *Server) listenForRivals(ctx context.Context, device string) {
	for ctx.Err() == nil {
		wire, err := openWire(device)
		if os.IsPermission(err) {
			s.log.Debug("other DHCP servers are noticed by their clients only", "error", err)
			return
		}
		if err == nil {
			stop := context.AfterFunc(ctx, func() { _ = wire.Close() })
			s.readWire(wire)
			stop()
			_ = wire.Close()
		}
		select { // the interface is gone for now
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// openWire opens a packet socket that gets DHCP answers which arrive on the
// device, or on any when it is empty.
func openWire(device string) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket AF_PACKET", err)
	}
	if err := attachFilter(fd); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	to := unix.SockaddrLinklayer{Protocol: networkOrder(unix.ETH_P_IP)}
	if device != "" {
		if to.Ifindex = interfaceIndex(device); to.Ifindex == 0 {
			_ = unix.Close(fd)
			return nil, fmt.Errorf("there is no interface %s now", device)
		}
	}
	if err := unix.Bind(fd, &to); err != nil {
		_ = unix.Close(fd)
		return nil, os.NewSyscallError("bind AF_PACKET", err)
	}
	return os.NewFile(uintptr(fd), "DHCP wire"), nil
}

// attachFilter lets through what others sent to UDP port 68.
func attachFilter(fd int) error {
	const laterFragment = 0x1fff
	raw, err := bpf.Assemble([]bpf.Instruction{ // jumps lead to the last line
		bpf.LoadExtension{Num: bpf.ExtType},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.PACKET_OUTGOING, SkipTrue: 8},
		bpf.LoadAbsolute{Off: 9, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.IPPROTO_UDP, SkipTrue: 6},
		bpf.LoadAbsolute{Off: 6, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: laterFragment, SkipTrue: 4},
		bpf.LoadMemShift{Off: 0},
		bpf.LoadIndirect{Off: 2, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: clientPort, SkipTrue: 1},
		bpf.RetConstant{Val: 1 << 16},
		bpf.RetConstant{Val: 0},
	})
	if err != nil {
		return fmt.Errorf("assemble the packet filter: %w", err)
	}
	filter := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		filter[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	return os.NewSyscallError("setsockopt SO_ATTACH_FILTER",
		unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}))
}

// readWire reads answers until the socket fails or is closed.
func (s *Server) readWire(wire *os.File) {
	buffer := make([]byte, packetSize)
	for {
		n, err := wire.Read(buffer)
		if err != nil {
			return
		}
		if p, ok := s.rival(buffer[:n]); ok {
			s.report(p, s.engine.options.Now())
		}
	}
}

// rival looks at an IPv4 packet; it reports a DHCP answer of another server.
func (s *Server) rival(packet []byte) (p Problem, found bool) {
	defer func() {
		if recover() != nil { // parsers of DHCP have panicked before (insomniacslk/dhcp#382)
			found = false
		}
	}()
	if len(packet) < ipHeader {
		return Problem{}, false
	}
	header := int(packet[0]&0xf) * 4
	if header < ipHeader || len(packet) < header+udpHeader || binary.BigEndian.Uint16(packet[header:]) != serverPort {
		return Problem{}, false
	}
	answer, err := dhcpv4.FromBytes(packet[header+udpHeader:])
	if err != nil || answer.OpCode != dhcpv4.OpcodeBootReply {
		return Problem{}, false
	}
	server := fromIP(answer.Options.Get(dhcpv4.OptionServerIdentifier))
	if !server.IsValid() {
		server = fromIP(packet[12:16])
	}
	if !server.IsValid() || s.own(server) {
		return Problem{}, false
	}
	return Problem{Kind: RivalServer, MAC: answer.ClientHWAddr.String(), IP: server, Message: fmt.Sprintf(
		"the DHCP server %s answers %s on this network too: stop it, or leave addresses to it (proxy mode), or let this server be assertive", server, answer.ClientHWAddr)}, true
}

// own reports whether the address is this host's.
func (s *Server) own(ip netip.Addr) bool {
	if ip == s.engine.options.ServerAddress {
		return true
	}
	list, err := net.InterfaceAddrs()
	if err != nil {
		return true // in doubt there is no rival
	}
	for _, a := range list {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil && prefix.Addr() == ip {
			return true
		}
	}
	return false
}
