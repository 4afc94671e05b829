package talos

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/siderolabs/talos/pkg/machinery/constants"
)

// dial opens a session with a configured node, each side verified by the
// cluster's authority. The error tells apart, by errors.Is, a node in
// maintenance mode, one of another cluster, and an expired certificate: a gRPC
// client shows all three as "unavailable" (siderolabs/talos#9241, #10185).
func (a *Access) dial(ctx context.Context, host string, port int) (*session, error) {
	if a == nil || a.secret == nil {
		return nil, fmt.Errorf("connecting to %s: no talosconfig was loaded for its cluster", host)
	}
	if err := a.valid(time.Now()); err != nil {
		return nil, fmt.Errorf("connecting to %s with %s: %w", host, a, err)
	}
	address := addressOf(host, port)
	conn, err := connect(ctx, address, 0)
	if err != nil {
		return nil, err
	}
	certificate, authority := a.secret()
	client := tls.Client(conn, &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: []string{"h2"},
		RootCAs:    authority,
		ServerName: host,
		// Not Certificates: of those, none would be sent when the server hints at another authority.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return certificate, nil },
	})
	if err := client.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, a.refusal(host, address, err)
	}
	welcomed, err := awaitWelcome(ctx, client)
	if err != nil {
		_ = conn.Close()
		return nil, a.refusal(host, address, err)
	}
	return newSession(welcomed, client.ConnectionState())
}

// awaitWelcome waits for the server's first bytes (an HTTP/2 server begins with
// its settings). In TLS 1.3 the client is done before the server has looked at
// the client's certificate: a refusal comes where the first answer would.
func awaitWelcome(ctx context.Context, conn *tls.Conn) (net.Conn, error) {
	past := time.Unix(1, 0)
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(past) })
	first := make([]byte, 512)
	n, err := conn.Read(first)
	if !stop() {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	return &welcomed{Conn: conn, first: first[:n]}, nil
}

// welcomed is a connection of which the first bytes have been read already.
type welcomed struct {
	net.Conn
	first []byte
}

// Read gives those bytes first.
func (w *welcomed) Read(p []byte) (int, error) {
	if len(w.first) == 0 {
		return w.Conn.Read(p)
	}
	n := copy(p, w.first)
	w.first = w.first[n:]
	return n, nil
}

// alerts are the TLS alerts (RFC 8446, section 6.2) with which a server refuses
// a client certificate, as crypto/tls words them.
var alerts = map[string]error{
	"tls: unknown certificate authority": ErrWrongPKI,
	"tls: bad certificate":               ErrWrongPKI,
	"tls: certificate required":          ErrWrongPKI,
	"tls: unsupported certificate":       ErrWrongPKI,
	"tls: access denied":                 ErrWrongPKI,
	"tls: expired certificate":           ErrAccessExpired,
}

// refusal says why no session came to be.
func (a *Access) refusal(host, address string, err error) error {
	var unverified *tls.CertificateVerificationError
	var remote *net.OpError
	switch {
	case errors.As(err, &unverified):
		return a.unverified(host, unverified)
	case errors.As(err, &remote) && remote.Op == "remote error" && alerts[remote.Err.Error()] != nil:
		return fmt.Errorf("%s does not take the client certificate of %s (%s); use the talosconfig of the node's cluster: %w",
			host, a, remote.Err.Error(), alerts[remote.Err.Error()])
	default:
		return handshakeError(address, err)
	}
}

// unverified says why the node's certificate was not taken.
func (a *Access) unverified(host string, err *tls.CertificateVerificationError) error {
	var leaf *x509.Certificate
	if len(err.UnverifiedCertificates) > 0 {
		leaf = err.UnverifiedCertificates[0]
	}
	var (
		unknown x509.UnknownAuthorityError
		name    x509.HostnameError
		invalid x509.CertificateInvalidError
	)
	switch {
	case leaf != nil && leaf.Subject.CommonName == constants.MaintenanceServiceCommonName:
		return fmt.Errorf("%s belongs to no cluster yet, it waits for a machine config: %w", host, ErrInMaintenance)
	case errors.As(err, &unknown):
		return fmt.Errorf("%s is not of the cluster of %s; use the talosconfig that belongs to its machine config: %w", host, a, ErrWrongPKI)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired && leaf != nil:
		return fmt.Errorf("the certificate of %s is valid from %s to %s, and here it is %s; set the clocks right: %w",
			host, leaf.NotBefore.UTC().Format(time.RFC3339), leaf.NotAfter.UTC().Format(time.RFC3339), time.Now().UTC().Format(time.RFC3339), err)
	case errors.As(err, &name) && leaf != nil:
		return fmt.Errorf("the certificate of %s names %v instead; address the node by one of these, or add the name to certSANs: %w", host, namesOf(leaf), err)
	default:
		return fmt.Errorf("verifying the certificate of %s against %s: %w", host, a, err)
	}
}

func namesOf(leaf *x509.Certificate) []string {
	names := slices.Clone(leaf.DNSNames)
	for _, ip := range leaf.IPAddresses {
		names = append(names, ip.String())
	}
	return names
}
