package redfishtest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// Site serves many services from one listener, each at an address of its own:
// the address that a client connected to decides whose answer it gets, and whose
// certificate. A fleet whose BMCs are more than the process may open sockets
// has one, with a listener on all addresses of the loopback interface. All
// methods are safe for concurrent use.
type Site struct {
	listener net.Listener
	server   *http.Server
	stop     context.CancelFunc
	done     sync.WaitGroup

	mu       sync.RWMutex
	services map[netip.Addr]*Service
}

var errNobodyThere = errors.New("no BMC is at this address")

// NewSite serves what is attached on a TCP listener, which Close closes. The
// log, of broken handshakes at debug level, may be nil.
func NewSite(listener net.Listener, log *slog.Logger) *Site {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	life, stop := context.WithCancel(context.Background())
	s := &Site{listener: listener, stop: stop, services: map[netip.Addr]*Service{}}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true) // as each service by itself
	s.server = &http.Server{
		Handler: s, Protocols: protocols, ReadHeaderTimeout: 30 * time.Second, IdleTimeout: 30 * time.Second,
		BaseContext: func(net.Listener) context.Context { return life },
		ErrorLog:    slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	secure := tls.NewListener(listener, &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, GetCertificate: s.certificate,
	})
	s.done.Go(func() {
		if err := s.server.Serve(secure); err != nil && !errors.Is(err, http.ErrServerClosed) {
			log.Error("Redfish site ended", "address", listener.Addr(), "error", err)
		}
	})
	return s
}

// Attach serves a service at an address, on the site's port, until the service
// is closed. A service can be attached or started once.
func (s *Site) Attach(at netip.Addr, service *Service) error {
	certificate, err := service.certificate(netip.AddrPortFrom(at, 0).String())
	if err != nil {
		return fmt.Errorf("attach the Redfish service at %s: %w", at, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.services[at] != nil {
		return fmt.Errorf("attach a Redfish service at %s: another one is there, give each an address of its own", at)
	}
	service.mu.Lock()
	defer service.mu.Unlock()
	if service.closed || service.server != nil || service.site != nil {
		return fmt.Errorf("attach the Redfish service at %s: started or closed before, make a new one", at)
	}
	tcp, ok := s.listener.Addr().(*net.TCPAddr)
	if !ok {
		return fmt.Errorf("attach the Redfish service at %s: the site listens on %s, and needs a TCP port", at, s.listener.Addr())
	}
	service.site, service.served, service.at = s, certificate, netip.AddrPortFrom(at, tcp.AddrPort().Port())
	s.services[at] = service
	return nil
}

// detach ends a service's part; requests under way go on to their end.
func (s *Site) detach(at netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.services, at)
}

// find is the service at an address, nil for none.
func (s *Site) find(at net.Addr) *Service {
	tcp, ok := at.(*net.TCPAddr)
	if !ok {
		return nil
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.services[tcp.AddrPort().Addr().Unmap()]
}

func (s *Site) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	service := s.find(hello.Conn.LocalAddr())
	if service == nil {
		return nil, errNobodyThere
	}
	return service.served, nil // set before it was attached
}

// ServeHTTP hands a request to the service at the address it came to.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	service := s.find(at)
	if service == nil || !service.begin() {
		hangUp(w)
		return
	}
	defer service.work.Done()
	service.ServeHTTP(w, r)
}

// begin counts a request in that did not come through the service's own server;
// false after Close.
func (s *Service) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.work.Add(1)
	return true
}

// Close closes the listener and every connection. The services stay; close them
// first.
func (s *Site) Close() {
	s.stop()
	_ = s.server.Close()
	s.done.Wait()
}
