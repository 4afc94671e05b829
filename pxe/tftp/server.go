// Package tftp serves the iPXE binaries to PXE firmware by TFTP, and the script
// that tells iPXE where to go on. It knows a closed table of names, reads
// nothing else and never writes.
//
// The protocol engine is github.com/pin/tftp. Its single-port mode can be
// crashed from the network and its anticipate mode breaks firmware; neither is
// ever enabled. It knows option names in lower case only: a client that sends
// BLKSIZE gets 512-byte blocks without an OACK, which RFC 2347 allows.
package tftp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/pin/tftp/v3"
	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"
)

// Server serves TFTP on one socket. Use it in the order New, Listen, Serve;
// Close ends a server that is not served.
type Server struct {
	options   Options
	store     store
	admission admission
	refusals  rate.Sometimes

	mu    sync.Mutex
	conn  *net.UDPConn
	bound netip.AddrPort
}

// New checks the options. It opens no socket.
func New(o Options) (*Server, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("set up TFTP: %w", err)
	}
	return &Server{
		options:   o,
		store:     store{dir: o.IPXEDir},
		admission: admission{most: o.MaxTransfers, mostPerClient: o.MaxPerClient},
		refusals:  rate.Sometimes{Interval: 10 * time.Second},
	}, nil
}

// Listen binds the socket.
func (s *Server) Listen() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		return errors.New("listen for TFTP: already listening; call Listen once")
	}
	address, err := netip.ParseAddrPort(s.options.Listen)
	if err != nil {
		return fmt.Errorf("listen for TFTP on %s: %w; write it as ADDRESS:PORT", s.options.Listen, err)
	}
	network := "udp4"
	if address.Addr().Is6() {
		network = "udp6"
	}
	config := net.ListenConfig{Control: askLocalAddress}
	conn, err := config.ListenPacket(context.Background(), network, address.String())
	if err != nil {
		return explainListen(address, err)
	}
	s.conn = conn.(*net.UDPConn)
	s.bound = s.conn.LocalAddr().(*net.UDPAddr).AddrPort()
	return nil
}

// askLocalAddress makes the kernel say which address and interface each packet
// reached. The library asks for it too, but only once it serves: requests that
// arrive earlier would get 512-byte blocks from any address of this host.
func askLocalAddress(network, _ string, raw syscall.RawConn) error {
	level, name := unix.IPPROTO_IP, unix.IP_PKTINFO
	if network == "udp6" {
		level, name = unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO
	}
	var err error
	controlErr := raw.Control(func(fd uintptr) {
		err = os.NewSyscallError("setsockopt PKTINFO", unix.SetsockoptInt(int(fd), level, name, 1))
	})
	return errors.Join(controlErr, err)
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

// Addr is the bound address; invalid before Listen.
func (s *Server) Addr() netip.AddrPort {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bound
}

// Close releases the socket. Serve calls it at its end.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil {
		return nil
	}
	err := s.conn.Close()
	s.conn = nil
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close the TFTP socket: %w; it is gone all the same", err)
	}
	return nil
}

// Serve answers requests until ctx is done, ends the running transfers and
// returns nil.
func (s *Server) Serve(ctx context.Context) error {
	s.mu.Lock()
	conn := s.conn
	s.mu.Unlock()
	if conn == nil {
		return errors.New("serve TFTP: not listening; call Listen first")
	}
	engine := tftp.NewServer(func(name string, to io.ReaderFrom) error {
		return s.serveRead(ctx, name, to)
	}, func(string, io.WriterTo) error { return errReadOnly })
	engine.SetTimeout(s.options.Timeout)
	engine.SetRetries(retries)
	engine.SetBlockSize(largestBlock)
	engine.SetBackoff(backoff(ctx))
	engine.SetHook(silencer{})
	drained := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(drained)
		engine.Shutdown()
	})
	s.options.Log.Info("TFTP is served", "address", s.bound)
	err := engine.Serve(conn)
	if stop() {
		return errors.Join(fmt.Errorf("serve TFTP: the server ended by itself: %w; restart it", errOr(err, net.ErrClosed)), s.Close())
	}
	<-drained
	return s.Close()
}

// serveRead answers one read request. The error that it returns is what the
// client reads, so it never holds a path of this host.
func (s *Server) serveRead(ctx context.Context, requested string, to io.ReaderFrom) error {
	t := Transfer{Requested: printable(requested), Started: time.Now()}
	if out, ok := to.(tftp.OutgoingTransfer); ok {
		remote := out.RemoteAddr()
		from := remote.AddrPort()
		t.Client = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
	}
	t.Local = localAddress(to, t.Client)
	answer := s.transfer(ctx, &t, to, requested)
	t.Duration = time.Since(t.Started)
	s.finish(t)
	return answer
}

// transfer fills in t; its error is sent to the client.
func (s *Server) transfer(ctx context.Context, t *Transfer, to io.ReaderFrom, requested string) error {
	client := t.Client.Addr()
	if !s.admission.enter(client) {
		t.Outcome, t.Error = Refused, "too many transfers at one time"
		return errors.New("server is busy, try again")
	}
	defer s.admission.leave(client)
	content, err := s.content(t, requested)
	if err != nil {
		t.Outcome, t.Error = Missing, err.Error()
		if !errors.Is(err, errMissing) {
			s.options.Log.Warn("a boot file cannot be served", "requested", t.Requested, "error", err)
		}
		return errMissing
	}
	t.Size = int64(len(content))
	b := newBody(ctx, content)
	err = send(to, b)
	t.Sent, t.Outcome = b.sent, b.outcome(err)
	if err != nil {
		t.Error = printable(err.Error())
	}
	return nil // the engine has told the client already
}

// content finds what the requested name stands for.
func (s *Server) content(t *Transfer, requested string) ([]byte, error) {
	name, ok := resolve(requested)
	if !ok {
		return nil, errMissing
	}
	if name != nameAutoexec {
		content, err := s.store.read(name)
		if err == nil {
			t.Name = name
		}
		return content, err
	}
	if s.options.Autoexec == nil {
		return nil, errMissing
	}
	t.Name = name
	return []byte(s.options.Autoexec(t.Local)), nil
}

func (s *Server) finish(t Transfer) {
	log := s.options.Log.Debug
	if t.Outcome == Failed {
		log = s.options.Log.Warn
	}
	if t.Outcome == Refused {
		s.refusals.Do(func() {
			s.options.Log.Warn("TFTP requests are refused: too many transfers at one time; raise the limits if these are all real machines", "client", t.Client.Addr())
		})
	}
	log("TFTP transfer", "client", t.Client, "requested", t.Requested, "outcome", t.Outcome, "sent", t.Sent, "size", t.Size, "duration", t.Duration, "error", t.Error)
	if s.options.OnTransfer != nil {
		s.options.OnTransfer(t)
	}
}

// localAddress is the address that the request reached. A request to a
// broadcast address has none; then it is the one that faces the client.
func localAddress(to io.ReaderFrom, client netip.AddrPort) netip.Addr {
	if info, ok := to.(tftp.RequestPacketInfo); ok {
		if a, ok := netip.AddrFromSlice(info.LocalIP()); ok && !a.IsUnspecified() {
			return a.Unmap()
		}
	}
	// Connecting a UDP socket sends nothing: it asks the routes.
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(client))
	if err != nil {
		return netip.Addr{}
	}
	defer func() { _ = conn.Close() }()
	return conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
}
