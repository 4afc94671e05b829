package web

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
)

// originKey is the context's key of a connection's origin.
type originKey struct{}

func originIn(ctx context.Context) origin {
	from, _ := ctx.Value(originKey{}).(origin)
	return from
}

// origin is what a connection tells of its other end before it says anything.
type origin struct {
	socket   bool // the unix socket
	uid      int  // of the process at the other end of the socket
	loopback bool // TCP that is served on loopback
}

// originOf asks the kernel who is at the other end of a connection.
func (s *Server) originOf(c net.Conn) origin {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	unix, ok := c.(*net.UnixConn)
	if !ok {
		return origin{loopback: s.loopback}
	}
	uid, err := peerUID(unix)
	if err != nil {
		uid = -1 // nobody's
	}
	return origin{socket: true, uid: uid}
}

// identify says who asks. The error tells how to be known. What was given on purpose,
// a token or a login, counts before a certificate that is always sent. A caller with
// a session is let go by leave.
func (s *Server) identify(r *http.Request) (caller, error) {
	from := originIn(r.Context())
	if from.socket {
		who := s.userName(from.uid)
		// The file's mode keeps others off already; a mode can be changed.
		if from.uid != os.Getuid() && from.uid != 0 {
			return caller{who: who}, &Error{
				Code: CodeForbidden, Message: "the socket is for the user that the daemon runs as", Hint: "run the command as that user, or use --server with a token",
			}
		}
		return caller{role: roleAdmin, who: who}, nil
	}
	creds := s.credentials.Load()
	if scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " "); scheme != "" {
		if known, ok := creds.bearer(given); ok && strings.EqualFold(scheme, "Bearer") {
			return known, nil
		}
		return caller{}, &Error{Code: CodeUnauthorized, Message: "the token is not one of the daemon's", Hint: "give the daemon's token; it reads its token files at its start and on a reload"}
	}
	if id := sessionID(r); id != "" {
		if b := s.sessions.enter(id); b != nil {
			return caller{role: b.role, who: b.who, stand: b.stand, session: b}, nil
		}
	}
	if known, ok, err := s.certified(r, creds); ok || err != nil {
		return known, err
	}
	if from.loopback && s.opts.InsecureLoopback {
		return caller{role: roleAdmin, who: "loopback"}, nil
	}
	return caller{}, &Error{Code: CodeUnauthorized, Message: "there is neither a token nor a client certificate", Hint: s.howToBeKnown()}
}

// bearer finds whose token it is.
func (c *credentials) bearer(given string) (caller, bool) {
	// Both are compared, whichever it is.
	admin, reader := c.admin.is(given), c.reader.is(given)
	switch {
	case admin:
		return caller{role: roleAdmin, who: "token", stand: c.admin.stand}, true
	case reader:
		return caller{role: roleRead, who: "read token", stand: c.reader.stand}, true
	}
	return caller{}, false
}

// leave lets go of the caller's session at the end of a call.
func (c *call) leave(s *Server) {
	if c.caller.session != nil {
		s.sessions.leave(c.caller.session)
	}
}

// howToBeKnown fits how the daemon was started.
func (s *Server) howToBeKnown() string {
	if s.opts.TokenFile == "" && s.opts.ReadTokenFile == "" && s.opts.ClientCAFile == "" {
		return "the daemon has no token file: give it one, or use its socket on its host"
	}
	return "give a token file or a client certificate, or use the daemon's socket on its host"
}

// hostAllowed says whether a request is meant for this server: on loopback, a
// page of any site could otherwise be made to ask us under that site's name.
func (s *Server) hostAllowed(r *http.Request) bool {
	from := originIn(r.Context())
	if from.socket || !from.loopback {
		return true
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	if isLoopbackHost(host) {
		return true
	}
	for _, name := range s.opts.Hosts {
		if strings.EqualFold(host, name) {
			return true
		}
	}
	return false
}

// checkHost says what to do about a name that is not ours.
func (s *Server) checkHost(r *http.Request) error {
	if s.hostAllowed(r) {
		return nil
	}
	return &Error{Code: CodeForbidden, Message: fmt.Sprintf("the name %q is not one of this server", r.Host), Hint: "ask for 127.0.0.1 or localhost"}
}
