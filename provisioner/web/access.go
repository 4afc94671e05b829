package web

import (
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
)

// role is what somebody may do.
type role int

// The roles, each may do what the ones before it may.
const (
	roleNone  role = iota // ask whether the daemon is up
	roleRead              // look
	roleAdmin             // everything
)

// caller is who asks, as far as it is known. who is for logs: it is no secret.
type caller struct {
	role role
	who  string
}

// originKey is the context's key of a connection's origin.
type originKey struct{}

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

// identify says who asks. The error tells how to be known.
func (s *Server) identify(r *http.Request) (caller, error) {
	from, _ := r.Context().Value(originKey{}).(origin)
	if from.socket {
		// The file's mode keeps others off already; a mode can be changed.
		if from.uid != os.Getuid() && from.uid != 0 {
			return caller{who: "uid " + strconv.Itoa(from.uid)}, &Error{
				Code: CodeForbidden, Message: "the socket is for the user that the daemon runs as", Hint: "run the command as that user, or use --server with a token",
			}
		}
		return caller{roleAdmin, "uid " + strconv.Itoa(from.uid)}, nil
	}
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		return caller{roleAdmin, "certificate " + r.TLS.VerifiedChains[0][0].Subject.CommonName}, nil
	}
	creds := s.credentials.Load()
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	switch bearer := strings.EqualFold(scheme, "Bearer"); {
	case bearer && creds.admin.is(given):
		return caller{roleAdmin, "token"}, nil
	case bearer && creds.reader.is(given):
		return caller{roleRead, "read token"}, nil
	case scheme != "":
		return caller{}, &Error{Code: CodeUnauthorized, Message: "the token is not one of the daemon's", Hint: "give the daemon's token; it reads its token files at its start and on a reload"}
	case from.loopback && s.opts.InsecureLoopback:
		return caller{roleAdmin, "loopback"}, nil
	}
	return caller{}, &Error{Code: CodeUnauthorized, Message: "there is neither a token nor a client certificate", Hint: s.howToBeKnown()}
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
	from, _ := r.Context().Value(originKey{}).(origin)
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
