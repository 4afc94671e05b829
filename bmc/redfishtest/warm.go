package redfishtest

import "time"

// WarmReset is for a machine whose own system resets it: it returns what the
// firmware finds when it starts over. An override that counts once is used up by
// it; power state, counters and requests of the service do not change. Vendors
// whose override does not act on a soft restart keep it.
func (s *Service) WarmReset() Boot {
	boot, _ := s.takeBoot(true, false)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onAt = time.Now()
	return boot
}
