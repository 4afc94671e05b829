package web

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Endpoint is where a daemon is, and what it knows us by. Socket or URL is required, not both.
type Endpoint struct {
	// Socket is the path of the daemon's unix socket.
	Socket string
	// URL is https://host:port, or http://host:port on loopback.
	URL string
	// TokenFile holds the token, CAFile the authorities of the daemon's certificate ("" takes
	// the host's), CertFile and KeyFile our own certificate. They are for URL only.
	TokenFile, CAFile, CertFile, KeyFile string
}

// dialTimeout bounds the way to the daemon, dialling and TLS each.
const dialTimeout = 5 * time.Second

// check says what is wrong with the endpoint before anything is sent there.
func (e Endpoint) check() error {
	switch {
	case (e.Socket == "") == (e.URL == ""):
		return errors.New("give the daemon's socket or its URL, one of them")
	case (e.CertFile == "") != (e.KeyFile == ""):
		return errors.New("a client certificate and its key go together: give both or neither")
	case e.Socket != "":
		return checkSocketPath(e.Socket)
	}
	u, err := url.Parse(e.URL)
	switch {
	case err != nil || u.Host == "":
		return errors.New("the daemon's URL cannot be read: write https://host:port") // it may hold a password
	case u.User != nil:
		return errors.New("the daemon's URL holds a user or a password: give a token file")
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("the daemon's URL %s has more than host and port: leave the rest out", e.URL)
	case u.Scheme != "https" && u.Scheme != "http":
		return fmt.Errorf("the daemon's URL %s is neither https nor http: write https://host:port", e.URL)
	case u.Scheme == "http" && !isLoopbackHost(u.Hostname()):
		return fmt.Errorf("the daemon's URL %s would send everything in clear: use https, or the address 127.0.0.1", e.URL)
	}
	return nil
}

// transport is the way to the daemon. No proxy is in it: a token is nobody else's business.
func (e Endpoint) transport() (*http.Transport, error) {
	dialer := &net.Dialer{Timeout: dialTimeout}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	t := &http.Transport{
		DialContext: dialer.DialContext, Protocols: protocols, TLSHandshakeTimeout: dialTimeout, MaxIdleConnsPerHost: 2,
		IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10,
	}
	if e.Socket != "" {
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", e.Socket)
		}
		return t, nil
	}
	t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	var err error
	if e.CAFile != "" {
		if t.TLSClientConfig.RootCAs, err = readAuthorities(e.CAFile); err != nil {
			return nil, err
		}
	}
	if e.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(e.CertFile, e.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read the client certificate %s and its key %s: %w; both must be PEM and belong together", e.CertFile, e.KeyFile, err)
		}
		t.TLSClientConfig.Certificates = []tls.Certificate{pair}
	}
	return t, nil
}

// base is what a path is put behind.
func (e Endpoint) base() string {
	if e.Socket != "" {
		return "http://localhost"
	}
	return strings.TrimSuffix(e.URL, "/")
}

// String is where the daemon is, for messages.
func (e Endpoint) String() string {
	if e.Socket != "" {
		return "the socket " + e.Socket
	}
	return e.URL
}
