package talos

import (
	"context"
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

// Probe looks once at host, an IP address or a name, over fresh connections
// that are closed before it returns: a connection kept open across a kexec
// hangs for minutes (talos#14242). It never takes longer than Timeout.
func (p Prober) Probe(ctx context.Context, host string) Observation {
	timeout := p.Timeout
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	port := p.Port
	if port == 0 {
		port = constants.ApidPort
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	seen, err := handshake(ctx, net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return Observation{Err: err}
	}
	o := Observation{CertCN: seen.commonName, Fingerprint: seen.fingerprint}
	switch {
	case seen.wantsClientCertificate:
		o.State = Configured
	case seen.commonName == constants.MaintenanceServiceCommonName:
		o.State = Maintenance
		o.Err = read(ctx, seen.remote, &o)
	default:
		o.Err = notTalosError(seen)
	}
	return o
}
