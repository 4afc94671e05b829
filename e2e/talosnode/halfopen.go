package talosnode

import (
	"net"
	"sync"
	"time"
)

// wires are the connections that a system has accepted. A kexec leaves them
// behind: the new kernel knows nothing of them, so that the other side, which
// waits for an answer, hears neither one nor a reset (siderolabs/talos#14242).
type wires struct {
	net.Listener

	mu      sync.Mutex
	open    map[*wire]bool
	orphans []*wire // after the kexec: open, and nobody is there
}

func newWires(listener net.Listener) *wires {
	return &wires{Listener: listener, open: map[*wire]bool{}}
}

// Accept implements net.Listener.
func (w *wires) Accept() (net.Conn, error) {
	conn, err := w.Listener.Accept()
	if err != nil {
		return nil, err
	}
	one := &wire{Conn: conn, of: w}
	w.mu.Lock()
	w.open[one] = true
	w.mu.Unlock()
	return one, nil
}

// orphan makes all that is open half open: their server believes that it closes them.
func (w *wires) orphan() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for one := range w.open {
		one.mute()
		w.orphans = append(w.orphans, one)
	}
	clear(w.open)
}

// cut closes what is half open.
func (w *wires) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range w.orphans {
		_ = one.Conn.Close()
	}
	w.orphans = nil
}

// wire is one connection.
type wire struct {
	net.Conn
	of *wires

	mu    sync.Mutex
	muted bool
}

func (c *wire) mute() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.muted = true
	_ = c.SetReadDeadline(time.Unix(1, 0)) // lets the server go
}

// Write implements net.Conn; what a muted one writes goes nowhere.
func (c *wire) Write(data []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.muted {
		return len(data), nil
	}
	return c.Conn.Write(data)
}

// Close implements net.Conn; a muted one stays open.
func (c *wire) Close() error {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if _, open := c.of.open[c]; !open {
		return nil // muted, or closed before
	}
	delete(c.of.open, c)
	return c.Conn.Close()
}
