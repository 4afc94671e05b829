package bmc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"time"
)

// maxBody caps a response body in bytes. The largest document read here, an
// Assembly, stays far below it.
const maxBody = 8 << 20

var errBodyTooLarge = fmt.Errorf("the answer is larger than %d MiB", maxBody>>20)

// newHTTPClient gives one BMC its own HTTP client: trust, connections and
// redirects are never shared with another one.
func newHTTPClient(endpoint *url.URL, cfg Config, known *secrets) (*http.Client, error) {
	trust, err := tlsConfig(cfg)
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: cfg.Timeouts.Dial, KeepAlive: 15 * time.Second}
	transport := &http.Transport{
		Proxy:                 nil, // a management network is never behind one, and it would see the password
		DialContext:           dialer.DialContext,
		TLSClientConfig:       trust,
		TLSHandshakeTimeout:   min(2*cfg.Timeouts.Dial, cfg.Timeouts.Request),
		ResponseHeaderTimeout: cfg.Timeouts.Request,
		IdleConnTimeout:       30 * time.Second,
		MaxIdleConnsPerHost:   1,
		MaxConnsPerHost:       2, // one in use (I10), one that may be closing
		// Some BMCs answer compressed documents with an ETag that they refuse later (gofish#511).
		DisableCompression: true,
	}
	g := &guard{next: transport, host: endpoint.Hostname(), onRequest: cfg.OnRequest}
	if cfg.Trace != nil {
		g.trace = &tracer{out: cfg.Trace, secrets: known}
	}
	return &http.Client{
		Transport:     g,
		CheckRedirect: checkRedirect,
	}, nil
}

// checkRedirect follows reads on the same host. A redirected write is left
// unfollowed: Go would turn a PATCH into a GET whose 200 reads as success.
func checkRedirect(next *http.Request, via []*http.Request) error {
	first := via[0]
	read := first.Method == http.MethodGet || first.Method == http.MethodHead
	if !read || len(via) > 5 || !sameOrigin(first.URL, next.URL) {
		return http.ErrUseLastResponse
	}
	return nil
}

// sameOrigin also takes the step from plain HTTP to HTTPS on one host.
func sameOrigin(from, to *url.URL) bool {
	if from.Scheme == to.Scheme {
		return strings.EqualFold(from.Host, to.Host)
	}
	return from.Scheme == "http" && to.Scheme == "https" && strings.EqualFold(from.Hostname(), to.Hostname())
}

// recording is what one HTTP exchange came to. gofish gives callers either a
// response or an error without headers; ETag and Retry-After are needed of both.
type recording struct {
	answer answer
	done   bool
	reused bool // the connection had served before
}

type recordingKey struct{}

// offlineKey marks the one request that gofish makes when it is set up.
type offlineKey struct{}

// permitKey marks requests that change something by what permits them.
type permitKey struct{}

// guard is the last step before the network: it keeps credentials on the BMC's
// own host, caps bodies and records answers.
type guard struct {
	next  http.RoundTripper
	host  string
	trace *tracer // nil: none is wanted

	onRequest func(Exchange) // nil: nobody counts
}

// RoundTrip implements http.RoundTripper.
func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Context().Value(offlineKey{}) != nil {
		return emptyRoot(req), nil
	}
	if !strings.EqualFold(req.URL.Hostname(), g.host) {
		return nil, fmt.Errorf("refused to send a request for BMC %s to %s", g.host, req.URL.Hostname())
	}
	rec, _ := req.Context().Value(recordingKey{}).(*recording)
	if rec == nil {
		rec = &recording{}
	}
	*rec = recording{}
	if permit, asked := req.Context().Value(permitKey{}).(func() error); asked {
		if err := permit(); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNotPermitted, err)
		}
	}
	start := time.Now()
	resp, err := g.send(req, rec)
	g.observe(req, start, *rec, err)
	g.trace.write(req, start, *rec, err)
	return resp, err
}

// send makes one exchange and keeps its answer, which a redirect replaces.
func (g *guard) send(req *http.Request, rec *recording) (*http.Response, error) {
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		GotConn: func(i httptrace.GotConnInfo) { rec.reused = i.Reused },
	}))
	resp, err := g.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	_ = resp.Body.Close()
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	if len(body) > maxBody {
		return nil, errBodyTooLarge
	}
	*rec = recording{done: true, answer: answer{status: resp.StatusCode, header: resp.Header, body: body}}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

// CloseIdleConnections lets http.Client reach the transport's.
func (g *guard) CloseIdleConnections() {
	if t, ok := g.next.(*http.Transport); ok {
		t.CloseIdleConnections()
	}
}

// emptyRoot satisfies gofish, which reads the service root while it connects:
// without credentials, which some BMCs answer with 401, and strictly, so that
// one mistyped property would lose the BMC. The real root is read afterwards.
func emptyRoot(req *http.Request) *http.Response {
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   io.NopCloser(strings.NewReader("{}")), ContentLength: 2, Request: req,
	}
}

// linger gives a context that goes on for a grace after ctx ended. A log-in that
// is cut off leaves a session that nobody can close, and a write that is cut off
// an outcome that nobody knows; both are short.
func linger(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	out, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel(context.Cause(ctx))
		case <-out.Done():
		}
	})
	return out, func() {
		stop()
		cancel(errors.New("done"))
	}
}
