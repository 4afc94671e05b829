package web

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// Server serves the API. Use: New, Listen, Run; Close in place of Run when there
// is nothing to run after all.
type Server struct {
	control     Controller
	opts        Options
	http        *http.Server
	loopback    bool // TCP is served on loopback
	credentials atomic.Pointer[credentials]
	streams     chan struct{} // one for every stream that is open
	running     *standing     // ends when streams must end
	sessions    *sessions
	tickets     *tickets
	attempts    *attempts
	names       map[int]string // of the users that may use the socket

	reloading sync.Mutex

	mu        sync.Mutex
	listeners []net.Listener
	address   net.Addr // of TCP
}

// New checks the options and reads their files. It binds nothing. What would be
// open to strangers is refused.
func New(c Controller, o Options) (*Server, error) {
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("set up the admin API: %w", err)
	}
	creds, err := o.readCredentials()
	if err != nil {
		return nil, fmt.Errorf("set up the admin API: %w", err)
	}
	s := &Server{
		control: c, opts: o, streams: make(chan struct{}, o.MaxStreams), running: newStanding(nil),
		sessions: newSessions(o.SessionLife, o.SessionIdle), tickets: newTickets(), attempts: newAttempts(), names: socketUsers(),
	}
	if o.Listen != "" {
		s.loopback, _ = isLoopback(o.Listen) // was checked
	}
	s.credentials.Store(creds)
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	s.http = &http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		Protocols:         protocols,
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, originKey{}, s.originOf(conn))
		},
		// Handshakes that fail and the like: anybody can cause them.
		ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
	return s, nil
}

// Listen binds the socket and the address, or neither.
func (s *Server) Listen(ctx context.Context) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.listeners) > 0 {
		return errors.New("listen for the admin API: already listening; call Listen once")
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("listen for the admin API: %w", errors.Join(err, s.closeListeners()))
		}
	}()
	if s.opts.Socket != "" {
		listener, err := listenSocket(ctx, s.opts.Socket)
		if err != nil {
			return err
		}
		s.listeners = append(s.listeners, listener)
	}
	if s.opts.Listen == "" {
		return nil
	}
	listener, err := s.listenTCP(ctx)
	if err != nil {
		if s.opts.ListenOptional && s.opts.Socket != "" {
			s.opts.Log.Warn("the admin API and the dashboard are served at the socket alone", "socket", s.opts.Socket, "error", err)
			return nil
		}
		return err
	}
	s.address = listener.Addr()
	s.listeners = append(s.listeners, listener)
	return nil
}

func (s *Server) listenTCP(ctx context.Context) (net.Listener, error) {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", s.opts.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w; give a free port and an address of this host", s.opts.Listen, err)
	}
	// A hosts file can send the name localhost anywhere.
	if tcp, ok := listener.Addr().(*net.TCPAddr); s.loopback && (!ok || !tcp.IP.IsLoopback()) {
		return nil, errors.Join(fmt.Errorf("%s is %s on this host, which is not on loopback: listen on 127.0.0.1", s.opts.Listen, listener.Addr()), listener.Close())
	}
	if s.opts.CertFile == "" {
		return listener, nil
	}
	return tls.NewListener(listener, &tls.Config{
		MinVersion: tls.VersionTLS12,
		// A reload changes the certificates of new connections.
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.credentials.Load().tls, nil },
	}), nil
}

// Addr is the address of TCP; nil before Listen, and without one.
func (s *Server) Addr() net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.address
}

// Run serves until ctx ends. Then streams end, calls under way are given
// Options.Grace, and what is left is cut off.
func (s *Server) Run(ctx context.Context) error {
	s.mu.Lock()
	listeners := s.listeners
	s.mu.Unlock()
	if len(listeners) == 0 {
		return errors.New("serve the admin API: nothing is listening; call Listen first")
	}
	group, running := errgroup.WithContext(ctx)
	for _, listener := range listeners {
		group.Go(func() error {
			if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serve the admin API on %s: %w", listener.Addr(), err)
			}
			return nil
		})
	}
	group.Go(func() error {
		<-running.Done()
		return s.shutdown(context.WithoutCancel(ctx))
	})
	return group.Wait()
}

// shutdown ends streams at once and gives other calls their time.
func (s *Server) shutdown(ctx context.Context) error {
	s.running.end()
	s.sessions.endAll()
	ctx, cancel := context.WithTimeout(ctx, s.opts.Grace)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		s.opts.Log.Warn("calls to the admin API were cut off at the end", "after", s.opts.Grace)
		return s.http.Close()
	}
	return err
}

// Close lets go of what Listen has bound. It need not be called after Run.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closeListeners()
}

func (s *Server) closeListeners() error {
	var errs []error
	for _, listener := range s.listeners {
		if err := listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	s.listeners = nil
	return errors.Join(errs...)
}

// Reload reads tokens and certificates anew. With an error the old ones stay.
// Streams and sessions of tokens and certificates that are not taken any more end, the others go on.
func (s *Server) Reload() error {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	creds, err := s.opts.readCredentials()
	if err != nil {
		return fmt.Errorf("read the credentials of the admin API anew, the old ones stay in force: %w", err)
	}
	old := s.credentials.Load()
	creds.succeed(old)
	s.credentials.Store(creds)
	return nil
}
