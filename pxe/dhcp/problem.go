package dhcp

import (
	"net/netip"
	"sync"
	"time"
)

// ProblemKind sorts problems.
type ProblemKind string

// The problems.
const (
	// PoolExhausted: no address was left for a client.
	PoolExhausted ProblemKind = "pool exhausted"
	// ReservationBlocked: another machine uses a reserved address.
	ReservationBlocked ProblemKind = "reservation blocked"
	// AddressInUse: a client found its address in use and declined it.
	AddressInUse ProblemKind = "address in use"
	// RivalServer: another DHCP server answers on the network, or a client took
	// its offer. IP is that server.
	RivalServer ProblemKind = "rival DHCP server"
	// BootLoop: a machine loads iPXE again and again and never gets to a script.
	BootLoop ProblemKind = "boot loop"
	// UnknownSubnet: a relay forwards from a network that is not configured.
	UnknownSubnet ProblemKind = "unknown subnet"
	// UnsupportedArch: firmware of an architecture that cannot boot Talos asked.
	UnsupportedArch ProblemKind = "unsupported architecture"
	// LeaseFileFailed: leases cannot be written, so nothing is confirmed.
	LeaseFileFailed ProblemKind = "lease file failed"
)

// Problem is something that a person should look at.
type Problem struct {
	Kind ProblemKind
	// MAC is the client concerned, empty when none is.
	MAC string
	// IP is the address concerned: of the client, server or network by kind.
	IP netip.Addr
	// Message is a sentence with what to do.
	Message string
}

// reporter lets one problem through once a minute, so that a client that asks
// every second does not fill the log.
type reporter struct {
	mu    sync.Mutex
	last  map[Problem]time.Time
	swept time.Time
}

const (
	reportEvery = time.Minute
	// mostReports bounds the memory that a flood of invented clients can take.
	mostReports = 1024
)

// due reports whether the problem is to be reported now.
func (r *reporter) due(p Problem, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	p.Message = ""
	if p.Kind == PoolExhausted || p.Kind == RivalServer {
		p.MAC = "" // one report for the subnet or server, not one for each client
	}
	if last, seen := r.last[p]; seen && now.Sub(last) < reportEvery {
		return false
	}
	if len(r.last) >= mostReports && !r.sweep(now) {
		return false
	}
	if r.last == nil {
		r.last = map[Problem]time.Time{}
	}
	r.last[p] = now
	return true
}

// sweep forgets what may be reported again and says whether that made room. It
// looks once a second at most: in a flood it would cost more than the answers.
func (r *reporter) sweep(now time.Time) bool {
	if since := now.Sub(r.swept); since >= 0 && since < time.Second {
		return false
	}
	r.swept = now
	for old, at := range r.last {
		if now.Sub(at) >= reportEvery {
			delete(r.last, old)
		}
	}
	return len(r.last) < mostReports
}
