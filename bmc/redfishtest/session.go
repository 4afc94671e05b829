package redfishtest

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"
)

type session struct {
	id, token    string
	opened, used time.Time
}

const sessionsPath = "/redfish/v1/SessionService/Sessions"

// authorised tells whether the request has a live token or the right Basic
// credentials; a token wins, as it does in BMCs.
func (s *Service) authorised(r *http.Request) bool {
	if token := r.Header.Get("X-Auth-Token"); token != "" {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.expireSessions()
		for id, live := range s.sessions {
			if subtle.ConstantTimeCompare([]byte(live.token), []byte(token)) == 1 {
				live.used = time.Now()
				s.sessions[id] = live
				return true
			}
		}
		return false
	}
	username, password, ok := r.BasicAuth()
	return ok && s.checkPassword(username, password)
}

// checkPassword counts what it refuses. A locked account is told from a wrong
// password by nobody, as on real BMCs.
func (s *Service) checkPassword(username, password string) bool {
	u := subtle.ConstantTimeCompare([]byte(username), []byte(s.username))
	p := subtle.ConstantTimeCompare([]byte(password), []byte(s.password))
	s.mu.Lock()
	defer s.mu.Unlock()
	if u&p == 1 {
		if s.locked() {
			return false
		}
		s.strikes = 0
		return true
	}
	s.counts.refused++
	s.strikes++
	return false
}

func (s *Service) locked() bool {
	limit := s.config.Lockout
	if limit == 0 {
		limit = s.profile.Session.Lockout
	}
	return limit > 0 && s.strikes >= limit
}

// Locked reports whether the account is locked: too many wrong passwords in a
// row. The right password is refused then as well, until [Service.Unlock]; open
// sessions go on.
func (s *Service) Locked() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.locked()
}

// Unlock opens a locked account, as its administrator would.
func (s *Service) Unlock() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.strikes = 0
}

// expireSessions forgets the sessions that timed out; the lock is held.
func (s *Service) expireSessions() {
	if s.config.SessionTimeout <= 0 {
		return
	}
	now := time.Now()
	maps.DeleteFunc(s.sessions, func(_ string, live session) bool {
		return now.Sub(live.used) > s.config.SessionTimeout
	})
}

func (s *Service) unauthorised() Answer {
	a := fail(http.StatusUnauthorized, s.message("NoValidSession"),
		"There is no valid session established with the implementation.")
	a.Header = map[string]string{"WWW-Authenticate": `Basic realm="Redfish"`}
	return a
}

// login is POST to the sessions collection (DSP0266 13.3.4).
func (s *Service) login(x *exchange) Answer {
	var account struct{ UserName, Password string }
	if err := json.Unmarshal(x.body, &account); err != nil {
		return s.malformed()
	}
	if !s.checkPassword(account.UserName, account.Password) {
		return fail(http.StatusUnauthorized, s.message("ResourceAtUriUnauthorized"),
			"The user name or password is not valid.", sessionsPath)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expireSessions()
	if len(s.sessions) >= s.sessionLimit() {
		if a := s.profile.Session.LimitAnswer; a.given() {
			return a
		}
		return fail(http.StatusServiceUnavailable, s.message("SessionLimitExceeded"),
			"The session establishment failed because the number of simultaneous sessions is at its limit.")
	}
	if s.sessions == nil {
		s.sessions = make(map[string]session)
	}
	s.nextID++
	now := time.Now()
	created := session{id: strconv.Itoa(s.nextID), token: rand.Text(), opened: now, used: now}
	s.sessions[created.id] = created
	s.counts.logins++
	if s.config.RequestLimit >= 0 {
		s.tokens = append(s.tokens, created.token)
	}
	a := found(s.sessionDocument(created.id))
	a.Status = http.StatusCreated
	a.Header = map[string]string{"X-Auth-Token": created.token, "Location": sessionsPath + "/" + created.id}
	return a
}

func (s *Service) sessionLimit() int {
	for _, limit := range []int{s.config.SessionLimit, s.profile.Session.Limit} {
		if limit > 0 {
			return limit
		}
	}
	return 16
}

func (s *Service) sessionDocument(id string) Document {
	return Document{
		"@odata.id": sessionsPath + "/" + id, "@odata.type": "#Session.v1_1_0.Session",
		"Id": id, "Name": "User Session", "UserName": s.username,
	}
}

func (s *Service) getSessions(*exchange) Answer {
	s.mu.Lock()
	ids := slices.Sorted(maps.Keys(s.sessions))
	s.mu.Unlock()
	paths := make([]string, len(ids))
	for i, id := range ids {
		paths[i] = sessionsPath + "/" + id
	}
	return found(collection(sessionsPath, "SessionCollection", paths))
}

func (s *Service) getSession(x *exchange) Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.sessions[x.id]; !ok {
		return s.notFound(x)
	}
	return found(s.sessionDocument(x.id))
}

func (s *Service) deleteSession(x *exchange) Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.sessions[x.id]; !ok {
		return s.notFound(x)
	}
	delete(s.sessions, x.id)
	return orNoContent(s.profile.Session.Deleted)
}

// Tokens lists every session token that was handed out, oldest first: a test
// looks for them where they must not be. None is kept when [Config].RequestLimit
// is negative.
func (s *Service) Tokens() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.tokens...)
}

// DropSessions forgets every session, as a restart of the BMC does.
func (s *Service) DropSessions() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.sessions)
}
