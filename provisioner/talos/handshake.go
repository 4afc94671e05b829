package talos

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/siderolabs/crypto/x509"
	"github.com/siderolabs/talos/pkg/machinery/constants"
)

// peer is what a TLS handshake shows of a server.
type peer struct {
	// remote is the address that was connected to, its name resolved.
	remote string
	// wantsClientCertificate: the server sent a certificate request.
	wantsClientCertificate bool
	commonName             string
	fingerprint            string
}

// maintenance says whether the server is Talos waiting for its config. Whether
// it asks for a client certificate and what it is called tells that in every
// version; the errors of a gRPC client do not, they race.
func (p peer) maintenance() bool {
	return !p.wantsClientCertificate && p.commonName == constants.MaintenanceServiceCommonName
}

// connect opens a TCP connection, within patience when that is not 0. The kernel notices within seconds when the
// machine behind it has gone; pings of gRPC, which talosctl uses for that, may
// be taken as abuse by a server.
func connect(ctx context.Context, address string, patience time.Duration) (net.Conn, error) {
	dialer := net.Dialer{Timeout: patience, KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3,
	}}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, dialError(address, err)
	}
	return conn, nil
}

// handshake shakes hands with the server as Talos does (TLS 1.3, ALPN h2),
// without a certificate of ours, and waits for the connection no longer than
// patience. The caller closes the connection.
func handshake(ctx context.Context, address string, patience time.Duration) (*tls.Conn, peer, error) {
	conn, err := connect(ctx, address, patience)
	if err != nil {
		return nil, peer{}, err
	}
	seen := peer{remote: conn.RemoteAddr().String()}
	client := tls.Client(conn, &tls.Config{
		// Nothing to verify against: the authority of a node in maintenance mode is its own.
		InsecureSkipVerify: true,
		MinVersion:         tls.VersionTLS13,
		NextProtos:         []string{"h2"},
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			seen.wantsClientCertificate = true
			return &tls.Certificate{}, nil
		},
	})
	if err := client.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, peer{}, handshakeError(address, err)
	}
	leaf := client.ConnectionState().PeerCertificates[0]
	seen.commonName = leaf.Subject.CommonName
	seen.fingerprint = x509.SPKIFingerprint(leaf).String()
	return client, seen, nil
}

// dialError says what a failed connection means for a machine being provisioned.
func dialError(address string, err error) error {
	host, port, splitErr := net.SplitHostPort(address)
	if splitErr != nil {
		host, port = address, ""
	}
	var dns *net.DNSError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%s: port %s refused: the node is still booting or installing, or it was told to halt because Talos is on its disk (talos.halt_if_installed): %w", host, port, err)
	case errors.As(err, &dns):
		return fmt.Errorf("looking up %s: the name does not resolve, use the node's IP address: %w", host, err)
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("probing %s: %w", address, err)
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), isTimeout(err):
		return fmt.Errorf("%s: port %s does not answer: the machine is off or in firmware, has another address, or a firewall drops the packets: %w", host, port, err)
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return fmt.Errorf("%s: no way there: the machine is off or in firmware, or this host has no route to it: %w", host, err)
	default:
		return fmt.Errorf("connecting to %s; look at the network between here and the node: %w", address, err)
	}
}

// handshakeError says what a server that accepts connections but does not
// finish a handshake may be.
func handshakeError(address string, err error) error {
	var notTLS tls.RecordHeaderError
	switch {
	case errors.As(err, &notTLS):
		return fmt.Errorf("%s speaks no TLS: this is not Talos, look what has the node's address: %w", address, err)
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("probing %s: %w", address, err)
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), isTimeout(err):
		return fmt.Errorf("%s accepts connections but says nothing: the node hangs or is going down, or this is not Talos: %w", address, err)
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return fmt.Errorf("%s hung up during the TLS handshake: the node is booting or going down, or a load balancer stands before it: %w", address, err)
	default:
		return fmt.Errorf("TLS handshake with %s failed: this is not Talos, look what has the node's address: %w", address, err)
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// notTalosError is for a server that finished the handshake, but is neither a
// node in maintenance mode nor one that demands a client certificate.
func notTalosError(seen peer) error {
	return fmt.Errorf("%s answers as %q and asks for no client certificate: this is not Talos, look what has the node's address",
		seen.remote, seen.commonName)
}
