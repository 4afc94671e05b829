package redfishtest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// NewCertificate makes a self-signed ECDSA P-256 certificate for the given host
// names and IP addresses, valid from a day ago for ten years.
func NewCertificate(hosts ...string) (*tls.Certificate, error) {
	template, key, err := newTemplate(hosts)
	if err != nil {
		return nil, err
	}
	template.IsCA = true // so that it can be its own root
	return sign(template, template, key, key, nil)
}

// Authority issues certificates for many services, so that their clients need
// to trust one certificate only. It is safe for concurrent use.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewAuthority makes a certificate authority that lives in memory only.
func NewAuthority() (*Authority, error) {
	template, key, err := newTemplate(nil)
	if err != nil {
		return nil, err
	}
	template.IsCA = true
	template.KeyUsage = x509.KeyUsageCertSign
	template.Subject.CommonName = "redfishtest authority"
	made, err := sign(template, template, key, key, nil)
	if err != nil {
		return nil, err
	}
	return &Authority{certificate: made.Leaf, key: key}, nil
}

// Certificate issues a certificate for the given host names and IP addresses,
// to be used as [Config].Certificate.
func (a *Authority) Certificate(hosts ...string) (*tls.Certificate, error) {
	template, key, err := newTemplate(hosts)
	if err != nil {
		return nil, err
	}
	return sign(template, a.certificate, key, a.key, a.certificate.Raw)
}

// PEM returns the authority's certificate, for clients to trust.
func (a *Authority) PEM() []byte { return encodePEM(a.certificate.Raw) }

func newTemplate(hosts []string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make key of BMC certificate: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, fmt.Errorf("make serial number of BMC certificate: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: "BMC", Organization: []string{"redfishtest"}},
		NotBefore:             now.AddDate(0, 0, -1),
		NotAfter:              now.AddDate(10, 0, 0),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else if h != "" {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	return template, key, nil
}

// sign returns the certificate with the issuer's behind it, if there is one.
func sign(template, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey, issuer []byte) (*tls.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		return nil, fmt.Errorf("sign BMC certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("parse BMC certificate: %w", err)
	}
	chain := [][]byte{der}
	if issuer != nil {
		chain = append(chain, issuer)
	}
	return &tls.Certificate{Certificate: chain, PrivateKey: key, Leaf: leaf}, nil
}

func encodePEM(chain ...[]byte) []byte {
	var b bytes.Buffer
	for _, der := range chain {
		// A bytes.Buffer takes everything.
		_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: der})
	}
	return b.Bytes()
}

// certificate returns what to serve on addr.
func (s *Service) certificate(addr string) (*tls.Certificate, error) {
	if s.config.Certificate != nil {
		return s.config.Certificate, nil
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("want an address as 127.0.0.1:0: %w", err)
	}
	return NewCertificate("localhost", "127.0.0.1", "::1", host)
}
