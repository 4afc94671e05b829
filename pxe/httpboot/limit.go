package httpboot

import (
	"net"
	"net/netip"
	"sync"
)

// Bounds on open connections. A machine has one or two; a connection costs some
// 20 kB and a file descriptor, and in a transfer a second one.
const (
	maxConns          = 4096
	maxConnsPerSource = 256
)

// Limit bounds the connections of a listener, all together and from one address.
// A connection too many is closed at once, where queueing it would let whoever
// holds the others keep honest machines waiting.
func Limit(l net.Listener) net.Listener {
	return &limited{Listener: l, most: maxConns, perSource: maxConnsPerSource, sources: map[netip.Addr]int{}}
}

type limited struct {
	net.Listener
	most, perSource int

	mu      sync.Mutex
	total   int
	sources map[netip.Addr]int
}

// Accept returns the next connection that is within the bounds.
func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		tcp, ok := c.(*net.TCPConn)
		if !ok {
			return c, nil // not from the network: a test's
		}
		source := remote(c)
		if l.enter(source) {
			return &counted{TCPConn: tcp, done: sync.OnceFunc(func() { l.leave(source) })}, nil
		}
		_ = tcp.SetLinger(0) // no TIME_WAIT for a connection that was never served
		_ = c.Close()
	}
}

func remote(c net.Conn) netip.Addr {
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

func (l *limited) enter(source netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.total >= l.most || l.sources[source] >= l.perSource {
		return false
	}
	l.total++
	l.sources[source]++
	return true
}

func (l *limited) leave(source netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total--
	if l.sources[source]--; l.sources[source] <= 0 {
		delete(l.sources, source)
	}
}

// counted gives its place back when it is closed. Embedding the TCP connection
// keeps its ReadFrom, and with that sendfile.
type counted struct {
	*net.TCPConn
	done func()
}

// Close closes the connection.
func (c *counted) Close() error {
	c.done()
	return c.TCPConn.Close()
}
