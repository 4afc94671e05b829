package redfishtest

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
)

type session struct{ id, token string }

const sessionsPath = "/redfish/v1/SessionService/Sessions"

// authorised tells whether the request has a live token or the right Basic
// credentials; a token wins, as it does in BMCs.
func (s *Service) authorised(r *http.Request) bool {
	if token := r.Header.Get("X-Auth-Token"); token != "" {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, live := range s.sessions {
			if subtle.ConstantTimeCompare([]byte(live.token), []byte(token)) == 1 {
				return true
			}
		}
		return false
	}
	username, password, ok := r.BasicAuth()
	return ok && s.checkPassword(username, password)
}

// checkPassword counts what it refuses.
func (s *Service) checkPassword(username, password string) bool {
	u := subtle.ConstantTimeCompare([]byte(username), []byte(s.username))
	p := subtle.ConstantTimeCompare([]byte(password), []byte(s.password))
	if u&p == 1 {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.refused++
	return false
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
	created := session{id: strconv.Itoa(s.nextID), token: rand.Text()}
	s.sessions[created.id] = created
	s.counts.logins++
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

// DropSessions forgets every session, as a restart of the BMC does.
func (s *Service) DropSessions() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.sessions)
}
