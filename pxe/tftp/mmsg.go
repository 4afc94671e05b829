package tftp

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// port is a UDP socket that the network poller of Go does not know; its calls
// block the thread. The poller also waits for room to send, of which the kernel
// makes some with every packet that it hands over. So it woke another thread all
// the time that this one was sending, which took a fifth of the processor time.
type port struct{ fd int }

const (
	// batchSize is how many packets one system call takes.
	batchSize = 64
	// ackSize is more than a client sends here: an ACK has 4 bytes, and of the text
	// of an ERROR the beginning will do.
	ackSize = 512
)

// mmsghdr is the kernel's struct of that name: a packet of a batch.
type mmsghdr struct {
	unix.Msghdr
	size uint32 // bytes received or sent
}

// openPort binds a UDP socket to a port of the kernel's choice.
func openPort(local netip.Addr) (*port, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	makeRoom(fd)
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: local.As4()}); err != nil {
		return nil, errors.Join(os.NewSyscallError("bind", err), unix.Close(fd))
	}
	return &port{fd}, nil
}

// setWait bounds how long receive waits for the first packet, and how long a
// full queue holds up send.
func (p *port) setWait(d time.Duration) error {
	wait := unix.NsecToTimeval(d.Nanoseconds())
	for _, option := range []int{unix.SO_RCVTIMEO, unix.SO_SNDTIMEO} {
		if err := unix.SetsockoptTimeval(p.fd, unix.SOL_SOCKET, option, &wait); err != nil {
			return os.NewSyscallError("setsockopt", err)
		}
	}
	return nil
}

// close must not be called while another thread receives or sends.
func (p *port) close() error { return os.NewSyscallError("close", unix.Close(p.fd)) }

// inbox is the memory for one batch of received packets.
type inbox struct {
	headers [batchSize]mmsghdr
	vectors [batchSize]unix.Iovec
	senders [batchSize]unix.RawSockaddrInet4
	packets [batchSize][ackSize]byte
}

func newInbox() *inbox {
	in := &inbox{}
	for i := range in.headers {
		in.vectors[i].Base = &in.packets[i][0]
		in.vectors[i].SetLen(ackSize)
		h := &in.headers[i]
		h.Iov = &in.vectors[i]
		h.SetIovlen(1)
		h.Name = (*byte)(unsafe.Pointer(&in.senders[i]))
	}
	return in
}

// at gives one packet, good until the next batch is received.
func (in *inbox) at(i int) (packet []byte, from netip.AddrPort) {
	s := &in.senders[i]
	return in.packets[i][:in.headers[i].size], netip.AddrPortFrom(netip.AddrFrom4(s.Addr), networkOrder(s.Port))
}

// receive waits for a packet and takes all those that are there, up to a batch.
// It gives 0 when none came in time.
func (p *port) receive(in *inbox) (int, error) {
	for i := range in.headers {
		in.headers[i].Namelen = unix.SizeofSockaddrInet4
	}
	n, _, errno := unix.Syscall6(unix.SYS_RECVMMSG, uintptr(p.fd), uintptr(unsafe.Pointer(&in.headers)), batchSize, unix.MSG_WAITFORONE, 0, 0)
	if errno == unix.EAGAIN || errno == unix.EINTR {
		return 0, nil
	}
	if errno != 0 {
		return 0, os.NewSyscallError("recvmmsg", errno)
	}
	return int(n), nil
}

// outbound is the memory for one batch of packets to send, each of one or two parts.
type outbound struct {
	n       int
	headers [batchSize]mmsghdr
	vectors [batchSize][2]unix.Iovec
	to      [batchSize]unix.RawSockaddrInet4
}

func newOutbound() *outbound {
	out := &outbound{}
	for i := range out.headers {
		h := &out.headers[i]
		h.Iov = &out.vectors[i][0]
		h.Name = (*byte)(unsafe.Pointer(&out.to[i]))
		h.Namelen = unix.SizeofSockaddrInet4
	}
	return out
}

// add appends a packet, for which there must be room. Its parts are read by
// send. control may be nil.
func (out *outbound) add(to netip.AddrPort, control, first, second []byte) {
	i := out.n
	out.n++
	out.to[i] = unix.RawSockaddrInet4{Family: unix.AF_INET, Port: networkOrder(to.Port()), Addr: to.Addr().As4()}
	parts := 0
	for _, part := range [...][]byte{first, second} {
		if len(part) > 0 {
			out.vectors[i][parts].Base = &part[0]
			out.vectors[i][parts].SetLen(len(part))
			parts++
		}
	}
	h := &out.headers[i]
	h.SetIovlen(parts)
	h.Control = unsafe.SliceData(control)
	h.SetControllen(len(control))
}

// send sends the batch and empties it. What cannot be sent is left out.
func (p *port) send(out *outbound) {
	for done := 0; done < out.n; {
		n, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(p.fd), uintptr(unsafe.Pointer(&out.headers[done])), uintptr(out.n-done), 0, 0, 0)
		if errno == unix.EINTR { // before the first one
			continue
		}
		if errno != 0 {
			n = 1
		}
		done += int(n)
	}
	out.n = 0
}

// networkOrder turns a port number from the host's order of bytes to that of the
// network, and back.
func networkOrder(port uint16) uint16 {
	var b [2]byte
	binary.NativeEndian.PutUint16(b[:], port)
	return binary.BigEndian.Uint16(b[:])
}
