package web

import (
	"context"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	loginPath  = "/login"
	logoutPath = "/logout"
	// maxLogin bounds the form of a login.
	maxLogin = 16 << 10
)

// cookieName fits the connection: a browser takes a name with __Host- over TLS only,
// for this host and no other.
func cookieName(r *http.Request) string {
	if r.TLS != nil {
		return "__Host-provision_session"
	}
	return "provision_session"
}

// sessionID is what the browser's cookie holds; "" without one.
func sessionID(r *http.Request) string {
	cookie, err := r.Cookie(cookieName(r))
	if err != nil {
		return ""
	}
	return cookie.Value
}

// setCookie gives the browser its session until it is closed; with an empty id it forgets it.
func setCookie(w http.ResponseWriter, r *http.Request, id string) {
	cookie := &http.Cookie{
		Name: cookieName(r), Value: id, Path: "/", HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode,
	}
	if id == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(w, cookie)
}

// login lets a browser in by a ticket or a token, or shows the page that asks for one.
func (s *Server) login(w http.ResponseWriter, c *call) error {
	switch {
	case c.Method == http.MethodPost:
		return s.loginByToken(w, c)
	case c.Method == http.MethodGet && c.URL.Query().Has("ticket"):
		return s.loginByTicket(w, c)
	}
	s.show(w, c, caller{})
	return nil
}

func (s *Server) loginByToken(w http.ResponseWriter, c *call) error {
	c.Body = http.MaxBytesReader(w, c.Body, maxLogin)
	if err := c.ParseForm(); err != nil {
		return Invalid(fmt.Errorf("read the login: %w", err), "fill in the form of the login page")
	}
	given, next := strings.TrimSpace(c.PostForm.Get("token")), localPath(c.PostForm.Get("next"))
	if wait, ok := s.attempts.take(sourceOf(c.RemoteAddr)); !ok {
		wait = wait.Truncate(time.Second) + time.Second
		w.Header().Set("Retry-After", fmt.Sprint(int(wait.Seconds())))
		return s.refuseLogin(w, c, http.StatusTooManyRequests, next, fmt.Sprintf("There were too many logins from this address: wait %s and try again.", wait))
	}
	creds := s.credentials.Load()
	known, ok := creds.bearer(given)
	switch {
	case ok:
		c.caller = known
		s.signIn(w, c, known.role, known.who, known.stand)
		http.Redirect(w, c.Request, next, http.StatusSeeOther)
		return nil
	case creds.admin == nil && creds.reader == nil:
		return s.refuseLogin(w, c, http.StatusUnauthorized, next, "The daemon has no token. Run `provision dashboard` on its host: it prints a link that signs you in.")
	}
	return s.refuseLogin(w, c, http.StatusUnauthorized, next, "This is not the daemon's token. Give what its token file holds, or run `provision dashboard` on its host for a link that signs you in.")
}

func (s *Server) loginByTicket(w http.ResponseWriter, c *call) error {
	k, ok := s.tickets.take(c.URL.Query().Get("ticket"))
	next := localPath(c.URL.Query().Get("next"))
	if !ok {
		return s.refuseLogin(w, c, http.StatusUnauthorized, next, "This link was used already, or is older than a minute. Run `provision dashboard` again for a new one.")
	}
	c.caller = caller{role: k.role, who: k.who}
	s.signIn(w, c, k.role, k.who, k.from)
	s.opts.Log.Info("a browser was let in by a login link", "by", k.who, "from", c.RemoteAddr, "mayAct", k.role == roleAdmin)
	if crossSite(c.Request) {
		// A browser would leave the cookie out where a page of another site sends it on.
		bounce(w, next)
		return nil
	}
	http.Redirect(w, c.Request, next, http.StatusSeeOther)
	return nil
}

// signIn begins a session, in the place of the browser's old one.
func (s *Server) signIn(w http.ResponseWriter, c *call, role role, who string, from *standing) {
	if old := sessionID(c.Request); old != "" {
		s.sessions.end(old)
	}
	setCookie(w, c.Request, s.sessions.begin(role, who, from))
}

// refuseLogin has the dashboard show the login page again, with what went wrong. The
// form, and the token in it, stay here.
func (s *Server) refuseLogin(w http.ResponseWriter, c *call, status int, next, why string) error {
	again := c.Clone(context.WithValue(c.Context(), loginErrorKey{}, why))
	again.Method, again.Body, again.ContentLength = http.MethodGet, http.NoBody, 0
	again.Form, again.PostForm, again.MultipartForm = nil, nil, nil
	again.Header.Del("Content-Type")
	again.Header.Del("Content-Length")
	again.URL = &url.URL{Path: loginPath, RawQuery: url.Values{"next": {next}}.Encode()}
	again.RequestURI = again.URL.RequestURI()
	c.denied = &Error{Code: CodeUnauthorized, Message: why}
	s.show(&refusal{w, status}, &call{Request: again}, caller{})
	return nil
}

// refusal is a page that is sent with another status than 200.
type refusal struct {
	http.ResponseWriter
	status int
}

func (r *refusal) WriteHeader(status int) {
	if status == http.StatusOK {
		status = r.status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *refusal) Write(b []byte) (int, error) {
	r.WriteHeader(r.status) // only the first one counts
	return r.ResponseWriter.Write(b)
}

// Unwrap lets a ResponseController find the connection.
func (r *refusal) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (s *Server) logout(w http.ResponseWriter, c *call) error {
	if id := sessionID(c.Request); id != "" {
		s.sessions.end(id)
	}
	setCookie(w, c.Request, "")
	http.Redirect(w, c.Request, loginPath, http.StatusSeeOther)
	return nil
}

// sendToLogin answers who is not known, in the form that the asker can use.
func (s *Server) sendToLogin(w http.ResponseWriter, c *call, why error) error {
	switch {
	case c.Header.Get("Hx-Request") == "true": // a part of a page that is loaded by htmx
		current, _ := url.Parse(c.Header.Get("Hx-Current-Url"))
		if current == nil {
			current = &url.URL{Path: "/"}
		}
		w.Header().Set("Hx-Redirect", loginURL(current.RequestURI()))
		return why
	case isStream(c.Request):
		return why
	case c.Method == http.MethodPost:
		http.Redirect(w, c.Request, loginPath, http.StatusSeeOther)
	case crossSite(c.Request) && sessionID(c.Request) == "":
		// The cookie, if there is one, is not sent with a link on another site's page: ask once more.
		bounce(w, c.URL.RequestURI())
	default:
		http.Redirect(w, c.Request, loginURL(c.URL.RequestURI()), http.StatusSeeOther)
	}
	return nil
}

func loginURL(next string) string {
	if next = localPath(next); next == "/" {
		return loginPath
	}
	return loginPath + "?" + url.Values{"next": {next}}.Encode()
}

// localPath is a path of this server to go on at after a login; what could lead
// anywhere else is the first page.
func localPath(next string) string {
	u, err := url.Parse(next)
	switch {
	case err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || u.Opaque != "",
		!strings.HasPrefix(next, "/"), strings.HasPrefix(next, "//"),
		strings.ContainsFunc(next, func(r rune) bool { return r == '\\' || r <= ' ' || r == 0x7f }),
		strings.HasPrefix(u.Path, "//"), strings.Contains(u.Path, `\`), u.Path == loginPath, u.Path == logoutPath:
		return "/"
	}
	u.Fragment = ""
	return u.RequestURI()
}

// crossSite says that a page of another site led the browser here.
func crossSite(r *http.Request) bool { return r.Header.Get("Sec-Fetch-Site") == "cross-site" }

// bounce has the browser ask for a local path by itself, so that it sends its cookie.
func bounce(w http.ResponseWriter, path string) {
	path = html.EscapeString(path)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = fmt.Fprintf(w, `<!DOCTYPE html><html lang="en"><title>provision</title><meta http-equiv="refresh" content="0;url=%s"><p><a href="%s">Go on</a></p></html>`, path, path)
}
