package web

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"os"
)

const (
	minToken = 16
	maxToken = 4096
	// maxPEM bounds a file of certificates.
	maxPEM = 1 << 20
)

// credentials are the files of Options as they were read last.
type credentials struct {
	admin, reader *token
	tls           *tls.Config // nil without TLS
	authorities   *authorities
}

// token is a token's hash, so that comparing takes the same time for every guess.
type token struct {
	hash  secretHash
	stand *standing
}

// authorities are whose client certificates are taken.
type authorities struct {
	hash  secretHash // of their file
	pool  *x509.CertPool
	stand *standing
}

func (t *token) is(given string) bool {
	if t == nil {
		return false
	}
	hash := hashSecret(given)
	return subtle.ConstantTimeCompare(t.hash[:], hash[:]) == 1
}

// readCredentials reads every file that the options name.
func (o Options) readCredentials() (*credentials, error) {
	var (
		c   credentials
		err error
	)
	if c.admin, err = hashToken(o.TokenFile); err != nil {
		return nil, err
	}
	if c.reader, err = hashToken(o.ReadTokenFile); err != nil {
		return nil, err
	}
	if c.admin != nil && c.reader != nil && c.admin.hash == c.reader.hash {
		return nil, fmt.Errorf("the token files %s and %s hold the same token: who may only look needs another one", o.TokenFile, o.ReadTokenFile)
	}
	if o.CertFile == "" {
		return &c, nil
	}
	pair, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("read the certificate %s and its key %s: %w; both must be PEM and belong together", o.CertFile, o.KeyFile, err)
	}
	c.tls = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"http/1.1"}}
	if o.ClientCAFile != "" {
		if c.authorities, err = clientAuthorities(o.ClientCAFile); err != nil {
			return nil, err
		}
		c.tls.ClientCAs = c.authorities.pool
		// Given, not required: health checks have none, and a token is as good.
		c.tls.ClientAuth = tls.VerifyClientCertIfGiven
	}
	return &c, nil
}

// hashToken reads a token file and forgets the token.
func hashToken(path string) (*token, error) {
	text, err := readToken(path)
	if err != nil || text == "" {
		return nil, err
	}
	return &token{hashSecret(text), newStanding(nil)}, nil
}

// succeed takes over from the credentials before: whoever is known by what has not
// changed stays, the others' streams and sessions end.
func (c *credentials) succeed(old *credentials) {
	for _, t := range []struct{ old, now **token }{{&old.admin, &c.admin}, {&old.reader, &c.reader}} {
		switch before, now := *t.old, *t.now; {
		case before == nil:
		case now != nil && now.hash == before.hash:
			*t.now = before
		default:
			before.stand.end()
		}
	}
	switch before, now := old.authorities, c.authorities; {
	case before == nil:
	case now != nil && now.hash == before.hash:
		c.authorities = before
	default:
		before.stand.end()
	}
}

// leaf is the server's certificate; nil without TLS.
func (c *credentials) leaf() *x509.Certificate {
	if c.tls == nil {
		return nil
	}
	return c.tls.Certificates[0].Leaf
}

// readToken reads the one token that a file holds; "" without a file. No error holds the token.
func readToken(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	raw, err := readSome(path, maxToken+1)
	if err != nil {
		return "", fmt.Errorf("read the token file: %w; give a file that this user can read", err)
	}
	text := bytes.TrimSpace(raw)
	if len(text) < minToken || len(text) > maxToken {
		return "", fmt.Errorf("the token file %s holds %d bytes: a token has %d to %d; `openssl rand -hex 32` makes one", path, len(text), minToken, maxToken)
	}
	for _, b := range text {
		if b <= ' ' || b >= 0x7f {
			return "", fmt.Errorf("the token file %s holds a blank or a strange character: write one token, of printable ASCII", path)
		}
	}
	return string(text), nil
}

func readAuthorities(path string) (*x509.CertPool, error) {
	a, err := clientAuthorities(path)
	if err != nil {
		return nil, err
	}
	return a.pool, nil
}

func clientAuthorities(path string) (*authorities, error) {
	raw, err := readSome(path, maxPEM)
	if err != nil {
		return nil, fmt.Errorf("read the authorities: %w; give a PEM file that this user can read", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(raw) {
		return nil, fmt.Errorf("the file %s holds no certificate: give a PEM file of the authorities", path)
	}
	return &authorities{sha256.Sum256(raw), pool, newStanding(nil)}, nil
}

// readSome reads a file up to a size.
func readSome(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, most))
}
