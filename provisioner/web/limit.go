package web

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

const (
	// loginBurst is how many logins one source may try at once, loginPause how long it
	// waits for each further one.
	loginBurst = 10
	loginPause = 6 * time.Second
	// maxSources bounds how many sources are told apart.
	maxSources = 4096
)

// attempts bounds how often a source may try to log in. Nothing is locked: who has
// the right token and comes from elsewhere, or waits, gets in.
type attempts struct {
	mu      sync.Mutex
	sources map[string]time.Time // when a source will have all its attempts again
}

func newAttempts() *attempts { return &attempts{sources: map[string]time.Time{}} }

// take uses up one attempt; false when there is none, with the time until there is one.
func (a *attempts) take(source string) (wait time.Duration, ok bool) {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	full, known := a.sources[source]
	if !known && len(a.sources) >= maxSources {
		a.forget(now)
		if len(a.sources) >= maxSources {
			source = "" // the rest of the world together
			full = a.sources[source]
		}
	}
	if full.Before(now) {
		full = now
	}
	full = full.Add(loginPause)
	if over := full.Sub(now) - loginBurst*loginPause; over > 0 {
		return over, false
	}
	a.sources[source] = full
	return 0, true
}

// forget lets sources go that have all their attempts.
func (a *attempts) forget(now time.Time) {
	for source, full := range a.sources {
		if full.Before(now) {
			delete(a.sources, source)
		}
	}
}

// sourceOf is what counts as one asker: an IPv4 address, or the network of an IPv6 one.
func sourceOf(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return "socket"
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	if ip = ip.Unmap().WithZone(""); ip.Is4() {
		return ip.String()
	}
	network, _ := ip.Prefix(64) // 64 fits IPv6
	return network.String()
}
