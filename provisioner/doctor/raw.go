package doctor

import (
	"encoding/binary"
	"errors"
	"net"
	"time"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"
)

// rawSocket sends and receives DHCP below the kernel's UDP. A UDP socket could
// not be had: port 68 may belong to this host's own DHCP client.
type rawSocket struct {
	fd   int
	link *net.Interface
}

const (
	ipHeader, udpHeader    = ipv4.HeaderLen, 8
	serverPort, clientPort = 67, 68
	protocolUDP            = 17
)

// openRaw needs CAP_NET_RAW.
func openRaw(link *net.Interface) (*rawSocket, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(network16(unix.ETH_P_IP)))
	if err != nil {
		return nil, err
	}
	s := &rawSocket{fd: fd, link: link}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: network16(unix.ETH_P_IP), Ifindex: link.Index}); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *rawSocket) close() { _ = unix.Close(s.fd) }

// broadcast sends a DHCP message from 0.0.0.0:68 to everybody.
func (s *rawSocket) broadcast(payload []byte) error {
	packet := make([]byte, ipHeader+udpHeader, ipHeader+udpHeader+len(payload))
	header := packet[:ipHeader]
	header[0], header[8], header[9] = 0x45, 64, protocolUDP // version and length, time to live
	binary.BigEndian.PutUint16(header[2:], uint16(ipHeader+udpHeader+len(payload)))
	copy(header[16:], net.IPv4bcast.To4())
	binary.BigEndian.PutUint16(header[10:], checksum(header))
	udp := packet[ipHeader:]
	binary.BigEndian.PutUint16(udp[0:], clientPort)
	binary.BigEndian.PutUint16(udp[2:], serverPort)
	binary.BigEndian.PutUint16(udp[4:], uint16(udpHeader+len(payload)))
	// A UDP checksum of zero means none (RFC 768).
	to := &unix.SockaddrLinklayer{Protocol: network16(unix.ETH_P_IP), Ifindex: s.link.Index, Halen: 6, Addr: [8]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}}
	return unix.Sendto(s.fd, append(packet, payload...), 0, to)
}

// receive gives the payload of the next packet to port 68; nil at the deadline.
func (s *rawSocket) receive(deadline time.Time) ([]byte, error) {
	buffer := make([]byte, 1<<16)
	for {
		left := time.Until(deadline)
		if left <= 0 {
			return nil, nil
		}
		// At least a microsecond: zero would mean to wait for ever.
		wait := unix.NsecToTimeval(max(left, time.Microsecond).Nanoseconds())
		if err := unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait); err != nil {
			return nil, err
		}
		n, _, err := unix.Recvfrom(s.fd, buffer, 0)
		switch {
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return nil, err
		}
		if payload, is := toClient(buffer[:n]); is {
			return payload, nil
		}
	}
}

// toClient takes the payload out of an IPv4 packet for a DHCP client.
func toClient(packet []byte) ([]byte, bool) {
	if len(packet) < ipHeader || packet[0]>>4 != 4 || packet[9] != protocolUDP {
		return nil, false
	}
	length := int(packet[0]&0x0f) * 4
	if length < ipHeader || len(packet) < length+udpHeader {
		return nil, false
	}
	udp := packet[length:]
	size := int(binary.BigEndian.Uint16(udp[4:]))
	if binary.BigEndian.Uint16(udp[2:]) != clientPort || size < udpHeader || size > len(udp) {
		return nil, false
	}
	return udp[udpHeader:size], true
}

// checksum is the Internet checksum (RFC 1071) of a header with an even length.
func checksum(header []byte) uint16 {
	var sum uint32
	for i := 0; i+1 < len(header); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(header[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// network16 puts a number into network byte order.
func network16(n uint16) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], n)
	return binary.NativeEndian.Uint16(b[:])
}
