// Package dhcp is the DHCP server of the boot plane: it leases addresses to
// machines that boot and tells firmware and iPXE what to load. Deciding about a
// packet is free of I/O (Request, Decision); Server adds socket and lease file.
package dhcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/net/ipv4"
)

// Server answers DHCP on one socket. Use it in the order New, Listen, Serve;
// Close ends a server that is not served.
type Server struct {
	engine  *engine
	log     *slog.Logger
	links   links
	reports reporter

	mu      sync.Mutex
	conn    *ipv4.PacketConn
	bound   netip.AddrPort
	journal *journal
}

// New checks the options. It touches neither network nor disk.
func New(o Options) (*Server, error) {
	e, err := newEngine(o)
	if err != nil {
		return nil, fmt.Errorf("set up DHCP: %w", err)
	}
	return &Server{engine: e, log: e.options.Log}, nil
}

// Listen reads the lease file and binds the socket. After an error nothing is
// held.
func (s *Server) Listen() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		return errors.New("listen for DHCP: already listening; call Listen once")
	}
	o := s.engine.options
	if o.LeaseFile != "" {
		j, records, err := openJournal(o.LeaseFile, s.log)
		if err != nil {
			return fmt.Errorf("listen for DHCP: %w", err)
		}
		s.journal = j
		s.engine.table.restore(records)
	}
	conn, bound, err := openSocket(context.Background(), o.Listen, o.Interface)
	if err != nil {
		s.closeJournal()
		return err
	}
	s.conn, s.bound = conn, bound
	return nil
}

// Addr is the bound address; invalid before Listen.
func (s *Server) Addr() netip.AddrPort {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bound
}

// Close releases socket and lease file. Serve calls it at its end.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closeJournal()
	if s.conn == nil {
		return nil
	}
	err := s.conn.Close()
	s.conn = nil
	if err != nil {
		return fmt.Errorf("close the DHCP socket: %w; it is gone all the same", err)
	}
	return nil
}

func (s *Server) closeJournal() {
	if s.journal == nil {
		return
	}
	if err := s.journal.close(); err != nil {
		s.log.Warn("closing the lease file failed", "error", err)
	}
	s.journal = nil
}

// socket is the current socket, nil after Close.
func (s *Server) socket() *ipv4.PacketConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn
}

// Serve answers requests until ctx is done, then closes everything and returns
// nil. A socket that fails, because its interface went down, is opened again.
func (s *Server) Serve(ctx context.Context) error {
	if s.socket() == nil {
		return errors.New("serve DHCP: not listening; call Listen first")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, s.interrupt)
	defer stop()
	var helpers sync.WaitGroup
	helpers.Go(func() { s.syncLeases(ctx, s.journal) })
	helpers.Go(func() { s.watchInterface(ctx) })
	s.log.Info("DHCP is served", "address", s.bound, "interface", s.engine.options.Interface)
	s.receive(ctx)
	cancel()
	helpers.Wait()
	return s.Close()
}

// interrupt wakes the reader.
func (s *Server) interrupt() {
	if conn := s.socket(); conn != nil {
		_ = conn.SetReadDeadline(time.Unix(1, 0))
	}
}

// Back-off of opening the socket again.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// receive reads batches until ctx is done.
func (s *Server) receive(ctx context.Context) {
	in := newInbox()
	for ctx.Err() == nil {
		n, err := s.socket().ReadBatch(in.messages, 0)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			s.log.Warn("the DHCP socket failed and is opened again", "error", err)
			if !s.reopen(ctx) {
				return
			}
			continue
		}
		s.answer(in.messages[:n])
	}
}

// reopen replaces the socket; false when ctx ended meanwhile.
func (s *Server) reopen(ctx context.Context) bool {
	_ = s.socket().Close()
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(wait):
		}
		conn, _, err := openSocket(ctx, s.Addr().String(), s.engine.options.Interface)
		if err != nil {
			s.log.Warn("the DHCP socket is not back yet", "error", err, "again", min(2*wait, lastRetry))
			continue
		}
		s.mu.Lock()
		s.conn = conn
		s.mu.Unlock()
		s.log.Info("the DHCP socket is back", "address", s.bound)
		return ctx.Err() == nil
	}
}
