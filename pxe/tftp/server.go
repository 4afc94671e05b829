// Package tftp serves the iPXE binaries to PXE firmware by TFTP, and the script
// that tells iPXE where to go on. It knows a closed table of names, reads
// nothing else and never writes.
//
// The protocol is RFC 1350 with the options of RFC 2347, 2348, 2349 and 7440.
// Request, options and the course of a transfer are free of sockets; a sender
// runs many transfers over one.
package tftp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"time"

	"golang.org/x/net/ipv4"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/talos-provision/provision/pxe/bootfile"
)

// Server serves TFTP on one well-known port, and sends from a few others. Use it
// in the order New, Listen, Serve; Close ends a server that is not served.
type Server struct {
	options   Options
	store     store
	admission admission
	refusals  rate.Sometimes

	mu      sync.Mutex
	conn    *ipv4.PacketConn // the well-known port
	senders []*sender
	bound   netip.AddrPort
}

// mostSenders bounds the sockets that files leave by. Few are better: the more
// clients one serves, the more packets go with each system call.
const mostSenders = 4

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

// Listen binds the sockets. After an error nothing is held.
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
	conn, err := openSocket(address)
	if err != nil {
		return explainListen(address, err)
	}
	s.conn, s.bound = ipv4.NewPacketConn(conn), addrPort(conn.LocalAddr())
	for range min(max(runtime.GOMAXPROCS(0)/2, 1), mostSenders) {
		p, err := openPort(address.Addr())
		if err != nil {
			_ = s.release()
			return fmt.Errorf("open a TFTP transfer socket on %s: %w; check the limit of open files", address.Addr(), err)
		}
		s.senders = append(s.senders, newSender(s, p))
	}
	return nil
}

// Addr is the bound address; invalid before Listen.
func (s *Server) Addr() netip.AddrPort {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bound
}

// Close releases the sockets. Serve calls it at its end.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.release(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close the TFTP sockets: %w; they are gone all the same", err)
	}
	return nil
}

func (s *Server) release() error {
	var err error
	if s.conn != nil {
		err = s.conn.Close()
	}
	err = errors.Join(err, closeAll(s.senders))
	s.conn, s.senders = nil, nil
	return err
}

func closeAll(senders []*sender) error {
	var err error
	for _, w := range senders {
		err = errors.Join(err, w.port.close())
	}
	return err
}

// Serve answers requests until ctx is done, ends the running transfers and
// returns nil.
func (s *Server) Serve(ctx context.Context) error {
	s.mu.Lock()
	conn, senders := s.conn, s.senders
	s.senders = nil // Close must not take them away while they are at work
	s.mu.Unlock()
	if len(senders) == 0 {
		return errors.New("serve TFTP: not listening; call Listen first")
	}
	s.options.Log.Info("TFTP is served", "address", s.bound)
	group, inner := errgroup.WithContext(ctx)
	group.Go(func() error { return s.receive(inner, conn, senders) })
	for _, w := range senders {
		group.Go(func() error { return w.run(inner) })
	}
	err := group.Wait()
	if err != nil {
		err = fmt.Errorf("serve TFTP: the server ended by itself: %w; restart it", err)
	}
	return errors.Join(err, closeAll(senders), s.Close())
}

// receive reads requests from the well-known port until ctx is done.
func (s *Server) receive(ctx context.Context, conn *ipv4.PacketConn, senders []*sender) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	in := newRequests()
	for {
		n, err := conn.ReadBatch(in, 0)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		now := time.Now()
		for _, m := range in[:n] {
			s.accept(m, senders, now)
		}
	}
}

// accept answers one packet at the well-known port.
func (s *Server) accept(m ipv4.Message, senders []*sender, now time.Time) {
	packet := m.Buffers[0][:m.N]
	r, refused := parseRequest(packet)
	if r == nil && refused == nil {
		return
	}
	client := addrPort(m.Addr)
	if !client.IsValid() || client.Port() == 0 {
		return
	}
	w := senders[int(client.Port())%len(senders)]
	t := &transfer{
		report: Transfer{Client: client, Started: now},
		sender: w, wait: s.options.Timeout,
	}
	t.report.Local, t.control = source(m, s.bound.Addr())
	if refused != nil {
		s.options.Log.Debug("TFTP request refused", "client", client, "reason", refused.text)
		w.refuse(t, *refused)
		return
	}
	if w.repeated(client, packet, now) {
		return
	}
	t.request = string(packet)
	t.report.Requested = printable(r.name)
	if refused = s.prepare(t, r); refused != nil {
		w.refuse(t, *refused)
		s.finish(t.report)
		return
	}
	w.start(t, now)
}

// prepare finds the content and a place for the transfer.
func (s *Server) prepare(t *transfer, r *request) *refusal {
	content, err := s.content(t, r)
	if err != nil {
		t.report.Outcome, t.report.Error = Missing, err.Error()
		if !errors.Is(err, errMissing) {
			s.options.Log.Warn("a boot file cannot be served", "requested", t.report.Requested, "error", err)
		}
		return &refuseMissing
	}
	t.content, t.report.Size = content, int64(len(content))
	t.block, t.window, t.sized, t.oack = r.block, r.window, r.asksSize(), r.oack(len(content))
	if r.timeout > 0 {
		t.wait, t.patient = r.timeout, true
	}
	evicted, ok := s.admission.enter(t)
	if !ok {
		t.report.Outcome, t.report.Error = Refused, "too many transfers at one time"
		return &refuseBusy
	}
	if evicted != nil {
		evicted.sender.evict(evicted)
	}
	return nil
}

// content finds what the requested name stands for.
func (s *Server) content(t *transfer, r *request) ([]byte, error) {
	name, ok := resolve(r.name)
	if !ok {
		return nil, errMissing
	}
	if name != bootfile.Autoexec {
		content, err := s.store.read(name, r.netascii)
		if err == nil {
			t.report.Name = name
		}
		return content, err
	}
	if s.options.Autoexec == nil {
		return nil, errMissing
	}
	t.report.Name = name
	script := []byte(s.options.Autoexec(t.report.Local))
	if r.netascii {
		script = toNetascii(script)
	}
	return script, nil
}

// finish tells of a transfer that ended.
func (s *Server) finish(t Transfer) {
	log := s.options.Log.Debug
	if t.Outcome == Failed && t.Sent > 0 { // a client that never answered is no failure of ours
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
