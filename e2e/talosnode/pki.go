package talosnode

import (
	"crypto/tls"
	stdx509 "crypto/x509"
	"net"

	"github.com/siderolabs/crypto/x509"
	"github.com/siderolabs/talos/pkg/machinery/constants"
)

// pki is what a node presents and, when configured, what it accepts.
type pki struct {
	server *tls.Config
	client *tls.Config
}

// newPKI makes a fresh authority and server certificate. Talos speaks TLS 1.3
// only, with ALPN h2; in maintenance mode it asks for no client certificate and
// its certificate carries a name of its own, the same in 1.9 to 1.14.
func newPKI(mode mode, address string) (pki, error) {
	ca, err := x509.NewSelfSignedCertificateAuthority(x509.Organization("talos"))
	if err != nil {
		return pki{}, err
	}
	name := constants.MaintenanceServiceCommonName
	if mode == configured {
		name = "talos-node"
	}
	keyPair, err := x509.NewKeyPair(ca,
		x509.CommonName(name),
		x509.IPAddresses(addressesOf(address)),
		x509.ExtKeyUsage([]stdx509.ExtKeyUsage{stdx509.ExtKeyUsageServerAuth}),
	)
	if err != nil {
		return pki{}, err
	}
	keys := pki{server: &tls.Config{
		MinVersion:   tls.VersionTLS13,
		NextProtos:   []string{"h2"},
		Certificates: []tls.Certificate{*keyPair.Certificate},
	}}
	if mode == configured {
		err = keys.demandClientCertificates(ca)
	}
	return keys, err
}

// demandClientCertificates makes the node answer its administrator only.
func (k *pki) demandClientCertificates(ca *x509.CertificateAuthority) error {
	pool := stdx509.NewCertPool()
	pool.AddCert(ca.Crt)
	k.server.ClientAuth = tls.RequireAndVerifyClientCert
	k.server.ClientCAs = pool
	admin, err := x509.NewKeyPair(ca,
		x509.Organization("os:admin"),
		x509.ExtKeyUsage([]stdx509.ExtKeyUsage{stdx509.ExtKeyUsageClientAuth}),
	)
	if err != nil {
		return err
	}
	k.client = &tls.Config{
		MinVersion:   tls.VersionTLS13,
		RootCAs:      pool,
		Certificates: []tls.Certificate{*admin.Certificate},
	}
	return nil
}

// addressesOf is the IP in a listen address, for the certificate; a wildcard has none.
func addressesOf(address string) []net.IP {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil
	}
	ip := net.ParseIP(host)
	if ip == nil || ip.IsUnspecified() {
		return nil
	}
	return []net.IP{ip}
}
