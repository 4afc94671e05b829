package storetest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Certificates are PEM files for an etcd that wants client certificates.
type Certificates struct {
	// CAFile is of the authority that signed both others.
	CAFile string
	// CertFile and KeyFile are good for etcd and for its clients.
	CertFile, KeyFile string
}

// makeCertificates writes an authority, and a certificate for an address, into a folder.
func makeCertificates(dir, address string) (*Certificates, error) {
	c := &Certificates{CAFile: filepath.Join(dir, "ca.pem"), CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "test"}, NotBefore: authority.NotBefore, NotAfter: authority.NotAfter,
		IPAddresses: []net.IP{net.ParseIP(address)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	authorityDER, errAuthority := x509.CreateCertificate(rand.Reader, authority, authority, &signer.PublicKey, signer)
	leafDER, errLeaf := x509.CreateCertificate(rand.Reader, leaf, authority, &key.PublicKey, signer)
	keyDER, errKey := x509.MarshalECPrivateKey(key)
	return c, errors.Join(errAuthority, errLeaf, errKey,
		writePEM(c.CAFile, "CERTIFICATE", authorityDER), writePEM(c.CertFile, "CERTIFICATE", leafDER), writePEM(c.KeyFile, "EC PRIVATE KEY", keyDER))
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

// config is TLS as a client of the etcd.
func (c *Certificates) config() (*tls.Config, error) {
	authority, err := os.ReadFile(c.CAFile)
	if err != nil {
		return nil, err
	}
	pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool(), Certificates: []tls.Certificate{pair}}
	config.RootCAs.AppendCertsFromPEM(authority)
	return config, nil
}
