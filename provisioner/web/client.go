package web

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Client asks a daemon. It is safe for concurrent use. Its errors are *Error
// values: ErrUnreachable when there is no answer, else what the daemon said.
type Client struct {
	endpoint Endpoint
	http     *http.Client
	token    string
	pace     pace
}

const (
	// callTimeout bounds a call, planTimeout one that looks at every BMC: a little more than the daemon takes.
	callTimeout = 40 * time.Second
	planTimeout = 16 * time.Minute
	// knockTimeout bounds the question whether there is a daemon.
	knockTimeout = time.Second
	// maxAnswer bounds what an answer may make us keep: a hundred thousand nodes fit.
	maxAnswer = 256 << 20
	// maxErrorBody bounds the answer that says what is wrong: a plan of ten thousand nodes fits.
	maxErrorBody = 32 << 20
)

// NewClient reads the endpoint's files. It sends nothing.
func NewClient(e Endpoint) (*Client, error) {
	if err := e.check(); err != nil {
		return nil, fmt.Errorf("set up the way to the daemon: %w", err)
	}
	transport, err := e.transport()
	if err != nil {
		return nil, fmt.Errorf("set up the way to the daemon: %w", err)
	}
	c := &Client{endpoint: e, pace: defaultPace, http: &http.Client{
		Transport: transport,
		// A token must not follow where somebody else points.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if e.Socket == "" {
		if c.token, err = readToken(e.TokenFile); err != nil {
			return nil, fmt.Errorf("set up the way to the daemon: %w", err)
		}
	}
	return c, nil
}

// Close lets go of idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Available says whether a daemon answers, within a second. One that hangs does not.
func (c *Client) Available(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, knockTimeout)
	defer cancel()
	response, err := c.send(ctx, http.MethodGet, "/healthz", nil, "")
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return true
}

// send asks, and returns whatever answer there is. The caller closes its body.
func (c *Client) send(ctx context.Context, method, path string, body []byte, accept string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.endpoint.base()+path, bytes.NewReader(body))
	if err != nil {
		return nil, Invalid(fmt.Errorf("ask %s: %w", c.endpoint, err), "give another URL")
	}
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/json")
	}
	if accept != "" {
		request.Header.Set("Accept", accept)
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	return response, nil
}

// unreachable says why there is no answer, and what to do.
func (c *Client) unreachable(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return context.Canceled
	}
	hint := "see that `provision serve` runs there, and that the address is right"
	if c.endpoint.Socket != "" {
		hint = "start `provision serve`, or see that it runs as this user and with this state"
	}
	var (
		authority *tls.CertificateVerificationError
		alert     tls.AlertError
	)
	switch {
	case errors.As(err, &authority):
		hint = "give the authority of the daemon's certificate, and ask for a name that is in it"
	case errors.As(err, &alert):
		hint = "the daemon refuses our certificate: give one of an authority that it knows"
	}
	return &Error{Code: CodeUnreachable, Message: fmt.Sprintf("no answer from %s: %v", c.endpoint, err), Hint: hint, cause: err}
}

// ask sends one call and reads its answer into the value; nil expects none.
func (c *Client) ask(ctx context.Context, timeout time.Duration, method, path string, body, into any) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var raw []byte
	if body != nil {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			return fmt.Errorf("write the request: %w", err)
		}
	}
	response, err := c.send(ctx, method, path, raw, "")
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if err := c.refusal(response); err != nil {
		return err
	}
	if into == nil {
		return nil
	}
	return c.read(ctx, response, into)
}

// read decodes an answer of bounded size.
func (c *Client) read(ctx context.Context, response *http.Response, into any) error {
	limited := &io.LimitedReader{R: response.Body, N: maxAnswer}
	err := json.NewDecoder(limited).Decode(into)
	var syntax *json.SyntaxError
	var mismatch *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case limited.N == 0 || errors.As(err, &syntax) || errors.As(err, &mismatch):
		return &Error{Code: CodeInternal, Message: fmt.Sprintf("the answer of %s cannot be read: %v", c.endpoint, err), Hint: "client and daemon may be of different versions", cause: err}
	}
	return c.unreachable(ctx, err) // it was cut off
}

// refusal turns an answer that is an error back into the error.
func (c *Client) refusal(response *http.Response) error {
	if response.StatusCode/100 == 2 {
		return nil
	}
	var e Error
	err := json.NewDecoder(io.LimitReader(response.Body, maxErrorBody)).Decode(&e)
	if err != nil || e.Code == "" {
		return &Error{Code: CodeInternal, Message: fmt.Sprintf("%s answers %s, which is none of our errors", c.endpoint, response.Status), Hint: "see that it is a `provision serve` and no other server"}
	}
	return &e
}
