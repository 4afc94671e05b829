package talos

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/siderolabs/talos/pkg/machinery/constants"
)

// defaultTimeout is generous for a LAN: a handshake and five small calls take milliseconds.
const defaultTimeout = 5 * time.Second

// Prober looks at addresses, without a client certificate. The zero value is
// ready to use; a Prober may be used by many goroutines.
type Prober struct {
	// Port of the Talos API; 0 means 50000.
	Port int
	// Timeout bounds a whole probe; 0 means 5 s.
	Timeout time.Duration
}

// Probe looks once at host, an IP address or a name, over one fresh connection
// that is closed before it returns: a connection kept open across a kexec hangs
// for minutes (siderolabs/talos#14242). It never takes longer than Timeout.
func (p Prober) Probe(ctx context.Context, host string) Observation {
	return p.probe(ctx, host, p.timeout())
}

// probe is Probe with patience of its own for the connection.
func (p Prober) probe(ctx context.Context, host string, patience time.Duration) Observation {
	ctx, cancel := context.WithTimeout(ctx, p.timeout())
	defer cancel()
	o, session := p.open(ctx, host, patience)
	if session != nil {
		session.Close()
	}
	return o
}

// open looks at host and, when that is a node in maintenance mode, keeps the
// connection over which it was looked at. The session is nil otherwise.
func (p Prober) open(ctx context.Context, host string, patience time.Duration) (Observation, *session) {
	o := Observation{Host: host}
	conn, seen, err := handshake(ctx, addressOf(host, p.Port), patience)
	if err != nil {
		o.Err = err
		return o, nil
	}
	o.CertCN, o.Fingerprint = seen.commonName, seen.fingerprint
	switch {
	case seen.wantsClientCertificate:
		_ = conn.Close()
		o.State = Configured
		return o, nil
	case !seen.maintenance():
		_ = conn.Close()
		o.Err = notTalosError(seen)
		return o, nil
	}
	o.State = Maintenance
	s, err := newSession(conn, conn.ConnectionState())
	if err != nil {
		o.Err = fmt.Errorf("opening a Talos client for %s: %w", host, err)
		return o, nil
	}
	o.Err = read(ctx, s, &o)
	return o, s
}

func (p Prober) timeout() time.Duration {
	if p.Timeout <= 0 {
		return defaultTimeout
	}
	return p.Timeout
}

// addressOf is where host's Talos API listens; port 0 means Talos' own.
func addressOf(host string, port int) string {
	if port == 0 {
		port = constants.ApidPort
	}
	return net.JoinHostPort(host, strconv.Itoa(port))
}
