package web

import (
	"errors"
	"sync"
	"time"
)

const (
	// ticketLife is how long a login link can be used: long enough to click on it.
	ticketLife = time.Minute
	// maxTickets bounds how many links wait to be used.
	maxTickets = 256
)

// ticket lets one browser in, once.
type ticket struct {
	role    role
	who     string
	from    *standing // of who asked for it
	expires time.Time
}

// tickets are the login links that nobody has used yet.
type tickets struct {
	mu     sync.Mutex
	byHash map[secretHash]ticket
}

func newTickets() *tickets { return &tickets{byHash: map[secretHash]ticket{}} }

// add makes a ticket; only its hash is kept.
func (t *tickets) add(role role, c caller) (secret string, expires time.Time, err error) {
	secret, now := newSecret(), time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	for hash, old := range t.byHash {
		if !now.Before(old.expires) {
			delete(t.byHash, hash)
		}
	}
	if len(t.byHash) >= maxTickets {
		return "", time.Time{}, &Error{Code: CodeTooMany, Message: "many login links wait to be used already", Hint: "use one of them, or wait a minute"}
	}
	expires = now.Add(ticketLife)
	t.byHash[hashSecret(secret)] = ticket{role: role, who: c.who, from: c.stand, expires: expires}
	return secret, expires, nil
}

// take uses a ticket up.
func (t *tickets) take(secret string) (ticket, bool) {
	hash := hashSecret(secret)
	t.mu.Lock()
	defer t.mu.Unlock()
	k, found := t.byHash[hash]
	delete(t.byHash, hash)
	return k, found && time.Now().Before(k.expires) && !k.from.ended()
}

// LoginLink lets one browser in, once.
type LoginLink struct {
	// URL is the whole address. It is a secret until it was used.
	URL string `json:"url"`
	// Role is what the browser may do: read or admin.
	Role string `json:"role"`
	// Expires is when the link is of no use any more; the session that it begins has its own time.
	Expires time.Time `json:"expires"`
}

// loginRequest is the body of POST /logins.
type loginRequest struct {
	Role string `json:"role"` // read or admin; required
}

// newLogin makes a login link. A session cannot: it would go on for ever by making the next one.
func (s *Server) newLogin(c *call) (any, error) {
	var r loginRequest
	if err := decode(c.body, &r); err != nil {
		return nil, err
	}
	roles := map[string]role{"read": roleRead, "admin": roleAdmin}
	granted, known := roles[r.Role]
	if !known {
		return nil, Invalid(errors.New("the role must be read or admin"), "")
	}
	c.note("role", r.Role)
	if c.caller.session != nil {
		return nil, &Error{Code: CodeForbidden, Message: "a session of the dashboard makes no login links", Hint: "run `provision dashboard` on the daemon's host, or use a token"}
	}
	base, err := s.pagesURL(c.Request)
	if err != nil {
		return nil, err
	}
	secret, expires, err := s.tickets.add(granted, c.caller)
	if err != nil {
		return nil, err
	}
	return LoginLink{URL: base + "/login?ticket=" + secret, Role: r.Role, Expires: expires.UTC()}, nil
}
