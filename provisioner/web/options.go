package web

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// Options say where the API is served and who may use it. Socket, Listen or both are required.
type Options struct {
	// Socket is the path of the unix socket, at most 107 bytes; "" serves none.
	Socket string
	// Listen is the host:port of TCP; "" serves none. Anywhere but on loopback it needs
	// TLS (CertFile, KeyFile) and TokenFile or ClientCAFile.
	Listen string
	// ListenOptional has the socket served alone, with a warning, where Listen cannot be had. It needs Socket.
	ListenOptional bool
	// TokenFile holds the token that may do everything, ReadTokenFile the one that may only look.
	// A token has 16 to 4096 bytes without blanks.
	TokenFile, ReadTokenFile string
	// CertFile and KeyFile are the server's certificate; with them TCP speaks TLS only.
	CertFile, KeyFile string
	// ClientCAFile holds the authorities whose client certificates are taken.
	ClientCAFile string
	// Admins and Readers say what client certificates may do: everything, or only look. An entry is a
	// common name, or OU= and an organizational unit; who is in both may look. Without Admins a
	// certificate that is not in Readers may do everything, with them one in neither may do nothing.
	Admins, Readers []string
	// InsecureLoopback lets everybody on this host do everything over TCP without a token.
	InsecureLoopback bool
	// Hosts are further names by which the API is reached on loopback, such as that of a proxy on this host.
	Hosts []string
	// Metrics is served at /metrics to who may read; nil serves none.
	Metrics http.Handler
	// Dashboard takes every path but /api/, /metrics, /healthz, /readyz and /debug/, by GET, HEAD
	// and POST; nil serves none. Who is not known is sent to /login, which it renders, as /static/,
	// for everybody; POST /login and POST /logout are the server's. Caller, MayAct, SignedIn and
	// LoginError tell it of the request's context, which ends when the caller's right does. Its
	// headers are set before it is called: it adds Content-Type, and may say more of caching for
	// /static/. Every write of an answer has StreamTimeout, so that a stream needs no deadlines.
	Dashboard http.Handler
	// Log takes the audit lines and what went wrong; nil discards it.
	Log *slog.Logger

	// RequestTimeout bounds a call; 0 takes 30 seconds.
	RequestTimeout time.Duration
	// PlanTimeout bounds a call that looks at every BMC; 0 takes 15 minutes.
	PlanTimeout time.Duration
	// StreamTimeout is for how long a reader of a stream or of a backup may take nothing; 0 takes 10 seconds.
	StreamTimeout time.Duration
	// Heartbeat is how often a silent stream shows that it is alive; 0 takes 15 seconds.
	Heartbeat time.Duration
	// MaxStreams is how many streams may be open at once; 0 takes 64.
	MaxStreams int
	// SessionLife is how long a login to the dashboard lasts at most; 0 takes 12 hours.
	SessionLife time.Duration
	// SessionIdle is after how long without any request it ends; 0 takes 2 hours. A page that
	// is followed is a request under way.
	SessionIdle time.Duration
	// Grace is how long calls under way may take at the end; 0 takes 10 seconds.
	Grace time.Duration
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	for _, d := range []struct {
		value    *time.Duration
		fallback time.Duration
	}{
		{&o.RequestTimeout, 30 * time.Second},
		{&o.PlanTimeout, 15 * time.Minute},
		{&o.StreamTimeout, 10 * time.Second},
		{&o.Heartbeat, 15 * time.Second},
		{&o.SessionLife, 12 * time.Hour},
		{&o.SessionIdle, 2 * time.Hour},
		{&o.Grace, 10 * time.Second},
	} {
		if *d.value <= 0 {
			*d.value = d.fallback
		}
	}
	if o.MaxStreams <= 0 {
		o.MaxStreams = 64
	}
	return o
}

// check refuses what would leave the API open, or open to nobody.
func (o Options) check() error {
	switch {
	case o.Socket == "" && o.Listen == "":
		return errors.New("there is neither a socket nor an address to serve it at: give one of them")
	case (o.CertFile == "") != (o.KeyFile == ""):
		return errors.New("a certificate and its key go together: give both or neither")
	case o.ClientCAFile != "" && o.CertFile == "":
		return errors.New("client certificates need TLS: give the server's certificate and key too")
	case o.ReadTokenFile != "" && o.ReadTokenFile == o.TokenFile:
		return fmt.Errorf("the token file %s cannot be the one that may only look too: give another file", o.TokenFile)
	case o.Listen == "":
		return nil
	}
	loopback, err := isLoopback(o.Listen)
	if err != nil {
		return err
	}
	switch {
	case loopback:
		return nil
	case o.InsecureLoopback:
		return fmt.Errorf("%s is not on loopback, and without tokens the API is served there only: listen on 127.0.0.1, or use tokens", o.Listen)
	case o.CertFile == "":
		return fmt.Errorf("%s is not on loopback and needs TLS: give a certificate and its key, or listen on 127.0.0.1", o.Listen)
	case o.TokenFile == "" && o.ClientCAFile == "":
		return fmt.Errorf("%s is not on loopback: give a token file, or an authority of client certificates, or listen on 127.0.0.1", o.Listen)
	}
	return nil
}

// isLoopback says whether a host:port is reached from this host only.
func isLoopback(address string) (bool, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false, fmt.Errorf("the address %q: %w; write host:port, such as 127.0.0.1:9090", address, err)
	}
	return isLoopbackHost(host), nil
}

// isLoopbackHost takes addresses and localhost; any other name may be anywhere.
func isLoopbackHost(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
