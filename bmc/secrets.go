package bmc

import (
	"encoding/base64"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// redacted stands in logs, errors and traces where a secret was.
const redacted = "[redacted]"

// secrets are the words that must leave the process in the requests to their BMC
// and nowhere else (I9): the password, its Basic form, and every session token
// seen, since a BMC may echo an old one.
type secrets struct {
	mu    sync.RWMutex
	words []string // the longest first, so that no part of one is left over
}

func newSecrets(username, password string) *secrets {
	s := &secrets{}
	s.learn(password)
	s.learn(base64.StdEncoding.EncodeToString([]byte(username + ":" + password)))
	if quoted, err := json.Marshal(password); err == nil {
		s.learn(strings.Trim(string(quoted), `"`))
	}
	return s
}

// learn adds a secret; what is known already is not added again.
func (s *secrets) learn(word string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if word == "" || slices.Contains(s.words, word) {
		return
	}
	s.words = append(s.words, word)
	slices.SortStableFunc(s.words, func(a, b string) int { return len(b) - len(a) })
}

// scrub takes the secrets out of a text that a BMC had a hand in: some echo what
// they were sent.
func (s *secrets) scrub(text string) string {
	if s == nil {
		return text
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, word := range s.words {
		text = strings.ReplaceAll(text, word, redacted)
	}
	return text
}

// sessionID is the end of a session's address, up to the end of the URL.
var sessionID = regexp.MustCompile(`(?i)(/sessions/)[^"'\s<>]+`)

// safePath hides the ends of sessions' addresses in a text, because some BMCs
// make the token part of them.
func safePath(text string) string { return sessionID.ReplaceAllString(text, "${1}"+redacted) }
