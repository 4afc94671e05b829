package firmware

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// TFTP opcodes (RFC 1350 5, RFC 2347).
const (
	opRRQ  = 1
	opDATA = 3
	opACK  = 4
	opERR  = 5
	opOACK = 6
)

// errTFTP is the server's ERROR packet.
type errTFTP struct {
	code uint16
	text string
}

func (e errTFTP) Error() string { return fmt.Sprintf("TFTP error %d: %s", e.code, e.text) }

// transfer is one TFTP exchange: a socket of its own, and after the first
// answer one peer.
type transfer struct {
	boot   *boot
	conn   *net.UDPConn
	server netip.AddrPort
	peer   netip.AddrPort // zero until the server chose its port
	last   []byte         // sent last, again after a timeout
	buffer []byte
	close  func()
}

const tftpTries = 6

// probeSize asks for the size of a file as this firmware does, and aborts.
func (b *boot) probeSize(ctx context.Context, server netip.AddrPort, name string) (int64, error) {
	t, err := b.openTFTP(ctx, server)
	if err != nil {
		return 0, err
	}
	defer t.close()
	answer, err := t.roundTrip(ctx, readRequest(name, b.profile.probe.options...))
	if err != nil {
		return 0, fmt.Errorf("asking %s for the size of %s: %w", server, name, err)
	}
	if binary.BigEndian.Uint16(answer) != opOACK {
		return 0, fmt.Errorf("asking %s for the size of %s: the server ignores the option tsize (RFC 2349)", server, name)
	}
	text := ackedOptions(answer)["tsize"]
	size, err := strconv.ParseInt(text, 10, 64)
	if err != nil || size <= 0 {
		return 0, fmt.Errorf("asking %s for the size of %s: the answer is %q, want a number of bytes", server, name, text)
	}
	abort := binary.BigEndian.AppendUint16(nil, opERR)
	abort = binary.BigEndian.AppendUint16(abort, b.profile.probe.abortCode)
	t.send(append(append(abort, b.profile.probe.abortText...), 0))
	return size, nil
}

// download reads a file of at most limit bytes into w.
func (b *boot) download(ctx context.Context, server netip.AddrPort, name string, w io.Writer, limit int64, options ...string) (Image, error) {
	t, err := b.openTFTP(ctx, server)
	if err != nil {
		return Image{}, err
	}
	defer t.close()
	digest := sha256.New()
	size, err := t.receive(ctx, readRequest(name, options...), io.MultiWriter(digest, w), limit)
	if err != nil {
		return Image{}, fmt.Errorf("reading %s from TFTP server %s: %w", name, server, err)
	}
	return Image{Name: name, Size: size, SHA256: hex.EncodeToString(digest.Sum(nil))}, nil
}

func (b *boot) openTFTP(ctx context.Context, server netip.AddrPort) (*transfer, error) {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: b.sourceIP()})
	if err != nil {
		return nil, fmt.Errorf("opening a socket for TFTP: %w", err)
	}
	t := &transfer{boot: b, conn: conn, server: server, buffer: make([]byte, 2048)}
	t.close = func() { _ = conn.Close() }
	context.AfterFunc(ctx, t.close)
	return t, nil
}

// receive runs the lock-step of RFC 1350: each block is acknowledged once, and
// the last packet sent again only after a timeout, never for a duplicate.
func (t *transfer) receive(ctx context.Context, request []byte, w io.Writer, limit int64) (int64, error) {
	blksize, size := 512, int64(0)
	packet, err := t.roundTrip(ctx, request)
	for next := uint16(1); err == nil; {
		switch op, block := binary.BigEndian.Uint16(packet), binary.BigEndian.Uint16(packet[2:]); {
		case op == opOACK && next == 1:
			if n, bad := strconv.Atoi(ackedOptions(packet)["blksize"]); bad == nil && n >= 8 {
				blksize = n
			}
			packet, err = t.roundTrip(ctx, acknowledge(0))
		case op == opDATA && block == next:
			data := packet[4:]
			if size += int64(len(data)); size > limit {
				return size, fmt.Errorf("more than %d bytes", limit)
			}
			if _, err := w.Write(data); err != nil {
				return size, err
			}
			if len(data) < blksize {
				t.send(acknowledge(block))
				return size, nil
			}
			next++
			packet, err = t.roundTrip(ctx, acknowledge(block))
		default:
			packet, err = t.await(ctx)
		}
	}
	return size, err
}

// roundTrip sends a packet and waits for the next one of the server.
func (t *transfer) roundTrip(ctx context.Context, packet []byte) ([]byte, error) {
	t.send(packet)
	return t.await(ctx)
}

func (t *transfer) await(ctx context.Context) ([]byte, error) {
	for n := range tftpTries {
		packet, err := t.read(ctx, time.Now().Add(t.boot.machine.patience(time.Second, n)))
		var timeout net.Error
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.As(err, &timeout) && timeout.Timeout():
			t.send(t.last)
		case err != nil:
			return nil, err
		default:
			return packet, nil
		}
	}
	return nil, fmt.Errorf("no answer after %d tries (PXE-E32)", tftpTries)
}

// read returns the next packet of the peer; an ERROR becomes an error.
func (t *transfer) read(ctx context.Context, deadline time.Time) ([]byte, error) {
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	if err := t.conn.SetReadDeadline(deadline); err != nil {
		return nil, err
	}
	for {
		n, from, err := t.conn.ReadFromUDPAddrPort(t.buffer)
		if err != nil {
			return nil, err
		}
		from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
		if !t.fromPeer(from) || n < 4 || t.boot.lost() {
			continue
		}
		packet := t.buffer[:n]
		if binary.BigEndian.Uint16(packet) == opERR {
			text, _, _ := strings.Cut(string(packet[4:]), "\x00")
			return nil, errTFTP{binary.BigEndian.Uint16(packet[2:]), text}
		}
		return packet, nil
	}
}

// fromPeer binds the transfer to the first port that answers (RFC 1350 4). A
// request that was sent twice opens two; the other one is not listened to.
func (t *transfer) fromPeer(from netip.AddrPort) bool {
	if !t.peer.IsValid() && from.Addr() == t.server.Addr() {
		t.peer = from
	}
	return from == t.peer
}

func (t *transfer) send(packet []byte) {
	t.last = packet
	to := t.peer
	if !to.IsValid() {
		to = t.server
	}
	if !t.boot.lost() {
		_, _ = t.conn.WriteToUDPAddrPort(packet, to)
	}
}

func readRequest(name string, options ...string) []byte {
	packet := binary.BigEndian.AppendUint16(nil, opRRQ)
	for _, field := range append([]string{name, "octet"}, options...) {
		packet = append(append(packet, field...), 0)
	}
	return packet
}

func acknowledge(block uint16) []byte {
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, opACK), block)
}

func ackedOptions(packet []byte) map[string]string {
	fields := strings.Split(strings.TrimSuffix(string(packet[2:]), "\x00"), "\x00")
	options := map[string]string{}
	for i := 0; i+1 < len(fields); i += 2 {
		options[strings.ToLower(fields[i])] = fields[i+1]
	}
	return options
}
