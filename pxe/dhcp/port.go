package dhcp

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/net/ipv4"
)

// port is one UDP socket, which is opened again when its interface was gone.
type port struct {
	address string
	device  string // empty for all interfaces
	boot    bool   // it is the ProxyDHCP port

	mu    sync.Mutex
	conn  *ipv4.PacketConn // nil after close
	bound netip.AddrPort   // of the first opening
}

func (p *port) open(ctx context.Context) error {
	conn, bound, err := openSocket(ctx, p.address, p.device)
	if err != nil {
		return err
	}
	p.conn, p.bound = conn, bound
	return nil
}

func (p *port) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conn == nil {
		return nil
	}
	conn := p.conn
	p.conn = nil
	return conn.Close()
}

// socket is the current socket, nil after close.
func (p *port) socket() *ipv4.PacketConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.conn
}

// interrupt wakes the reader.
func (p *port) interrupt() {
	if conn := p.socket(); conn != nil {
		_ = conn.SetReadDeadline(time.Unix(1, 0))
	}
}

// Back-off of opening the socket again.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// reopen replaces the socket; false when ctx ended meanwhile.
func (p *port) reopen(ctx context.Context, log *slog.Logger) bool {
	_ = p.socket().Close()
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(wait):
		}
		conn, _, err := openSocket(ctx, p.bound.String(), p.device)
		if err != nil {
			log.Warn("the DHCP socket is not back yet", "error", err, "again", min(2*wait, lastRetry))
			continue
		}
		p.mu.Lock()
		p.conn = conn
		p.mu.Unlock()
		log.Info("the DHCP socket is back", "address", p.bound, "interface", p.device)
		return ctx.Err() == nil
	}
}

// watch interrupts the reader when the interface was replaced by a new one of
// the same name: a socket stays bound to the old one and hears nothing, without
// any error.
func (p *port) watch(ctx context.Context) {
	if p.device == "" {
		return
	}
	index := interfaceIndex(p.device)
	everySecond(ctx, func() {
		if now := interfaceIndex(p.device); now != 0 && now != index {
			index = now
			p.interrupt()
		}
	})
}
