package pxe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/talos-provision/provision/pxe/dhcp"
	"github.com/talos-provision/provision/pxe/httpboot"
	"github.com/talos-provision/provision/pxe/tftp"
)

// shutdownGrace is how long answers under way may take at the end. A kernel that
// is being sent to a machine does not make it; its script fetches it again.
const shutdownGrace = 3 * time.Second

// Services are the boot services of one host. Use: New, Listen, Run; Close in
// place of Run when there is nothing to run after all.
type Services struct {
	opts    Options
	handler *httpboot.Handler
	tftp    *tftp.Server // nil when left out

	mu       sync.Mutex
	listener net.Listener // HTTP's; nil until Listen
	http     netip.AddrPort
	dhcp     *dhcp.Server          // nil when left out, and until Listen
	reserved map[string]netip.Addr // what DHCP begins with in Listen
}

// New checks the options. It binds nothing.
func New(o Options) (*Services, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("set up the boot services: %w", err)
	}
	if o.BaseURL != "" && o.HTTP.BaseURL == nil {
		o.HTTP.BaseURL = func(*http.Request) string { return o.BaseURL }
	}
	s := &Services{opts: o}
	if o.DHCP != nil {
		o.HTTP.OnScript = s.scriptSeen(o.HTTP.OnScript)
	}
	s.handler = httpboot.New(o.HTTP.Options)
	if o.TFTP != nil {
		t := *o.TFTP
		if t.Autoexec == nil {
			t.Autoexec = s.autoexec
		}
		if s.tftp, err = tftp.New(t); err != nil {
			return nil, err
		}
	}
	if o.DHCP != nil {
		// Made again in Listen, when the port of HTTP is known; what is wrong with
		// the subnets is better said now.
		if _, err := dhcp.New(*o.DHCP); err != nil {
			return nil, err
		}
		s.reserved = maps.Clone(o.DHCP.Reservations)
	}
	return s, nil
}

// Listen binds every service, or none: after an error nothing stays bound. The
// error names the service, the address and how to find who holds the port.
func (s *Services) Listen(ctx context.Context) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener != nil {
		return errors.New("listen for the boot services: already listening; call Listen once")
	}
	defer func() {
		if err != nil {
			s.release()
		}
	}()
	// HTTP first: DHCP and TFTP tell machines its port.
	if s.listener, err = listenHTTP(ctx, s.opts.HTTP.Listen); err != nil {
		return err
	}
	s.http = addrPort(s.listener.Addr())
	if s.tftp != nil {
		if err = s.tftp.Listen(); err != nil {
			return err
		}
	}
	if s.opts.DHCP == nil {
		return nil
	}
	d := *s.opts.DHCP
	d.Reservations = s.reserved
	d.BootURL, d.BootPort = bootURL(s.opts, s.http), int(s.http.Port())
	if s.dhcp, err = dhcp.New(d); err != nil {
		return err
	}
	return s.dhcp.Listen()
}

// Run serves until ctx ends or a service fails, which ends the others. It calls
// Listen when that was not done. At the end of ctx it stops within some seconds
// and returns nil.
func (s *Services) Run(ctx context.Context) error {
	if !s.listening() {
		if err := s.Listen(ctx); err != nil {
			return err
		}
	}
	defer s.Close()
	s.mu.Lock()
	listener, leases := s.listener, s.dhcp
	s.mu.Unlock()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.serveHTTP(ctx, listener) })
	if s.tftp != nil {
		g.Go(func() error { return s.tftp.Serve(ctx) })
	}
	if leases != nil {
		g.Go(func() error { return leases.Serve(ctx) })
	}
	return g.Wait()
}

// SetReservations replaces the reservations of the DHCP server, now or when it
// listens, as dhcp.Server.SetReservations does: after an error nothing has
// changed. Without a DHCP server, or with one that leaves addresses to another,
// it does nothing.
func (s *Services) SetReservations(reservations map[string]netip.Addr) error {
	if s.opts.DHCP == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	server := s.dhcp
	if server == nil { // one that is made to check them only
		var err error
		if server, err = dhcp.New(*s.opts.DHCP); err != nil {
			return err
		}
	}
	if err := server.SetReservations(reservations); err != nil {
		return err
	}
	s.reserved = maps.Clone(reservations)
	return nil
}

// Leases are the confirmed leases that last, as dhcp.Server.Leases has them; none
// when it is not listening or DHCP is left to another.
func (s *Services) Leases() []dhcp.LeaseRecord {
	s.mu.Lock()
	server := s.dhcp
	s.mu.Unlock()
	if server == nil {
		return nil
	}
	return server.Leases()
}

// Pools tell how full the subnets of the DHCP server are, as dhcp.Server.Pools has
// them; none when it is not listening or DHCP is left to another.
func (s *Services) Pools() []dhcp.Pool {
	s.mu.Lock()
	server := s.dhcp
	s.mu.Unlock()
	if server == nil {
		return nil
	}
	return server.Pools()
}

// Sending is how many files are being sent over HTTP.
func (s *Services) Sending() int { return s.handler.Sending() }

// Close releases what Listen bound. It may be called at any time, also twice.
func (s *Services) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release()
}

// Addresses are where the services are bound; a zero value means that the
// service is left out or not listening.
type Addresses struct {
	HTTP, TFTP, DHCP netip.AddrPort
}

// Addresses returns the bound addresses, with real ports where 0 was asked for.
func (s *Services) Addresses() Addresses {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil {
		return Addresses{}
	}
	a := Addresses{HTTP: s.http}
	if s.tftp != nil {
		a.TFTP = s.tftp.Addr()
	}
	if s.dhcp != nil {
		a.DHCP = s.dhcp.Addr()
	}
	return a
}

func (s *Services) listening() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listener != nil
}

// release closes in the order opposite to Listen. Errors say nothing that anyone
// could act on: the sockets are gone either way.
func (s *Services) release() {
	if s.dhcp != nil {
		_ = s.dhcp.Close()
	}
	if s.tftp != nil {
		_ = s.tftp.Close()
	}
	if s.listener != nil {
		_ = s.listener.Close()
	}
	s.listener, s.http, s.dhcp = nil, netip.AddrPort{}, nil
}

func (s *Services) serveHTTP(ctx context.Context, listener net.Listener) error {
	addr := listener.Addr()
	srv := httpboot.NewServer(s.handler, s.opts.HTTP.Log)
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
		defer cancel()
		if srv.Shutdown(grace) != nil {
			_ = srv.Close() // cuts what is still being sent
		}
	})
	s.opts.Log.Info("HTTP is served", "address", addr)
	err := srv.Serve(httpboot.Limit(listener))
	if stop() {
		_ = srv.Close() // it failed by itself: let go of its connections
		return fmt.Errorf("serve HTTP on %s: %w; restart the boot services", addr, err)
	}
	<-stopped
	return nil
}

// scriptSeen tells DHCP of every machine that asked for its script, which is in
// no boot loop then, before it passes the event on.
func (s *Services) scriptSeen(next func(httpboot.Request, httpboot.Answer)) func(httpboot.Request, httpboot.Answer) {
	return func(r httpboot.Request, a httpboot.Answer) {
		s.mu.Lock()
		leases := s.dhcp
		s.mu.Unlock()
		if leases != nil {
			for _, mac := range r.Facts.MACs {
				leases.ScriptRequested(mac)
			}
		}
		if next != nil {
			next(r, a)
		}
	}
}

// autoexec is the script for a TFTP client that reached this host at local.
func (s *Services) autoexec(local netip.Addr) string {
	s.mu.Lock()
	addr := s.http
	s.mu.Unlock()
	return httpboot.Autoexec(scriptURL(s.opts, addr, local))
}

func listenHTTP(ctx context.Context, listen string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err == nil {
		return l, nil
	}
	// net.OpError repeats the address, in a form that a person did not write.
	reason := err
	if op := new(net.OpError); errors.As(err, &op) {
		reason = op.Err
	}
	_, port, _ := net.SplitHostPort(listen) // only for the hint
	hint := "check http.listen"
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		hint = fmt.Sprintf("port %s is in use by another program: find it with `ss -tlpn 'sport = :%s'` and stop it, or choose another http.listen", port, port)
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		hint = "ports below 1024 need root: run as root or with CAP_NET_BIND_SERVICE, or choose another http.listen"
	case errors.Is(err, unix.EADDRNOTAVAIL):
		hint = "no interface of this host has that address: list them with `ip -br addr`"
	}
	return nil, fmt.Errorf("listen for HTTP on %s: %w; %s", listen, reason, hint)
}
