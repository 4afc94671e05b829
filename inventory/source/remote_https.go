package source

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
)

const (
	connectTimeout = 15 * time.Second
	answerTimeout  = time.Minute
	// maxSecret bounds a file with a token, certificates or keys in bytes.
	maxSecret = 1 << 20
	// maxAnswer is what a server may send beside the objects, in bytes: its branches.
	maxAnswer = 32 << 20
)

// httpsDialer talks to a server by https.
type httpsDialer struct {
	where   address
	options GitOptions
	secrets []string // of the last conversation, never to be shown
}

// httpsConversation closes its connections, with their goroutines, when it ends.
type httpsConversation struct {
	transport.UploadPackSession
	transport *http.Transport
}

// Close ends the conversation.
func (c httpsConversation) Close() error {
	c.transport.CloseIdleConnections()
	return c.UploadPackSession.Close()
}

func (d *httpsDialer) dial(context.Context) (conversation, error) {
	token, err := d.token()
	if err != nil {
		return nil, &branchError{err.Error()}
	}
	roots, err := d.roots()
	if err != nil {
		return nil, &branchError{err.Error()}
	}
	web := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: connectTimeout}).DialContext,
		TLSClientConfig:     &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: connectTimeout, ResponseHeaderTimeout: answerTimeout, ForceAttemptHTTP2: true,
	}
	endpoint, err := transport.NewEndpoint(d.where.String())
	if err != nil {
		return nil, err
	}
	var auth transport.AuthMethod
	d.secrets = nil
	if token != "" {
		auth = &githttp.BasicAuth{Username: d.options.Username, Password: token}
		d.secrets = []string{token, base64.StdEncoding.EncodeToString([]byte(d.options.Username + ":" + token))}
	}
	client := githttp.NewClient(&http.Client{Transport: bounded{web, d.options.MaxBytes + maxAnswer}})
	session, err := client.NewUploadPackSession(endpoint, auth)
	if err != nil {
		return nil, err
	}
	return httpsConversation{session, web}, nil
}

// token is the secret of now; "" if there is none.
func (d *httpsDialer) token() (string, error) {
	var token string
	switch {
	case d.options.TokenFile != "":
		content, err := readSmall(d.options.TokenFile)
		if err != nil {
			return "", fmt.Errorf("read the token: %w; write it to that file", err)
		}
		token = strings.TrimSpace(string(content))
	case d.options.TokenEnv != "":
		token = strings.TrimSpace(os.Getenv(d.options.TokenEnv))
	default:
		return "", nil
	}
	if token == "" || strings.ContainsAny(token, "\r\n\x00") {
		return "", errors.New("the token is empty or has several lines: write the token alone to its file or variable")
	}
	return token, nil
}

func (d *httpsDialer) roots() (*x509.CertPool, error) {
	if d.options.CAFile == "" {
		return nil, nil
	}
	content, err := readSmall(d.options.CAFile)
	if err != nil {
		return nil, fmt.Errorf("read the CA file: %w; correct its path", err)
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(content) {
		return nil, fmt.Errorf("the CA file %s holds no certificate: write certificates in PEM to it", d.options.CAFile)
	}
	return roots, nil
}

// tell gives the usual troubles words of ours: a server may repeat in its answer
// whatever it was sent.
func (d *httpsDialer) tell(err error) error {
	switch known := shown(err); {
	case known != nil:
		return known
	case errors.Is(err, transport.ErrAuthenticationRequired):
		return errors.New("the server asks for a token, or refuses the one it got: give one that may read the repository")
	case errors.Is(err, transport.ErrAuthorizationFailed):
		return errors.New("the server does not let this token read the repository: give it the right to")
	case errors.Is(err, transport.ErrRepositoryNotFound):
		return errors.New("the server has no such repository, or does not show it to this token: correct the URL or the token")
	}
	return errors.New(clean(err.Error(), d.secrets) + "; see whether the server is up and the URL is right")
}

// volatile is our own port in an error of the network. It differs each time, and so
// the same trouble would look new.
var volatile = regexp.MustCompile(`:\d+->`)

// clean makes a text of elsewhere fit to be shown.
func clean(text string, secrets []string) string {
	for _, secret := range secrets {
		text = strings.ReplaceAll(text, secret, "…")
	}
	text = volatile.ReplaceAllString(text, "->")
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	const longest = 300
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + "…"
	}
	return text
}

// bounded bounds the body of each answer.
type bounded struct {
	http.RoundTripper
	limit int64
}

// RoundTrip asks.
func (b bounded) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := b.RoundTripper.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	response.Body = struct {
		io.Reader
		io.Closer
	}{&limitedReader{reader: response.Body, left: b.limit, ctx: request.Context(), over: tooLarge("the server's answer", b.limit)}, response.Body}
	return response, nil
}

// readSmall reads a file of secrets or keys. Its errors name it.
func readSmall(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, cause(err))
	}
	if !info.Mode().IsRegular() || info.Size() > maxSecret {
		return nil, fmt.Errorf("%s is no regular file of at most %d bytes", file, maxSecret)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, cause(err))
	}
	return bytes.TrimPrefix(content, []byte("\xef\xbb\xbf")), nil
}
