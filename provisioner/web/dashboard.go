package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path"
	"runtime/debug"
	"strings"
	"time"
)

// pagePolicy is what a page of the dashboard may load and do: its own files, nothing inline.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// isPage says whether a path is the dashboard's.
func (s *Server) isPage(at string) bool {
	if s.opts.Dashboard == nil {
		return false
	}
	for _, other := range []string{"/api", "/debug"} {
		if at == other || strings.HasPrefix(at, other+"/") {
			return false
		}
	}
	return at != "/metrics" && at != "/healthz" && at != "/readyz"
}

// isStatic says whether a path is of a file that everybody may have. A path that
// climbs, as /static/../nodes does, is not.
func isStatic(at string) bool { return strings.HasPrefix(at, "/static/") && path.Clean(at) == at }

// isStream says that the asker follows what happens.
func isStream(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), sseType) }

// page wraps the dashboard in what every page has: who may, how big, how long, and the audit line.
func (s *Server) page(w http.ResponseWriter, r *http.Request) {
	started := time.Now()
	answer := &recorder{ResponseWriter: w}
	c := &call{Request: r}
	defer func() { c.leave(s) }()
	err := s.pageSafely(answer, c)
	if err != nil {
		s.failPage(answer, err)
	}
	if r.Method == http.MethodPost {
		if err == nil && c.denied != nil {
			err = c.denied
		}
		if err == nil && answer.status >= http.StatusBadRequest {
			err = &Error{Code: Code(strings.ToLower(http.StatusText(answer.status)))}
		}
		s.audit(c, route{path: r.URL.Path}, answer.status, err, time.Since(started))
	}
}

// pageSafely is handleSafely for pages.
func (s *Server) pageSafely(w *recorder, c *call) (err error) {
	defer func() {
		switch v := recover(); v {
		case nil:
		case http.ErrAbortHandler:
			panic(v)
		default:
			s.opts.Log.Error("a page of the dashboard panicked", "path", c.URL.Path, "panic", v, "stack", string(debug.Stack()))
			err = &Error{Code: CodeInternal, Message: "the page failed inside the daemon", Hint: "this is a bug: please report it with the daemon's log"}
		}
	}()
	return s.handlePage(w, c)
}

func (s *Server) handlePage(w *recorder, c *call) error {
	header := w.Header()
	header.Set("Content-Security-Policy", pagePolicy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	static := isStatic(c.URL.Path)
	if !static {
		header.Set("Cache-Control", "no-store")
	}
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(s.opts.RequestTimeout + s.opts.StreamTimeout)) // every connection of net has deadlines
	if err := s.admitPage(w, c, control); err != nil {
		return err
	}
	known, errWho := s.identify(c.Request)
	c.caller = known
	from := originIn(c.Context())
	switch at := c.URL.Path; {
	case at == loginPath:
		return s.login(w, c)
	case at == logoutPath && c.Method == http.MethodPost:
		return s.logout(w, c)
	case static && c.Method != http.MethodPost:
		s.show(w, c, caller{})
	case known.role == roleNone && from.socket:
		return errWho
	case known.role == roleNone:
		return s.sendToLogin(w, c, errWho)
	default:
		s.show(w, c, known)
	}
	return nil
}

// admitPage refuses what no page of ours asks for.
func (s *Server) admitPage(w http.ResponseWriter, c *call, control *http.ResponseController) error {
	if err := s.checkHost(c.Request); err != nil {
		return err
	}
	switch c.Method {
	case http.MethodGet, http.MethodHead:
		return nil
	case http.MethodPost:
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		return &Error{Code: CodeMethod, Message: "a page cannot be asked by " + clip(c.Method), Hint: "use GET or POST"}
	}
	// Cookies and certificates are sent by a browser whoever's page asks it to.
	if err := http.NewCrossOriginProtection().Check(c.Request); err != nil {
		return &Error{Code: CodeForbidden, Message: err.Error(), Hint: "use the dashboard's own page", cause: err}
	}
	_ = control.SetReadDeadline(time.Now().Add(s.opts.RequestTimeout)) // net/http takes it back when the body has ended
	c.Body = http.MaxBytesReader(w, c.Body, maxBody)
	return nil
}

// show has the dashboard answer for a caller. A stream ends with the caller's right,
// and with the server.
func (s *Server) show(w http.ResponseWriter, c *call, as caller) {
	ctx := withCaller(c.Context(), as)
	if isStream(c.Request) && c.Method == http.MethodGet {
		bound, unbind := as.stand.bind(ctx)
		defer unbind()
		bound, unbindEnd := s.running.bind(bound)
		defer unbindEnd()
		ctx = bound
	} else {
		bounded, cancel := context.WithTimeout(ctx, s.opts.RequestTimeout)
		defer cancel()
		ctx = bounded
	}
	s.opts.Dashboard.ServeHTTP(&pacedPage{ResponseWriter: w, control: http.NewResponseController(w), patience: s.opts.StreamTimeout}, c.WithContext(ctx))
}

// pacedPage gives every write its own time, as pacedWriter does.
type pacedPage struct {
	http.ResponseWriter
	control  *http.ResponseController
	patience time.Duration
}

func (p *pacedPage) Write(b []byte) (int, error) {
	if err := p.control.SetWriteDeadline(time.Now().Add(p.patience)); err != nil {
		return 0, err
	}
	return p.ResponseWriter.Write(b)
}

// FlushError sends what was written; a ResponseController asks for it by this name.
func (p *pacedPage) FlushError() error {
	if err := p.control.SetWriteDeadline(time.Now().Add(p.patience)); err != nil {
		return err
	}
	return p.control.Flush()
}

// Flush is FlushError for who knows only http.Flusher.
func (p *pacedPage) Flush() { _ = p.FlushError() }

// Unwrap lets a ResponseController find the connection.
func (p *pacedPage) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// failPage tells an error as text, if the page has not begun; else it cuts it off.
func (s *Server) failPage(w *recorder, err error) {
	if w.status != 0 {
		panic(http.ErrAbortHandler)
	}
	e := asError(err)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(e.status())
	_, _ = fmt.Fprintln(w, e.Error()) // the asker may be gone
}

// pagesURL is where a browser finds the dashboard: at the name that it was asked by, or where it is served.
func (s *Server) pagesURL(r *http.Request) (string, error) {
	if s.opts.Dashboard == nil {
		return "", Unavailable(errors.New("this daemon has no dashboard"), "it may be a single run: start `provision serve`")
	}
	scheme := "http"
	if s.opts.CertFile != "" {
		scheme = "https"
	}
	if from := originIn(r.Context()); !from.socket {
		return scheme + "://" + r.Host, nil
	}
	address := s.Addr()
	if address == nil {
		return "", Unavailable(errors.New("the dashboard is served at no address, only at the daemon's socket"), "give admin.listen a free address, such as 127.0.0.1:9090, and start the daemon anew")
	}
	_, port, err := net.SplitHostPort(address.String())
	if err != nil {
		return "", fmt.Errorf("find the dashboard's address: %w", err)
	}
	return scheme + "://" + net.JoinHostPort(s.pagesHost(), port), nil
}

// pagesHost is the name to reach the address of TCP by: the configured one, unless it is
// every address of the host, or none that the certificate is for.
func (s *Server) pagesHost() string {
	host, _, _ := net.SplitHostPort(s.opts.Listen) // was checked
	everywhere := host == "" || net.ParseIP(host).IsUnspecified()
	if leaf := s.credentials.Load().leaf(); leaf != nil && (everywhere || leaf.VerifyHostname(host) != nil) {
		switch {
		case len(leaf.DNSNames) > 0 && !strings.Contains(leaf.DNSNames[0], "*"):
			return leaf.DNSNames[0]
		case len(leaf.IPAddresses) > 0:
			return leaf.IPAddresses[0].String()
		}
	}
	if !everywhere {
		return host
	}
	name, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return name
}
