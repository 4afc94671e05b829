package assets

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"time"
)

// transientError marks failures that may pass by themselves.
type transientError struct{ error }

func (e transientError) Unwrap() error { return e.error }

// notFoundError is the factory's 404: it may know the version and not yet the schematic.
type notFoundError struct{ error }

func (e notFoundError) Unwrap() error { return e.error }

func mayPass(err error) bool {
	return errors.As(err, new(transientError))
}

func checkFactory(factory string) error {
	u, err := url.Parse(factory)
	if err != nil {
		return fmt.Errorf("assets.factory: %w", err)
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return fmt.Errorf("assets.factory %q is not a plain http or https URL; an example is %s", u.Redacted(), DefaultFactory)
	}
	return nil
}

// guarded returns a client that connects within bounded time and refuses to be
// redirected from https to http. There is no limit on the whole transfer.
func guarded(client *http.Client) *http.Client {
	if client == nil {
		client = &http.Client{Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
			TLSHandshakeTimeout: 10 * time.Second,
			// The factory builds an image that nobody asked for before while
			// the first client waits for its headers.
			ResponseHeaderTimeout: 5 * time.Minute,
			IdleConnTimeout:       90 * time.Second,
			MaxIdleConnsPerHost:   4,
			ForceAttemptHTTP2:     true,
		}}
	}
	guard := *client
	inner := client.CheckRedirect
	guard.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if via[len(via)-1].URL.Scheme == "https" && req.URL.Scheme != "https" {
			return fmt.Errorf("redirected from https to %s, refused because anyone on the way could change the image; set assets.factory to the address that it should come from", req.URL.Redacted())
		}
		if inner != nil {
			return inner(req, via)
		}
		if len(via) >= 10 {
			return errors.New("stopped after 10 redirects; check assets.factory")
		}
		return nil
	}
	return &guard
}

// unreachable explains a request that got no answer at all.
func unreachable(err error) error {
	// url.Error repeats method and URL, which the caller says already.
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return transientError{fmt.Errorf("%w; check assets.factory, the uplink and HTTPS_PROXY", err)}
}

// checkResponse refuses answers that cannot be the file, before a byte is read.
func checkResponse(resp *http.Response, resumed bool) error {
	where := ""
	if from := resp.Request.URL; resp.Request.Response != nil {
		where = " after a redirect to " + from.Scheme + "://" + from.Host + from.Path
	}
	switch code := resp.StatusCode; {
	case code == http.StatusOK, code == http.StatusPartialContent && resumed:
	case code == http.StatusNotFound:
		return notFoundError{fmt.Errorf("status %s%s; check talosVersion and schematicID (a schematic must have been registered at this factory once)", resp.Status, where)}
	case code >= 500, code == http.StatusTooManyRequests, code == http.StatusRequestTimeout:
		return transientError{fmt.Errorf("status %s%s; the factory has a problem, try again later", resp.Status, where)}
	default:
		return fmt.Errorf("status %s%s; open the URL in a browser to see what the factory says", resp.Status, where)
	}
	if encoding := resp.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return fmt.Errorf("the answer is encoded as %s, which was not asked for; is there a proxy on the way?", clip(encoding))
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")) // an unreadable type is judged by the content
	if pageTypes[kind] {
		return notAFile(kind + where)
	}
	if resp.ContentLength < 0 && resp.ProtoMajor == 1 && len(resp.TransferEncoding) == 0 {
		return errors.New("the answer has no Content-Length, so a cut transfer could not be noticed; is there a proxy on the way?")
	}
	return nil
}

// pageTypes are what portals and object stores send in place of a file.
var pageTypes = map[string]bool{
	"text/html": true, "application/xhtml+xml": true,
	"text/xml": true, "application/xml": true,
	"application/json": true, "application/problem+json": true,
}

func notAFile(kind string) error {
	return fmt.Errorf("got a page (%s) in place of the file; is a proxy or login portal answering for the factory?", kind)
}

// prefix keeps the first bytes of a body, enough for content sniffing.
type prefix struct{ buf bytes.Buffer }

func (p *prefix) Write(b []byte) (int, error) {
	const enough = 512
	if room := enough - p.buf.Len(); room > 0 {
		p.buf.Write(b[:min(room, len(b))])
	}
	return len(b), nil
}

// page returns the media type when the body is an HTML or XML page, whatever
// its header said, and "" otherwise.
func (p *prefix) page() string {
	kind, _, _ := mime.ParseMediaType(http.DetectContentType(p.buf.Bytes())) // well-formed by its contract
	if pageTypes[kind] {
		return kind
	}
	return ""
}

// errStalled is the reason that the watchdog gives.
type errStalled struct{ after time.Duration }

func (e errStalled) Error() string {
	return fmt.Sprintf("no byte came for %v; check the uplink", e.after)
}

// watched cancels a transfer that makes no progress.
type watched struct {
	io.Reader
	timer *time.Timer
	after time.Duration
}

func watch(r io.Reader, after time.Duration, cancel context.CancelCauseFunc) *watched {
	return &watched{Reader: r, after: after, timer: time.AfterFunc(after, func() { cancel(errStalled{after}) })}
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if n > 0 {
		w.timer.Reset(w.after)
	}
	return n, err
}

func (w *watched) stop() { w.timer.Stop() }

// progress reports a download at a bearable rate.
type progress struct {
	report func(done, total int64)
	done   int64
	total  int64
	last   time.Time
}

func (c *Cache) progress(ref Ref, total int64) *progress {
	p := &progress{total: total, last: time.Now()}
	if c.opts.OnProgress != nil {
		p.report = func(done, total int64) { c.opts.OnProgress(ref, done, total) }
	}
	return p
}

func (p *progress) Write(b []byte) (int, error) {
	p.done += int64(len(b))
	if p.report != nil && time.Since(p.last) >= 200*time.Millisecond {
		p.last = time.Now()
		p.report(p.done, p.total)
	}
	return len(b), nil
}

func (p *progress) finish(size int64) {
	if p.report != nil {
		p.report(size, size)
	}
}
