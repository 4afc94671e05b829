package web

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"sync"
	"time"
)

// maxSessions bounds how many sessions are kept: the one that was used least recently goes.
const maxSessions = 1024

// secretHash is what is kept of a session's id or of a ticket: who reads our memory has neither.
type secretHash [sha256.Size]byte

func hashSecret(text string) secretHash { return sha256.Sum256([]byte(text)) }

// newSecret is 256 random bits, as text that a cookie and a URL take.
func newSecret() string {
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // never fails
	return base64.RawURLEncoding.EncodeToString(raw)
}

// session is a browser that has signed in.
type session struct {
	hash  secretHash
	role  role
	who   string
	stand *standing
	begun time.Time

	// Under the lock of sessions.
	used  time.Time // when its last request ended
	open  int       // requests under way, such as a page that is followed
	timer *time.Timer
}

// sessions are the browsers that have signed in. A session ends after its life,
// when it was not used for the idle time, with what it comes from, and by logout.
type sessions struct {
	life, idle time.Duration

	mu     sync.Mutex
	byHash map[secretHash]*session
}

func newSessions(life, idle time.Duration) *sessions {
	return &sessions{life: life, idle: idle, byHash: map[secretHash]*session{}}
}

// begin makes a session that ends with what it comes from, and its id, which is kept nowhere.
func (s *sessions) begin(role role, who string, from *standing) (id string) {
	id = newSecret()
	now := time.Now()
	b := &session{hash: hashSecret(id), role: role, who: who, stand: newStanding(from), begun: now, used: now}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.byHash) >= maxSessions {
		s.dropOldest()
	}
	s.byHash[b.hash] = b
	b.timer = time.AfterFunc(min(s.life, s.idle), func() { s.look(b) })
	return id
}

func (s *sessions) dropOldest() {
	var oldest *session
	for _, b := range s.byHash {
		if oldest == nil || b.used.Before(oldest.used) {
			oldest = b
		}
	}
	s.drop(oldest)
}

// drop ends a session. The lock is held.
func (s *sessions) drop(b *session) {
	b.timer.Stop()
	b.stand.end()
	delete(s.byHash, b.hash)
}

// look ends a session whose time is over, or comes back when it may be.
func (s *sessions) look(b *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byHash[b.hash] != b {
		return
	}
	left := s.left(b)
	if left <= 0 {
		s.drop(b)
		return
	}
	b.timer.Reset(left)
}

// left is how long a session has at least. One with a request under way is not idle.
func (s *sessions) left(b *session) time.Duration {
	life := s.life - time.Since(b.begun)
	if b.open > 0 {
		return min(life, s.idle)
	}
	return min(life, s.idle-time.Since(b.used))
}

// enter finds the session of an id for the time of a request, at whose end leave is
// called; nil when there is none.
func (s *sessions) enter(id string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.byHash[hashSecret(id)]
	if b == nil {
		return nil
	}
	if b.stand.ended() || s.left(b) <= 0 {
		s.drop(b)
		return nil
	}
	b.open++
	return b
}

func (s *sessions) leave(b *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b.open--
	b.used = time.Now()
	if s.byHash[b.hash] == b && b.open == 0 {
		b.timer.Reset(max(s.left(b), 0))
	}
}

// end ends a session by its id, if there is one.
func (s *sessions) end(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.byHash[hashSecret(id)]; b != nil {
		s.drop(b)
	}
}

// endAll ends every session, and every timer.
func (s *sessions) endAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.byHash {
		s.drop(b)
	}
}
