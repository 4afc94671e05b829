// Package bmc drives the baseboard management controllers of real servers over
// Redfish (DMTF DSP0266): it logs in, reads the identity of a machine, sets a
// one-time boot from the network or from virtual media and reads it back, and
// switches power. What vendors do differently is data in the vendor files; what
// they get wrong is expected everywhere. Comments name the public reports that
// taught it, as project#number.
//
// One Client is one BMC. It sends one request at a time, opens one session and
// deletes it with Close. An error names the BMC, what was being done, what may be
// in force all the same, and what a person can do.
package bmc

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stmcginnis/gofish"
)

// Client is one logged-in BMC. Its methods may be called at once by several
// goroutines; the BMC sees one request at a time all the same (I10).
type Client struct {
	cfg      Config
	mode     string // Redfish name of the boot mode
	boot     BootKind
	endpoint string
	log      *slog.Logger
	http     *http.Client
	api      *gofish.APIClient
	gate     chan struct{} // holds one token while a request is in flight
	// connected tells that the BMC answered once: from then on a refused
	// connection is a BMC that restarts, before it a wrong address.
	connected atomic.Bool
	secrets   *secrets

	// Under the gate.
	token    string // of the session
	sessions string // collection that a log-in is posted to
	session  string // our own session, deleted by Close
	basic    bool   // Basic authentication in place of a session
	full     bool   // because all sessions are taken
	proven   bool   // the session served a request, so a 401 means that it ended
	denied   error  // the account was refused: send nothing more
	closed   bool

	root rootDocument // not written after Dial

	mu     sync.Mutex
	chosen *machine
	medium string // the device that Arm or InsertMedia put an image into
}

// machine is the chosen system and what its vendor is known for.
type machine struct {
	path   string
	vendor vendor
	// Under Client.mu:
	bootAt string  // the resource that kept the last boot override
	resets *resets // those of an ActionInfo, or the lack of any
}

// Dial connects to a BMC and logs in, once: a wrong password is one attempt and
// ErrUnauthorized. Where the BMC has no session to give, Basic authentication is
// used. The caller must Close the client.
func Dial(ctx context.Context, cfg Config) (*Client, error) {
	c, err := newClient(ctx, cfg)
	if err != nil {
		return nil, err
	}
	ctx, cancel := c.operation(ctx)
	defer cancel()
	err = c.connect(ctx)
	if err == nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		return c, nil
	}
	err = c.explain("log in", err)
	if left := c.Close(ctx); left != nil {
		err = fmt.Errorf("%w; and %w", err, left)
	}
	return nil, err
}

func newClient(ctx context.Context, cfg Config) (*Client, error) {
	cfg.Timeouts = cfg.Timeouts.withDefaults()
	endpoint, err := parseAddress(cfg.Address)
	if err != nil {
		return nil, err
	}
	mode, err := parseBootMode(cfg.BootMode)
	if err != nil {
		return nil, fmt.Errorf("configure BMC %s: %w", endpoint, err)
	}
	boot, err := ParseBootKind(string(cfg.Boot))
	if err != nil {
		return nil, fmt.Errorf("configure BMC %s: %w", endpoint, err)
	}
	if cfg.Username == "" || cfg.Password == "" {
		return nil, fmt.Errorf("configure BMC %s: %w: user name or password is empty; set bmc.username and bmc.passwordEnv or bmc.passwordFile", endpoint, ErrUnauthorized)
	}
	known := newSecrets(cfg.Username, cfg.Password)
	httpClient, err := newHTTPClient(endpoint, cfg, known)
	if err != nil {
		return nil, fmt.Errorf("configure BMC %s: %w", endpoint, err)
	}
	log := cfg.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	log = log.With("bmc", endpoint.Host)
	if endpoint.Scheme == "http" {
		log.WarnContext(ctx, "the BMC's password crosses the network in clear; write its address as https://")
	}
	api, err := gofish.ConnectContext(context.WithValue(ctx, offlineKey{}, true), gofish.ClientConfig{
		Endpoint:          endpoint.String(),
		HTTPClient:        httpClient,
		NoModifyTransport: true,
		ReuseConnections:  true, // a TLS handshake takes a BMC a second (gofish#351)
	})
	if err != nil {
		return nil, fmt.Errorf("configure BMC %s: %w", endpoint, err)
	}
	return &Client{
		cfg: cfg, mode: mode, boot: boot, endpoint: endpoint.String(), log: log, secrets: known,
		http: httpClient, api: api, gate: make(chan struct{}, 1),
	}, nil
}

// Close logs out. It does so even when ctx has ended, within Timeouts.Logout,
// after waiting for a request in flight. A second Close does nothing.
func (c *Client) Close(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	waiting, stop := within(ctx, 2*c.cfg.Timeouts.Logout) // a write may go on for one
	defer stop()
	if err := c.acquire(waiting); err != nil {
		return c.explain("log out", fmt.Errorf("a request is still in flight and the session stays open: %w", err))
	}
	defer c.release()
	if c.closed {
		return nil
	}
	c.closed = true
	defer c.http.CloseIdleConnections()
	ctx, cancel := within(ctx, c.cfg.Timeouts.Logout)
	defer cancel()
	return c.explain("log out", c.logout(ctx))
}

// operation bounds one method.
func (c *Client) operation(ctx context.Context) (context.Context, context.CancelFunc) {
	return within(ctx, c.cfg.Timeouts.Operation)
}

func within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, fmt.Errorf("%w after %s", errGaveUp, d))
}

func (c *Client) acquire(ctx context.Context) error {
	select {
	case c.gate <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *Client) release() { <-c.gate }
