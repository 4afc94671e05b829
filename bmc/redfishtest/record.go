package redfishtest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Request is one request that a service got, without its secrets.
type Request struct {
	Time   time.Time
	Method string
	Path   string
	// Status is what was answered; 0 when the connection was closed instead.
	Status int
	// Header holds If-Match, Content-Type, Accept-Encoding, Authorization and
	// X-Auth-Token, as far as they were sent; of the last two only that they
	// were.
	Header http.Header
	// Body as it was sent, passwords and tokens replaced by "REDACTED".
	Body string
}

const redacted = "REDACTED"

// Requests returns the requests so far, oldest first, as far back as
// [Config].RequestLimit goes. A request is among them before its answer is
// sent.
func (s *Service) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

func (s *Service) record(x *exchange, status int) {
	if s.config.RequestLimit < 0 {
		return
	}
	entry := Request{
		Time: time.Now(), Method: x.request.Method, Path: x.request.URL.Path, Status: status,
		Header: safeHeader(x.request.Header), Body: safeBody(x.body),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if over := len(s.requests) + 1 - s.config.RequestLimit; over > 0 {
		s.requests = append(s.requests[:0:0], s.requests[over:]...)
	}
	s.requests = append(s.requests, entry)
}

func safeHeader(h http.Header) http.Header {
	safe := make(http.Header)
	for _, name := range []string{"If-Match", "Content-Type", "Accept-Encoding"} {
		if values := h.Values(name); len(values) > 0 {
			safe[name] = append([]string(nil), values...)
		}
	}
	if h.Get("X-Auth-Token") != "" {
		safe.Set("X-Auth-Token", redacted)
	}
	if scheme, _, _ := strings.Cut(h.Get("Authorization"), " "); scheme != "" {
		safe.Set("Authorization", scheme+" "+redacted)
	}
	return safe
}

// safeBody keeps a body word by word unless it holds a secret; what cannot be
// read might hold one, and is not kept.
func safeBody(body []byte) string {
	if len(body) == 0 {
		return ""
	}
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		return fmt.Sprintf("(%d bytes that are not JSON)", len(body))
	}
	if !redact(value) {
		return string(body)
	}
	return encode(value)
}

// redact replaces secrets in place and reports whether there were any.
func redact(value any) (changed bool) {
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			if secret(name) {
				v[name] = redacted
				changed = true
				continue
			}
			changed = redact(member) || changed
		}
	case []any:
		for _, member := range v {
			changed = redact(member) || changed
		}
	}
	return changed
}

func secret(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{"passw", "pwd", "secret", "token"}, func(word string) bool {
		return strings.Contains(name, word)
	})
}

// reply records and sends the answer, after the delay that a fault asked for.
func (s *Service) reply(w http.ResponseWriter, x *exchange, a Answer) {
	status := a.Status
	if x.effect.connection != keepOpen {
		status = 0
	}
	s.record(x, status)
	s.log.Debug("Redfish request", "method", x.request.Method, "path", x.request.URL.Path, "status", status)
	x.effect.delay += s.config.Latency
	tooLate := x.effect.delay > 0 && !s.delay(x)
	if !tooLate && x.effect.connection == closeWithin {
		cut(w, a)
		return
	}
	if tooLate || x.effect.connection != keepOpen {
		hangUp(w)
		return
	}
	header := w.Header()
	for name, value := range a.Header {
		header.Set(name, value)
	}
	if tag := header.Get("ETag"); tag != "" && s.profile.ETag.GzipSuffix &&
		strings.Contains(x.request.Header.Get("Accept-Encoding"), "gzip") {
		header.Set("ETag", gzipTag(tag))
	}
	for _, name := range x.effect.strip {
		header.Del(name)
	}
	header.Set("OData-Version", "4.0")
	header.Set("Cache-Control", "no-store")
	if a.Body != "" {
		header.Set("Content-Type", "application/json;charset=utf-8")
		header.Set("Content-Length", fmt.Sprint(len(a.Body)))
	}
	w.WriteHeader(status)
	if x.request.Method != http.MethodHead {
		_, _ = w.Write([]byte(a.Body))
	}
}

// delay waits, unless the client goes away or the service is closed first.
func (s *Service) delay(x *exchange) bool {
	ctx, cancel := context.WithCancel(x.request.Context())
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	return sleep(ctx, x.effect.delay) == nil
}

// hangUp closes the connection below the answer.
func hangUp(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		// No connection of our own to close: the nearest thing to it.
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	_ = conn.Close()
}
