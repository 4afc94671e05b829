package web_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"testing"
	"time"

	"github.com/talos-provision/provision/provisioner/web"
)

// issueTo writes a client certificate of a unit, and its key.
func (a *authority) issueTo(name, unit string) (certFile, keyFile string) {
	a.t.Helper()
	subject := pkix.Name{CommonName: name}
	if unit != "" {
		subject.OrganizationalUnit = []string{unit}
	}
	der, key := a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: subject, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, a.cert)
	raw, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	return file(a.t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))),
		file(a.t, string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw})))
}

func TestWhatACertificateMayDoIsInTheLists(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "ca")
	cert, key := ca.issue("daemon", x509.ExtKeyUsageServerAuth)
	for _, test := range []struct {
		name            string
		admins, readers []string
		subject, unit   string
		get, post       error
	}{
		{"no lists", nil, nil, "alice", "", nil, nil},
		{"reader", nil, []string{"alice"}, "alice", "", nil, web.ErrForbidden},
		{"not a reader", nil, []string{"alice"}, "bob", "", nil, nil},
		{"admin", []string{"alice"}, nil, "alice", "", nil, nil},
		{"in neither list", []string{"alice"}, []string{"carol"}, "bob", "", web.ErrForbidden, web.ErrForbidden},
		{"in both lists", []string{"alice"}, []string{"alice"}, "alice", "", nil, web.ErrForbidden},
		{"reading unit", nil, []string{"OU=noc"}, "dave", "noc", nil, web.ErrForbidden},
		{"unit of admins", []string{"OU=sre"}, nil, "dave", "sre", nil, nil},
		{"reader in a unit of admins", []string{"OU=sre"}, []string{"dave"}, "dave", "sre", nil, web.ErrForbidden},
		{"a unit is no name", nil, []string{"noc"}, "dave", "noc", nil, nil},
		{"a name is no unit", []string{"OU=sre"}, nil, "sre", "", web.ErrForbidden, web.ErrForbidden},
		{"a part of a name", []string{"alice"}, nil, "alice2", "", web.ErrForbidden, web.ErrForbidden},
		{"a name in capitals", []string{"alice"}, nil, "Alice", "", web.ErrForbidden, web.ErrForbidden},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			clientCert, clientKey := ca.issueTo(test.subject, test.unit)
			r := serve(t, newFake(), web.Options{
				Listen: "127.0.0.1:0", CertFile: cert, KeyFile: key, ClientCAFile: ca.file, Admins: test.admins, Readers: test.readers,
			})
			c := client(t, web.Endpoint{URL: r.url("https"), CAFile: ca.file, CertFile: clientCert, KeyFile: clientKey})
			if _, err := c.Runs(t.Context()); !errors.Is(err, test.get) {
				t.Errorf("to look is answered %v; want %v", err, test.get)
			}
			if err := c.Stop(t.Context(), "prod"); !errors.Is(err, test.post) {
				t.Errorf("to act is answered %v; want %v", err, test.post)
			}
		})
	}
}

func TestATokenCountsBeforeACertificate(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "ca")
	cert, key := ca.issue("daemon", x509.ExtKeyUsageServerAuth)
	clientCert, clientKey := ca.issueTo("alice", "")
	admin := file(t, adminToken)
	r := serve(t, newFake(), web.Options{
		Listen: "127.0.0.1:0", CertFile: cert, KeyFile: key, ClientCAFile: ca.file, TokenFile: admin, Readers: []string{"alice"},
	})
	for token, want := range map[string]error{"": web.ErrForbidden, admin: nil, file(t, readToken): web.ErrUnauthorized} {
		c := client(t, web.Endpoint{URL: r.url("https"), CAFile: ca.file, CertFile: clientCert, KeyFile: clientKey, TokenFile: token})
		if err := c.Stop(t.Context(), "prod"); !errors.Is(err, want) {
			t.Errorf("with the token file %q: %v; want %v", token, err, want)
		}
	}
}

// A connection that is kept does not outlive the authority that it was let in by.
func TestACertificateOfAnAuthorityThatIsGoneCountsNoMore(t *testing.T) {
	t.Parallel()
	ca, next := newAuthority(t, "ca"), newAuthority(t, "next")
	cert, key := ca.issue("daemon", x509.ExtKeyUsageServerAuth)
	clientCert, clientKey := ca.issueTo("alice", "")
	r := serve(t, newFake(), web.Options{Listen: "127.0.0.1:0", CertFile: cert, KeyFile: key, ClientCAFile: file(t, read(t, ca.file))})
	c := client(t, web.Endpoint{URL: r.url("https"), CAFile: ca.file, CertFile: clientCert, KeyFile: clientKey})
	if _, err := c.Runs(t.Context()); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	began := make(chan struct{}, 10)
	go func() {
		ended <- c.StreamEvents(t.Context(), web.StreamOptions{Follow: true}, func(web.Event) error { began <- struct{}{}; return nil })
	}()
	until(t, "the stream to be open", func() bool { return r.server.OpenStreams() == 1 })
	if err := os.WriteFile(r.opts.ClientCAFile, []byte(read(t, next.file)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.server.Reload(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, web.ErrUnauthorized) {
		t.Errorf("the stream ends with %v; want ErrUnauthorized", err)
	}
	if _, err := c.Runs(t.Context()); !errors.Is(err, web.ErrUnauthorized) {
		t.Errorf("the next call is answered %v; want ErrUnauthorized", err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
