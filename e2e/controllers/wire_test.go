package controllers_test

import (
	"net"
	"sync"
	"testing"
	"time"
)

// wire is what one controller reaches etcd by. It can be cut: connections stay open,
// and nothing comes through, as when packets are lost.
type wire struct {
	listener net.Listener
	to       string

	mu    sync.Mutex
	whole chan struct{} // closed while the wire is whole
	conns []net.Conn
	ended bool
	work  sync.WaitGroup
}

// newWire makes a wire to a host:port, and returns it with its own.
func newWire(t *testing.T, to string) (w *wire, at string) {
	t.Helper()
	var lc net.ListenConfig
	listener, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w = &wire{listener: listener, to: to, whole: make(chan struct{})}
	close(w.whole)
	w.work.Go(w.accept)
	t.Cleanup(w.close)
	return w, listener.Addr().String()
}

func (w *wire) accept() {
	for {
		near, err := w.listener.Accept()
		if err != nil {
			return // closed
		}
		w.work.Go(func() { w.carry(near) })
	}
}

// carry passes on what either side says, as long as the wire is whole.
func (w *wire) carry(near net.Conn) {
	if !w.keep(near) {
		return
	}
	w.await()
	far, err := net.DialTimeout("tcp", w.to, 10*time.Second) //nolint:noctx // bounded, and closed with the wire
	if err != nil || !w.keep(far) {
		_ = near.Close()
		return
	}
	w.work.Go(func() { w.pass(near, far) })
	w.pass(far, near)
}

func (w *wire) pass(to, from net.Conn) {
	defer func() { _, _ = to.Close(), from.Close() }()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		w.await()
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// keep remembers a connection, which ends with the wire; false when that has ended.
func (w *wire) keep(c net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		_ = c.Close()
		return false
	}
	w.conns = append(w.conns, c)
	return true
}

func (w *wire) await() {
	w.mu.Lock()
	whole := w.whole
	w.mu.Unlock()
	<-whole
}

// cut has nothing come through from now on.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.whole = make(chan struct{})
}

// heal has all come through, also what was said meanwhile.
func (w *wire) heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.whole:
	default:
		close(w.whole)
	}
}

func (w *wire) close() {
	_ = w.listener.Close()
	w.mu.Lock()
	w.ended = true
	for _, c := range w.conns {
		_ = c.Close()
	}
	w.mu.Unlock()
	w.heal()
	w.work.Wait()
}
