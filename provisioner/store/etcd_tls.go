package store

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// tlsConfig is nil where etcd is spoken to in the clear.
func tlsConfig(at place, o Options) (*tls.Config, error) {
	if !at.tls && o.CAFile == "" && o.CertFile == "" && o.KeyFile == "" {
		return nil, nil //nolint:nilnil // no TLS is what was asked for
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read the authority of etcd's certificate: %w; correct the path", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("the authority of etcd's certificate, %s, holds no certificate: give a PEM file", o.CAFile)
		}
	}
	if o.CertFile != "" || o.KeyFile != "" {
		pair, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read the certificate %s and the key %s for etcd: %w; give both, as PEM files", o.CertFile, o.KeyFile, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
