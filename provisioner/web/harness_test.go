package web_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/talos-provision/provision/provisioner/web"
)

const (
	adminToken = "an-admin-token-of-a-test"
	readToken  = "a-reading-token-of-a-test"
)

// patience is how long a test waits for what must happen.
const patience = time.Minute

// running is a server of a test.
type running struct {
	t      *testing.T
	server *web.Server
	opts   web.Options
	end    func() error // ends it and returns what Run did
}

// serve starts a server until the test ends.
func serve(t *testing.T, c web.Controller, o web.Options) *running {
	t.Helper()
	server, err := web.New(c, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	r := &running{t: t, server: server, opts: o}
	r.end = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(patience):
			t.Error("the server did not end")
			return nil
		}
	})
	t.Cleanup(func() {
		if err := r.end(); err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	return r
}

func (r *running) url(scheme string) string { return scheme + "://" + r.server.Addr().String() }

// client is a client that tries again at once, and is patient with silence.
func client(t *testing.T, e web.Endpoint) *web.Client {
	t.Helper()
	c, err := web.NewClient(e)
	if err != nil {
		t.Fatal(err)
	}
	c.MakeHasty(patience)
	t.Cleanup(c.Close)
	return c
}

// socket is a path that is short enough, in a folder that goes away.
func socket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "web")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// until waits for a condition that nothing announces.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for: %s", patience, what)
		}
	}
}

// authority makes certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{t: t}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	var der []byte
	der, a.key = a.sign(template, template)
	a.cert, _ = x509.ParseCertificate(der)
	a.file = file(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	return a
}

// sign makes a key and its certificate, signed by the authority or, when it has no key yet, by itself.
func (a *authority) sign(template, parent *x509.Certificate) ([]byte, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	signer := a.key
	if signer == nil {
		signer = key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	return der, key
}

// issue writes a certificate for 127.0.0.1, or a client's, and its key.
func (a *authority) issue(name string, usage x509.ExtKeyUsage) (certFile, keyFile string) {
	a.t.Helper()
	der, key := a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{usage}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, a.cert)
	raw, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	return file(a.t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))),
		file(a.t, string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw})))
}
