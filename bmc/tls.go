package bmc

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
)

// tlsConfig is the trust in one BMC, and in no other.
func tlsConfig(cfg Config) (*tls.Config, error) {
	out := &tls.Config{
		MinVersion: tls.VersionTLS12,
		// BMCs sign their own certificates; whoever says so in the inventory means this one only.
		InsecureSkipVerify: cfg.Insecure,
		// Without post-quantum key shares, whose size upsets old TLS stacks.
		CurvePreferences: []tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384, tls.CurveP521},
	}
	if cfg.LegacyTLS {
		allowLegacy(out)
	}
	if cfg.Fingerprint != "" {
		return out, pin(out, cfg.Fingerprint)
	}
	if cfg.CAFile == "" {
		return out, nil
	}
	pem, err := os.ReadFile(cfg.CAFile)
	if err != nil {
		return nil, fmt.Errorf("read bmc.caFile: %w; correct the path or remove it", err)
	}
	out.RootCAs = x509.NewCertPool()
	if !out.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("bmc.caFile %s holds no PEM certificate; give it the authority's certificate", cfg.CAFile)
	}
	return out, nil
}

// allowLegacy adds what BMCs of the last decade need: TLS 1.0, and suites with
// RSA key exchange (H3C HDM 3.57, idrac_exporter#204). Go has both and offers
// neither of itself.
func allowLegacy(c *tls.Config) {
	c.MinVersion = tls.VersionTLS10
	for _, suite := range append(tls.CipherSuites(), tls.InsecureCipherSuites()...) {
		c.CipherSuites = append(c.CipherSuites, suite.ID)
	}
}

// wrongKey tells that a BMC showed another key than the pinned one.
type wrongKey struct{ want, got string }

func (w *wrongKey) Error() string {
	return fmt.Sprintf("its key has the fingerprint %s, and %s is expected", w.got, w.want)
}

func (w *wrongKey) Unwrap() error { return errFingerprint }

// pin makes the key of the certificate decide alone, as in HTTP public key
// pinning (RFC 7469 2.4): authority, name and dates of a BMC's certificate are
// mostly made up. It is checked on every connection, resumed ones too.
func pin(c *tls.Config, fingerprint string) error {
	want, err := parseFingerprint(fingerprint)
	if err != nil {
		return err
	}
	c.InsecureSkipVerify = true
	c.VerifyConnection = func(state tls.ConnectionState) error {
		if len(state.PeerCertificates) == 0 {
			return &wrongKey{want: want, got: "none"}
		}
		if got := Fingerprint(state.PeerCertificates[0]); got != want {
			return &wrongKey{want: want, got: got}
		}
		return nil
	}
	return nil
}

const fingerprintPrefix = "sha256/"

// Fingerprint is the SHA-256 of a certificate's public key (SubjectPublicKeyInfo)
// in the form that Config.Fingerprint takes: "sha256/" and base64. It stays the
// same when a BMC renews its certificate with the key it has.
func Fingerprint(certificate *x509.Certificate) string {
	sum := sha256.Sum256(certificate.RawSubjectPublicKeyInfo)
	return fingerprintPrefix + base64.StdEncoding.EncodeToString(sum[:])
}

// parseFingerprint takes base64 with or without padding, as openssl, curl and
// browsers show it, or hex with or without colons.
func parseFingerprint(s string) (string, error) {
	s = strings.TrimSpace(s)
	// Each prefix is tried, since base64 may begin with a slash too.
	for _, prefix := range []string{"", "sha256/", "sha256//", "sha256:", "sha256="} {
		if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
			continue
		}
		digits := s[len(prefix):]
		sum, err := hex.DecodeString(strings.ReplaceAll(digits, ":", ""))
		if err != nil || len(sum) != sha256.Size {
			sum, err = base64.RawStdEncoding.DecodeString(strings.TrimRight(digits, "="))
		}
		if err == nil && len(sum) == sha256.Size {
			return fingerprintPrefix + base64.StdEncoding.EncodeToString(sum), nil
		}
	}
	return "", fmt.Errorf("bmc.fingerprint %q is no SHA-256 of a public key; write sha256/ and 44 characters of base64, or 64 hex digits", s)
}

// Kinds of ErrUnreachable that have a reason in TLS.
var (
	errCertificate = errors.New("the BMC's certificate is not trusted")
	errFingerprint = errors.New("the BMC's key is not the expected one")
	errOldTLS      = errors.New("the BMC and this client have no TLS version or cipher in common")
)

// untrustworthy tells that no other try can come to a connection.
func untrustworthy(err error) bool {
	return errors.Is(err, errCertificate) || errors.Is(err, errFingerprint) || errors.Is(err, errOldTLS)
}

// tlsKind gives the reason of a failed handshake, nil for another failure.
func tlsKind(err error) error {
	var (
		authority x509.UnknownAuthorityError
		host      x509.HostnameError
		invalid   x509.CertificateInvalidError
		verify    *tls.CertificateVerificationError
	)
	switch {
	case errors.Is(err, errFingerprint):
		return errFingerprint
	case errors.As(err, &verify) && len(verify.UnverifiedCertificates) > 0:
		return &untrusted{fingerprint: Fingerprint(verify.UnverifiedCertificates[0])}
	case errors.As(err, &authority), errors.As(err, &host), errors.As(err, &invalid), errors.As(err, &verify):
		return errCertificate
	}
	// The alerts of a handshake have no type of their own in crypto/tls.
	for _, alert := range []string{"tls: server selected unsupported protocol version", "tls: protocol version not supported", "tls: handshake failure"} {
		if strings.Contains(err.Error(), alert) {
			return errOldTLS
		}
	}
	return nil
}

// untrusted is errCertificate with the key that would have to be pinned.
type untrusted struct{ fingerprint string }

func (u *untrusted) Error() string {
	return fmt.Sprintf("%v (its key has the fingerprint %s)", errCertificate, u.fingerprint)
}

func (u *untrusted) Unwrap() error { return errCertificate }
