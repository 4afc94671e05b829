package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"
)

// maxBody bounds what a request may carry: ten thousand nodes by name fit.
const maxBody = 1 << 20

// call is one request that was let in.
type call struct {
	*http.Request
	caller caller
	body   []byte
	detail []slog.Attr // for the audit line
	denied *Error      // why a login was refused, for the audit line
}

// serve wraps a route in what every route has: who may, how big, how long, and the audit line.
func (s *Server) serve(rt route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		started := time.Now()
		answer := &recorder{ResponseWriter: w}
		c := &call{Request: r}
		defer func() { c.leave(s) }()
		err := s.handleSafely(rt, answer, c)
		if err != nil {
			s.fail(answer, rt, err)
		}
		if r.Method == http.MethodPost {
			s.audit(c, rt, answer.status, err, time.Since(started))
		}
	}
}

// handleSafely turns a panic into an error with a trace in the log: net/http would
// keep the daemon alive too, and close the connection without a word.
func (s *Server) handleSafely(rt route, w *recorder, c *call) (err error) {
	defer func() {
		if v := recover(); v != nil {
			s.opts.Log.Error("a call of the admin API panicked", "path", rt.path, "panic", v, "stack", string(debug.Stack()))
			err = &Error{Code: CodeInternal, Message: "the call failed inside the daemon", Hint: "this is a bug: please report it with the daemon's log"}
		}
	}()
	return s.handle(rt, w, c)
}

func (s *Server) handle(rt route, w *recorder, c *call) error {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	control := http.NewResponseController(w)
	limit := s.timeout(rt)
	_ = control.SetWriteDeadline(time.Now().Add(limit + s.opts.StreamTimeout)) // every connection of net has deadlines
	if err := s.admit(rt, c); err != nil {
		return err
	}
	ctx := withCaller(c.Context(), c.caller)
	if rt.endless {
		bound, unbind := c.caller.stand.bind(ctx)
		defer unbind()
		ctx = bound
	}
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	if rt.method == http.MethodPost {
		if err := s.readBody(w, c, control); err != nil {
			return err
		}
	}
	c.Request = c.WithContext(ctx)
	if rt.write != nil {
		return rt.write(s, w, c)
	}
	value, err := rt.answer(s, c)
	if err != nil {
		return err
	}
	return writeJSON(w, rt.status, value)
}

// admit says who asks, and refuses who may not.
func (s *Server) admit(rt route, c *call) error {
	if err := s.checkHost(c.Request); err != nil {
		return err
	}
	var err error
	if c.caller, err = s.identify(c.Request); err != nil && rt.role > roleNone {
		return err
	}
	if c.caller.role < rt.role {
		return &Error{Code: CodeForbidden, Message: "this token may look and do nothing else", Hint: "use the token of the daemon's token file"}
	}
	if rt.method != http.MethodPost {
		return nil
	}
	// No page of another site can send JSON, or hide where it comes from.
	if err := http.NewCrossOriginProtection().Check(c.Request); err != nil {
		return &Error{Code: CodeForbidden, Message: err.Error(), Hint: "ask from the command line", cause: err}
	}
	if kind, _, err := mime.ParseMediaType(c.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return &Error{Code: CodeContentType, Message: "the body must be JSON", Hint: "send Content-Type: application/json"}
	}
	return nil
}

// readBody takes the whole body, so that a slow sender holds up nothing but itself.
func (s *Server) readBody(w http.ResponseWriter, c *call, control *http.ResponseController) error {
	// net/http takes the deadline back when the body has ended.
	_ = control.SetReadDeadline(time.Now().Add(s.opts.RequestTimeout))
	body, err := io.ReadAll(http.MaxBytesReader(w, c.Body, maxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return &Error{Code: CodeTooLarge, Message: fmt.Sprintf("the body has more than %d bytes", maxBody), Hint: "name the nodes as a hostlist, such as node-[01-99]"}
	case err != nil:
		return Invalid(fmt.Errorf("read the body: %w", err), "send it whole")
	}
	c.body = body
	return nil
}

// fail tells an error, if the answer has not begun; else it cuts the answer off,
// so that a part of it is not taken for the whole.
func (s *Server) fail(w *recorder, rt route, err error) {
	if w.status != 0 {
		level := slog.LevelWarn
		if errors.Is(err, context.Canceled) {
			level = slog.LevelDebug // the asker went away
		}
		s.opts.Log.Log(context.Background(), level, "an answer of the admin API was cut off", "path", rt.path, "error", err)
		panic(http.ErrAbortHandler) // what net/http has for it: the connection closes, nothing is logged
	}
	e := asError(err)
	switch e.Code {
	case CodeUnauthorized:
		w.Header().Set("WWW-Authenticate", `Bearer realm="provision"`)
	case CodeTooMany, CodeUnavailable:
		w.Header().Set("Retry-After", "5")
	case CodeInternal:
		s.opts.Log.Error("a call of the admin API failed", "path", rt.path, "error", err)
	default: // the asker's own
	}
	_ = writeJSON(w, e.status(), e) // the asker may be gone
}

// audit writes who did what, and how it went. It never holds a token.
func (s *Server) audit(c *call, rt route, status int, err error, took time.Duration) {
	level, outcome := slog.LevelInfo, "done"
	if err != nil {
		level, outcome = slog.LevelWarn, string(asError(err).Code)
	}
	path := c.URL.Path
	if rt.path == "" && len(path) > 200 {
		path = path[:200]
	}
	s.opts.Log.LogAttrs(c.Context(), level, "admin", append([]slog.Attr{
		slog.String("by", c.caller.who), slog.String("from", c.RemoteAddr), slog.String("call", c.Method+" "+path),
		slog.String("outcome", outcome), slog.Int("status", status), slog.Duration("took", took),
	}, c.detail...)...)
}

// writeJSON answers with one document; nil is 204.
func writeJSON(w http.ResponseWriter, status int, value any) error {
	if value == nil {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("write the answer as JSON: %w", err)
	}
	if status == 0 {
		status = http.StatusOK
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(raw)+1))
	w.WriteHeader(status)
	_, _ = w.Write(append(raw, '\n')) // the asker may be gone
	return nil
}

// recorder remembers which status was sent; 0 is none yet.
type recorder struct {
	http.ResponseWriter
	status int
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(b)
}

// Unwrap lets a ResponseController find the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
