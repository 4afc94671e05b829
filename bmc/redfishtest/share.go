package redfishtest

import (
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
)

// chance decides which of the matching requests a fault with a share acts on.
type chance struct {
	random *rand.Rand // nil: all of them
	odds   float64
	before bool // it acted on the one before
}

// newChance draws so that, with the requests that are spared because the one
// before was not, the share of all of them is as asked for.
func newChance(share float64, seed uint64) chance {
	if share <= 0 {
		return chance{}
	}
	share = min(share, 0.5)
	return chance{random: rand.New(rand.NewPCG(seed, 0)), odds: share / (1 - share)} //nolint:gosec // repeatable on purpose
}

func (c *chance) comes() bool {
	if c.random == nil {
		return true
	}
	c.before = !c.before && c.random.Float64() < c.odds
	return c.before
}

// cut sends the head of an answer and half of its body, or half of the head
// where there is no body, and resets the connection below TLS.
func cut(w http.ResponseWriter, a Answer) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		w.WriteHeader(http.StatusBadGateway) // as hangUp
		return
	}
	head := fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Type: application/json;charset=utf-8\r\n", a.Status, http.StatusText(a.Status))
	if a.Body != "" {
		head += fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(a.Body), a.Body[:len(a.Body)/2])
	}
	_, _ = buffered.WriteString(head)
	_ = buffered.Flush()
	below := conn
	if secure, ok := conn.(*tls.Conn); ok {
		below = secure.NetConn()
	}
	if tcp, ok := below.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = below.Close()
}
