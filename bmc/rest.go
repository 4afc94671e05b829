package bmc

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"github.com/stmcginnis/gofish/schemas"
)

// request is one HTTP request to the BMC.
type request struct {
	method  string
	path    string
	payload any               // marshalled as JSON; nil = no body
	headers map[string]string // besides authentication
	auth    authentication
}

type authentication int

const (
	authCurrent   authentication = iota // the session's token, or Basic in its place
	authAnonymous                       // none: the service root and the log-in
	authBasic
)

// answer is one HTTP response, whatever its status.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) ok() bool { return a.status >= 200 && a.status < 300 }

// readTries bounds how often a read is sent: the 10 times 3 s of OpenStack's
// sushy, which cover the minute in which an iDRAC or iLO starts.
const readTries = 10

// get reads a resource into a lenient document. It gives the ETag of the header.
func (c *Client) get(ctx context.Context, path string, into any) (string, error) {
	return c.fetch(ctx, request{method: http.MethodGet, path: path}, readTries, into)
}

// fetch is get with a say in authentication and patience.
func (c *Client) fetch(ctx context.Context, r request, tries int, into any) (string, error) {
	for try := 1; ; try++ {
		a, err := c.exchange(ctx, r)
		switch {
		case err != nil:
		case !a.ok():
			err = c.refuse(r, a)
		default:
			if err = decode(a.body, into); err == nil {
				return a.header.Get("ETag"), nil
			}
			err = &badDocument{path: r.path, err: err}
		}
		if try >= tries || !transient(err) || neverConnected(err) && !c.connected.Load() {
			return "", err
		}
		c.log.DebugContext(ctx, "read again", "path", r.path, "try", try, "reason", c.secrets.scrub(err.Error()))
		if wait := c.pauseFor(ctx, try, err); wait != nil {
			return "", fmt.Errorf("%w (last: %w)", wait, err)
		}
	}
}

// pauseFor is pause, or longer when the BMC said for how long (Retry-After).
func (c *Client) pauseFor(ctx context.Context, try int, err error) error {
	if r, ok := errors.AsType[*refusal](err); ok && r.after > 0 {
		return sleep(ctx, r.after)
	}
	return c.pause(ctx, try)
}

// badDocument is a success without a usable body: some BMCs answer 200 and
// nothing while they start.
type badDocument struct {
	path string
	err  error
}

func (b *badDocument) Error() string {
	return fmt.Sprintf("GET %s answered no usable document: %v", b.path, b.err)
}
func (b *badDocument) Unwrap() error { return b.err }

// notReady are messages of a BMC that will answer in a while (sushy, check_redfish#170).
var notReady = []string{"ResourceNotReadyRetry", "SYS518", "ServiceTemporarilyUnavailable", "ResourceInStandby", "ServiceInUnknownState"}

// transient tells whether a read may be sent again.
func transient(err error) bool {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r.status >= 500 && r.status != http.StatusNotImplemented ||
			r.status == http.StatusTooManyRequests || r.says(notReady...)
	}
	if _, ok := errors.AsType[*badDocument](err); ok {
		return true
	}
	return errors.Is(err, ErrUnreachable) && !untrustworthy(err) && !errors.Is(err, errBodyTooLarge)
}

// neverConnected tells that not even a TCP connection came about.
func neverConnected(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// pause waits before the next try: exponential from an eighth of Poll up to
// Poll, with jitter so that a thousand BMCs do not come back in step.
func (c *Client) pause(ctx context.Context, try int) error {
	longest := c.cfg.Timeouts.Poll
	d := min(longest>>3<<min(try-1, 10), longest)
	return sleep(ctx, d/2+rand.N(d/2+1))
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// write sends one PATCH or POST, once. It goes on for a moment when ctx ends, so
// that its outcome is known. Sending again is the caller's decision, after
// reading back.
func (c *Client) write(ctx context.Context, r request) (answer, error) {
	if err := ctx.Err(); err != nil {
		return answer{}, context.Cause(ctx)
	}
	ctx, cancel := linger(ctx, c.cfg.Timeouts.Logout)
	defer cancel()
	if c.cfg.Permit != nil {
		ctx = context.WithValue(ctx, permitKey{}, c.cfg.Permit)
	}
	a, err := c.exchange(ctx, r)
	if err == nil && !a.ok() {
		err = c.refuse(r, a)
	}
	return a, err
}

// exchange sends one request while no other is in flight to this BMC (I10). When
// the session is gone (401) it logs in once more and repeats the request, which
// was not executed.
func (c *Client) exchange(ctx context.Context, r request) (answer, error) {
	if err := c.acquire(ctx); err != nil {
		return answer{}, err
	}
	defer c.release()
	if c.closed {
		return answer{}, ErrClosed
	}
	if c.denied != nil {
		return answer{}, c.denied
	}
	a, err := c.once(ctx, r)
	if err != nil || a.status != http.StatusUnauthorized {
		c.proven = c.proven || err == nil && a.ok() && r.auth == authCurrent
		return a, err
	}
	if r.auth != authCurrent {
		return a, nil
	}
	if c.basic {
		c.denied = c.refuse(r, a) // every further request would be one more failed log-in
		return a, nil
	}
	if !c.proven { // this session never worked: one more would not either
		return a, nil
	}
	if err := c.relogin(ctx); err != nil {
		return answer{}, err
	}
	a, err = c.once(ctx, r)
	c.proven = err == nil && a.ok()
	return a, err
}

// once sends one request and takes its answer. The gate must be held.
func (c *Client) once(ctx context.Context, r request) (answer, error) {
	outer := ctx
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeouts.Request)
	defer cancel()
	var rec recording
	ctx = context.WithValue(ctx, recordingKey{}, &rec)

	var body io.ReadSeeker
	if r.payload != nil {
		b, err := marshal(r.payload)
		if err != nil {
			return answer{}, fmt.Errorf("marshal the body of %s %s: %w", r.method, r.path, err)
		}
		body = bytes.NewReader(b)
	}
	start := time.Now()
	//nolint:bodyclose // closed by the function of gofish in the next line
	resp, err := c.api.WithContext(ctx).RunRawRequestWithHeaders(r.method, r.path, body, "application/json", c.headers(r))
	schemas.DeferredCleanupHTTPResponse(resp)
	c.record(outer, r, rec, time.Since(start), err)
	if rec.done {
		return rec.answer, nil
	}
	if err == nil {
		err = errors.New("no answer")
	}
	if rec.reused && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", errStale, err)
	}
	return answer{}, unreachable(outer, err)
}

// marshal keeps characters as they are: not every BMC knows the escapes that
// encoding/json makes of "&" in a URI.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}

// errStale: a kept connection broke before an answer came. iLOs reset
// connections that are used again (NVIDIA libredfish).
var errStale = errors.New("the BMC closed the connection")

func (c *Client) headers(r request) map[string]string {
	h := map[string]string{"OData-Version": "4.0"}
	for k, v := range r.headers {
		h[k] = v
	}
	switch {
	case r.auth == authBasic || r.auth == authCurrent && c.basic:
		h["Authorization"] = "Basic " + base64.StdEncoding.EncodeToString([]byte(c.cfg.Username+":"+c.cfg.Password))
	case r.auth == authCurrent:
		if c.token != "" {
			h["X-Auth-Token"] = c.token
		}
	}
	return h
}

// record logs one exchange: never headers or bodies (I9), and of a session's
// address only the collection, since some BMCs make the token part of it.
func (c *Client) record(ctx context.Context, r request, rec recording, took time.Duration, err error) {
	attrs := []slog.Attr{slog.String("method", r.method), slog.String("path", safePath(r.path)), slog.Duration("took", took)}
	if rec.done {
		attrs = append(attrs, slog.Int("status", rec.answer.status))
	} else if err != nil {
		attrs = append(attrs, slog.String("error", safePath(c.secrets.scrub(err.Error()))))
	}
	c.log.LogAttrs(ctx, slog.LevelDebug, "redfish", attrs...)
}
