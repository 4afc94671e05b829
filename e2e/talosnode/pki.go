package talosnode

import (
	"bytes"
	"crypto/tls"
	stdx509 "crypto/x509"
	"fmt"
	"net"
	"slices"

	"github.com/siderolabs/crypto/x509"
	"github.com/siderolabs/talos/pkg/machinery/constants"
	"github.com/siderolabs/talos/pkg/machinery/role"
)

// pki is what a node presents and, when configured, what it accepts.
type pki struct {
	server *tls.Config
}

// bareConfig stands for a machine config that nobody knows.
type bareConfig struct {
	authority *x509.CertificateAuthority
	client    *tls.Config
}

func newBareConfig() (*bareConfig, error) {
	ca, err := x509.NewSelfSignedCertificateAuthority(x509.Organization("talos"))
	if err != nil {
		return nil, err
	}
	admin, err := x509.NewKeyPair(ca,
		x509.Organization(string(role.Admin)),
		x509.ExtKeyUsage([]stdx509.ExtKeyUsage{stdx509.ExtKeyUsageClientAuth}),
	)
	if err != nil {
		return nil, err
	}
	return &bareConfig{authority: ca, client: &tls.Config{
		MinVersion:   tls.VersionTLS13,
		RootCAs:      poolOf(ca.Crt),
		Certificates: []tls.Certificate{*admin.Certificate},
	}}, nil
}

// obtainCertificate makes the server certificate. A control plane signs its
// own; a worker has no key to sign with and waits for a control plane that
// does, after it called waiting.
func (s *system) obtainCertificate(waiting func()) (err error) {
	defer func() {
		if err != nil {
			s.stop()
			err = fmt.Errorf("making certificates for the emulated Talos node at %s: %w", s.node.cfg.Address, err)
		}
	}()
	switch {
	case s.node.bare != nil:
		s.keys, err = mutual(s.node.bare.authority, []*stdx509.Certificate{s.node.bare.authority.Crt}, s.hostname, s.node.cfg.Address)
	case s.mode == maintenance:
		s.keys, err = anonymous(s.node.cfg.Address)
	default:
		var ca *x509.CertificateAuthority
		if ca, err = s.signer(waiting); err != nil {
			return err
		}
		var accepted []*stdx509.Certificate
		if accepted, err = s.acceptedAuthorities(); err != nil {
			return err
		}
		s.keys, err = mutual(ca, accepted, s.hostname, s.node.cfg.Address)
	}
	return err
}

// anonymous is what a node has in maintenance mode: it asks for no client
// certificate, and its own is from an authority of the moment and carries a
// name that is the same in 1.9 to 1.14.
func anonymous(address string) (pki, error) {
	ca, err := x509.NewSelfSignedCertificateAuthority(x509.Organization("talos"))
	if err != nil {
		return pki{}, err
	}
	config, err := serverConfig(ca, constants.MaintenanceServiceCommonName, address)
	return pki{server: config}, err
}

// mutual is what a configured node has: it answers only who has a certificate
// of an authority of its config, made for clients and for nothing else.
func mutual(ca *x509.CertificateAuthority, accepted []*stdx509.Certificate, name, address string) (pki, error) {
	config, err := serverConfig(ca, name, address)
	if err != nil {
		return pki{}, err
	}
	config.ClientAuth = tls.RequireAndVerifyClientCert
	config.ClientCAs = poolOf(accepted...)
	config.VerifyConnection = func(seen tls.ConnectionState) error {
		if !slices.Equal(seen.PeerCertificates[0].ExtKeyUsage, []stdx509.ExtKeyUsage{stdx509.ExtKeyUsageClientAuth}) {
			return fmt.Errorf("certificate %q is missing the client auth extended key usage", seen.PeerCertificates[0].Subject)
		}
		return nil
	}
	return pki{server: config}, nil
}

// serverConfig is TLS as Talos speaks it: 1.3 only, with ALPN h2.
func serverConfig(ca *x509.CertificateAuthority, name, address string) (*tls.Config, error) {
	keyPair, err := x509.NewKeyPair(ca,
		x509.CommonName(name),
		x509.DNSNames([]string{name}),
		x509.IPAddresses(addressesOf(address)),
		x509.ExtKeyUsage([]stdx509.ExtKeyUsage{stdx509.ExtKeyUsageServerAuth}),
	)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		NextProtos:   []string{"h2"},
		Certificates: []tls.Certificate{*keyPair.Certificate},
	}, nil
}

// signer is the authority that signs the node's server certificate.
func (s *system) signer(waiting func()) (*x509.CertificateAuthority, error) {
	if s.self.authority != nil {
		return s.self.authority, nil
	}
	for {
		changed := s.cluster.watch()
		if ca := s.cluster.authority(); ca != nil && bytes.Equal(ca.CrtPEM, s.config.Machine().Security().IssuingCA().Crt) {
			return ca, nil
		}
		waiting()
		select {
		case <-changed:
		case <-s.life.Done():
			return nil, s.life.Err()
		}
	}
}

// acceptedAuthorities are those whose client certificates the node accepts.
func (s *system) acceptedAuthorities() ([]*stdx509.Certificate, error) {
	security := s.config.Machine().Security()
	accepted := append([]*x509.PEMEncodedCertificate{{Crt: security.IssuingCA().Crt}}, security.AcceptedCAs()...)
	all := make([]*stdx509.Certificate, 0, len(accepted))
	for _, one := range accepted {
		certificate, err := one.GetCert()
		if err != nil {
			return nil, fmt.Errorf("reading an accepted authority of the machine config: %w", err)
		}
		all = append(all, certificate)
	}
	return all, nil
}

func poolOf(certificates ...*stdx509.Certificate) *stdx509.CertPool {
	pool := stdx509.NewCertPool()
	for _, c := range certificates {
		pool.AddCert(c)
	}
	return pool
}

// addressesOf are the addresses that the certificate must name: the IP in the
// listen address; for a wildcard, those of every interface.
func addressesOf(address string) []net.IP {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil
	}
	ip := net.ParseIP(host)
	if ip != nil && !ip.IsUnspecified() {
		return []net.IP{ip}
	}
	interfaces, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	var all []net.IP
	for _, address := range interfaces {
		if network, ok := address.(*net.IPNet); ok {
			all = append(all, network.IP)
		}
	}
	return all
}
