package dhcp

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// frames sends packets to hardware addresses, past the kernel's ARP, which
// cannot resolve an address that its owner does not have yet (RFC 2131 4.1).
type frames struct {
	fd int
}

// openFrames opens a packet socket that receives nothing.
func openFrames() (*frames, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open a packet socket for DHCP: %w; run as root or with CAP_NET_RAW, or switch unicast off", err)
	}
	return &frames{fd: fd}, nil
}

// send sends the reply to its Frame address.
func (f *frames) send(r *Reply) error {
	to := unix.SockaddrLinklayer{Protocol: networkOrder(unix.ETH_P_IP), Ifindex: r.Interface, Halen: uint8(len(r.Frame))}
	copy(to.Addr[:], r.Frame)
	packet := udpPacket(netip.AddrPortFrom(r.From, serverPort), r.To, r.wire())
	return os.NewSyscallError("send to a hardware address", unix.Sendto(f.fd, packet, 0, &to))
}

func (f *frames) close() error { return os.NewSyscallError("close", unix.Close(f.fd)) }

// Sizes and values of the headers.
const (
	ipHeader   = 20
	udpHeader  = 8
	ttl        = 64
	versionIHL = 4<<4 | ipHeader/4
)

// udpPacket is the payload with IPv4 and UDP headers before it.
func udpPacket(from, to netip.AddrPort, payload []byte) []byte {
	b := make([]byte, ipHeader+udpHeader, ipHeader+udpHeader+len(payload))
	b = append(b, payload...)
	ip, udp := b[:ipHeader], b[ipHeader:]
	ip[0] = versionIHL
	binary.BigEndian.PutUint16(ip[2:], uint16(len(b)))
	ip[8], ip[9] = ttl, unix.IPPROTO_UDP
	copy(ip[12:], from.Addr().AsSlice())
	copy(ip[16:], to.Addr().AsSlice())
	binary.BigEndian.PutUint16(ip[10:], checksum(0, ip))
	binary.BigEndian.PutUint16(udp, from.Port())
	binary.BigEndian.PutUint16(udp[2:], to.Port())
	binary.BigEndian.PutUint16(udp[4:], uint16(len(udp)))
	// The pseudo header: both addresses, protocol and length.
	sum := checksum(uint32(unix.IPPROTO_UDP)+uint32(len(udp))+add(ip[12:20]), udp)
	if sum == 0 {
		sum = 0xffff // 0 says that there is none
	}
	binary.BigEndian.PutUint16(udp[6:], sum)
	return b
}

// checksum is the Internet checksum (RFC 1071) with what was added up before.
func checksum(before uint32, b []byte) uint16 {
	sum := before + add(b)
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// add adds the 16-bit words up; packets of 64 KB cannot overflow it.
func add(b []byte) uint32 {
	var sum uint32
	for ; len(b) >= 2; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) == 1 {
		sum += uint32(b[0]) << 8
	}
	return sum
}

func networkOrder(n uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, n))
}
