package bmc

import (
	"crypto/tls"
	"testing"

	"github.com/talos-provision/provision/bmc/redfishtest"
)

// sharedTrust is one certificate for many services, and its fingerprint.
type sharedTrust struct {
	certificate *tls.Certificate
	fingerprint string
}

func trust(t testing.TB) *sharedTrust {
	t.Helper()
	cert, err := redfishtest.NewCertificate("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	return &sharedTrust{certificate: cert, fingerprint: Fingerprint(cert.Leaf)}
}
