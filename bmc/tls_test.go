package bmc

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/talos-provision/provision/bmc/redfishtest"
)

// pinned gives a service's key in the forms that people have it in.
func pinned(t *testing.T, s *redfishtest.Service) map[string]string {
	t.Helper()
	ctx := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
	conn, err := ctx.DialContext(t.Context(), "tcp", strings.TrimPrefix(s.URL(), "https://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	cert := conn.(*tls.Conn).ConnectionState().PeerCertificates[0]
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	colons := make([]string, 0, len(sum))
	for _, b := range sum {
		colons = append(colons, hex.EncodeToString([]byte{b}))
	}
	base64 := Fingerprint(cert)
	return map[string]string{
		"as Fingerprint gives it":   base64,
		"base64":                    strings.TrimPrefix(base64, "sha256/"),
		"base64 without padding":    strings.TrimRight(base64, "="),
		"as curl wants it":          "sha256//" + strings.TrimPrefix(base64, "sha256/"),
		"hex":                       hex.EncodeToString(sum[:]),
		"hex with colons, in caps":  strings.ToUpper(strings.Join(colons, ":")),
		"hex with openssl's prefix": "SHA256=" + strings.Join(colons, ":"),
	}
}

// A pinned key needs no authority and no name that fits.
func TestPinnedKeyIsTrusted(t *testing.T) {
	t.Parallel()
	s := service(t, hardware(redfishtest.Generic()))
	for name, fingerprint := range pinned(t, s) {
		c, err := Dial(t.Context(), Config{Address: s.URL(), Username: testUser, Password: testPassword, Fingerprint: fingerprint, Timeouts: quick()})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if _, err := c.PowerState(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Another key is refused before the password is sent, whatever else is allowed.
func TestAnotherKeyThanThePinnedIsRefused(t *testing.T) {
	t.Parallel()
	s := service(t, hardware(redfishtest.Generic()))
	shown := pinned(t, s)["as Fingerprint gives it"]
	other := trust(t).fingerprint
	cfg := configFor(t, s) // with a CA that would do
	cfg.Fingerprint, cfg.Insecure = other, true
	_, err := Dial(t.Context(), cfg)
	if !errors.Is(err, ErrUnreachable) {
		t.Fatalf("error is %v", err)
	}
	for _, want := range []string{shown, other, "bmc.fingerprint"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error does not say %q: %v", want, err)
		}
	}
	if n := s.Logins() + s.RefusedLogins() + len(s.Requests()); n != 0 {
		t.Errorf("%d requests to a BMC with another key", n)
	}
}

// Whoever has no fingerprint yet is shown the one to compare.
func TestUntrustedCertificateShowsItsFingerprint(t *testing.T) {
	t.Parallel()
	s := service(t, hardware(redfishtest.Generic()))
	cfg := configFor(t, s)
	cfg.CAFile = ""
	_, err := Dial(t.Context(), cfg)
	if want := pinned(t, s)["as Fingerprint gives it"]; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error does not say %q: %v", want, err)
	}
}

func TestFingerprintsThatAreNone(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"abc", strings.Repeat("0", 40), strings.Repeat("zz", 32), "sha1/" + strings.Repeat("A", 43), "sha256/"} {
		_, err := Dial(t.Context(), Config{Address: "127.0.0.1", Username: testUser, Password: testPassword, Fingerprint: in})
		if err == nil || !strings.Contains(err.Error(), "bmc.fingerprint") {
			t.Errorf("%q: error is %v", in, err)
		}
	}
}

func TestFingerprintThatBeginsWithASlash(t *testing.T) {
	t.Parallel()
	const digits = "/vcH4DYO8nqORCYCe/K+xoUfIpMq/NX8N4z6Wi2tSnQ="
	for _, prefix := range []string{"", "sha256/", "sha256//", "SHA256:"} {
		if got, err := parseFingerprint(prefix + digits); err != nil || got != "sha256/"+digits {
			t.Errorf("%q is %q, %v", prefix+digits, got, err)
		}
	}
}

// certified makes a certificate for a key; crypto/tls serves TLS 1.0 and RSA key
// exchange with RSA keys.
func certified(t *testing.T, public, private any) tls.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}
}

// Old BMCs are reached with LegacyTLS, and without it the error names it.
func TestOldTLSNeedsLegacyTLS(t *testing.T) {
	t.Parallel()
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	withRSA := []tls.Certificate{certified(t, &rsaKey.PublicKey, rsaKey)}
	for name, server := range map[string]*tls.Config{
		"TLS 1.0": {MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS10, Certificates: []tls.Certificate{certified(t, &ecKey.PublicKey, ecKey)}},
		"TLS 1.0 with RSA key exchange": {MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS10, Certificates: withRSA,
			CipherSuites: []uint16{tls.TLS_RSA_WITH_AES_128_CBC_SHA}},
		"TLS 1.2 with RSA key exchange": {MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS12, Certificates: withRSA,
			CipherSuites: []uint16{tls.TLS_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_RSA_WITH_AES_256_CBC_SHA}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t, one(supermicro1, nil))
			old := httptest.NewUnstartedServer(s.Config.Handler)
			old.TLS, old.Config.ErrorLog = server, slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
			old.StartTLS()
			t.Cleanup(old.Close)
			cfg := s.config(t)
			cfg.Address, cfg.CAFile, cfg.Insecure = old.URL, "", true
			_, err := Dial(t.Context(), cfg)
			if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "set bmc.legacyTLS: true") {
				t.Errorf("without LegacyTLS: error is %v", err)
			}
			cfg.LegacyTLS = true
			if state, err := dial(t, cfg).PowerState(t.Context()); err != nil || state != On {
				t.Errorf("with LegacyTLS: %v, %v", state, err)
			}
		})
	}
}
