package redfishtest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// Start serves HTTPS on addr, "127.0.0.1:0" for any free port. It returns once
// the port is bound; a service can be started once.
func (s *Service) Start(addr string) error {
	cert, err := s.certificate(addr)
	if err != nil {
		return fmt.Errorf("start Redfish service on %s: %w", addr, err)
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(s.ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("start Redfish service on %s, is the port free? %w", addr, err)
	}
	conns := new(sync.WaitGroup)
	server := s.newServer(conns)

	s.mu.Lock()
	if s.closed || s.server != nil || s.site != nil {
		s.mu.Unlock()
		_ = ln.Close()
		return fmt.Errorf("start Redfish service on %s: started or closed before, make a new one", addr)
	}
	s.server, s.listener, s.served = server, ln, cert
	s.work.Add(1)
	s.mu.Unlock()

	tlsListener := tls.NewListener(ln, &tls.Config{
		Certificates: []tls.Certificate{*cert}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
	})
	go func() {
		defer s.work.Done()
		if err := server.Serve(tlsListener); err != nil && !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("Redfish service ended", "address", addr, "error", err)
		}
		// Connections are counted by the accept loop, which has just ended.
		conns.Wait()
	}()
	return nil
}

// newServer counts connections in conns, so that Close can wait for the last.
func (s *Service) newServer(conns *sync.WaitGroup) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true) // BMCs speak no HTTP/2, and it costs memory.
	return &http.Server{
		Handler:           s,
		Protocols:         protocols,
		ReadHeaderTimeout: 30 * time.Second,
		IdleTimeout:       30 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return s.ctx },
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug), // handshakes of port scanners
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				conns.Add(1)
			case http.StateClosed, http.StateHijacked:
				conns.Done()
			case http.StateActive, http.StateIdle:
			}
		},
	}
}

// URL returns the base URL, "https://127.0.0.1:34567", without a trailing
// slash; empty before Start.
func (s *Service) URL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.site != nil:
		return "https://" + s.at.String()
	case s.listener == nil:
		return ""
	}
	return "https://" + s.listener.Addr().String()
}

// CertificatePEM returns the certificate chain served, for a client to trust;
// nil before Start.
func (s *Service) CertificatePEM() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.served == nil {
		return nil
	}
	return encodePEM(s.served.Certificate...)
}

// Close ends the listener, every connection, every delay and every pending
// power change, and returns when none of them runs any more. The machine keeps
// its power. Closing again does nothing.
func (s *Service) Close() {
	s.mu.Lock()
	s.closed = true
	server, site := s.server, s.site
	s.mu.Unlock()
	s.cancel()
	if site != nil {
		site.detach(s.at.Addr())
	}
	if server != nil {
		_ = server.Close()
	}
	s.work.Wait()
}
