package web_test

import (
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// cutter is a proxy that cuts connections in the middle of an answer.
type cutter struct {
	address string
	left    atomic.Int64 // how many connections are still to be cut
	cuts    atomic.Int64
}

// newCutter cuts so many connections, each after some hundred or thousand bytes, without a word.
func newCutter(t *testing.T, to string, number int64) *cutter {
	t.Helper()
	var lc net.ListenConfig
	listener, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{address: listener.Addr().String()}
	c.left.Store(number)
	random := rand.New(rand.NewPCG(1, 2))
	var group sync.WaitGroup
	group.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			most := int64(1) << 40
			if c.left.Add(-1) >= 0 {
				most = 300 + random.Int64N(8000)
			}
			group.Go(func() { c.carry(conn, to, most) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		group.Wait()
	})
	return c
}

// carry carries so many bytes of the answer.
func (c *cutter) carry(conn net.Conn, to string, most int64) {
	defer func() { _ = conn.Close() }()
	var d net.Dialer
	server, err := d.Dial("tcp", to)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	go func() {
		_, _ = io.Copy(server, conn)
		_ = server.Close()
	}()
	if _, err := io.CopyN(conn, server, most); err == nil {
		c.cuts.Add(1)
	}
}
