// Package dhcp is the DHCP server of the boot plane: it leases addresses to
// machines that boot and tells firmware and iPXE what to load. Deciding about a
// packet is free of I/O (Request, Decision); Server adds socket and lease file.
package dhcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
)

// Server answers DHCP on one socket for each interface, or on one for all of
// them, and as many for the ProxyDHCP port. Use it in the order New, Listen,
// Serve; Close ends a server that is not served.
type Server struct {
	log     *slog.Logger
	reports reporter
	held    atomic.Int64 // replies held back

	work    sync.Mutex // one batch is decided about at a time
	engine  *engine
	links   links
	journal *journal
	commits *commits // nil without an observer

	mu     sync.Mutex
	ports  []*port
	frames *frames // nil unless Options.Unicast
}

// New checks the options. It touches neither network nor disk.
func New(o Options) (*Server, error) {
	e, err := newEngine(o)
	if err != nil {
		return nil, fmt.Errorf("set up DHCP: %w", err)
	}
	return &Server{engine: e, log: e.options.Log, commits: newCommits(e.options.OnCommit)}, nil
}

// Listen reads the lease file and binds the sockets. After an error nothing is
// held.
func (s *Server) Listen() (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ports) > 0 {
		return errors.New("listen for DHCP: already listening; call Listen once")
	}
	defer func() {
		if err != nil {
			_ = s.release()
		}
	}()
	o := s.engine.options
	if err := s.openLeases(o.LeaseFile); err != nil {
		return fmt.Errorf("listen for DHCP: %w", err)
	}
	devices := o.Interfaces
	if len(devices) == 0 {
		devices = []string{""}
	}
	for _, device := range devices {
		for _, p := range []*port{{address: o.Listen, device: device}, {address: o.BootListen, device: device, boot: true}} {
			if p.address == "" {
				continue
			}
			if err := p.open(context.Background()); err != nil {
				return err
			}
			s.ports = append(s.ports, p)
		}
	}
	if o.Unicast {
		s.frames, err = openFrames()
	}
	return err
}

func (s *Server) openLeases(file string) error {
	if file == "" {
		return nil
	}
	j, records, err := openJournal(file, s.log)
	if err != nil {
		return err
	}
	s.work.Lock()
	defer s.work.Unlock()
	s.journal = j
	s.engine.table.restore(records)
	return nil
}

// Addr is the bound address of the DHCP port, of the first interface if there
// are several; invalid before Listen.
func (s *Server) Addr() netip.AddrPort { return s.bound(false) }

// BootAddr is the bound address of the ProxyDHCP port, as Addr; invalid when it
// is not served.
func (s *Server) BootAddr() netip.AddrPort { return s.bound(true) }

func (s *Server) bound(boot bool) netip.AddrPort {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.ports {
		if p.boot == boot {
			return p.bound
		}
	}
	return netip.AddrPort{}
}

// ScriptRequested tells the server that a machine asked for its boot script, by
// any notation of its hardware address: it is in no boot loop.
func (s *Server) ScriptRequested(mac string) {
	hardware, err := net.ParseMAC(mac)
	if err != nil {
		return
	}
	s.work.Lock()
	defer s.work.Unlock()
	s.engine.loops.forget(string(hardware))
}

// Close releases sockets and lease file. Serve calls it at its end.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.release(); err != nil {
		return fmt.Errorf("close the DHCP sockets: %w; they are gone all the same", err)
	}
	return nil
}

func (s *Server) release() error {
	s.closeJournal()
	var errs []error
	for _, p := range s.ports {
		errs = append(errs, p.close())
	}
	if s.frames != nil {
		errs = append(errs, s.frames.close())
	}
	s.ports, s.frames = nil, nil
	return errors.Join(errs...)
}

func (s *Server) closeJournal() {
	s.work.Lock()
	defer s.work.Unlock()
	if s.journal == nil {
		return
	}
	if err := s.journal.close(); err != nil {
		s.log.Warn("closing the lease file failed", "error", err)
	}
	s.journal = nil
}

// Serve answers requests until ctx is done, then closes everything and returns
// nil. A socket that fails, because its interface went down, is opened again.
func (s *Server) Serve(ctx context.Context) error {
	s.mu.Lock()
	ports := s.ports
	s.mu.Unlock()
	if len(ports) == 0 {
		return errors.New("serve DHCP: not listening; call Listen first")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var helpers sync.WaitGroup
	helpers.Go(func() { s.syncLeases(ctx, s.journal) })
	for _, p := range ports {
		stop := context.AfterFunc(ctx, p.interrupt)
		defer stop()
		helpers.Go(func() { p.watch(ctx) })
		helpers.Go(func() { s.receive(ctx, p) })
		s.log.Info("DHCP is served", "address", p.bound, "interface", p.device)
	}
	s.watchRivals(ctx, &helpers, ports)
	served, told := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(told)
		s.commits.run(served)
	}()
	helpers.Wait()
	close(served)
	<-told
	return s.Close()
}

// receive reads batches from a port until ctx is done.
func (s *Server) receive(ctx context.Context, p *port) {
	in := newInbox()
	for ctx.Err() == nil {
		n, err := p.socket().ReadBatch(in.messages, 0)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			s.log.Warn("the DHCP socket failed and is opened again", "address", p.bound, "interface", p.device, "error", err)
			if !p.reopen(ctx, s.log) {
				return
			}
			continue
		}
		s.answer(p, in.messages[:n])
	}
}
