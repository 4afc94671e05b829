package httpboot

import (
	"net/netip"
	"sync"
)

// perSource is how many bulk transfers one address gets while less than half of
// all are free. A machine loads one file at a time; more come from several
// machines behind one address, or from somebody who means harm.
const perSource = 4

// admission bounds the kernels and initramfs files that are sent at one time, so
// that those under way get there: a link shared by hundreds of machines makes
// every one of them slow enough to fail.
type admission struct {
	most int // 0 for no bound

	mu      sync.Mutex
	total   int
	sources map[netip.Addr]int
}

func newAdmission(most int) *admission {
	return &admission{most: most, sources: map[netip.Addr]int{}}
}

// enter asks for a slot, to be given back by leave.
func (a *admission) enter(source netip.Addr) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.most > 0 {
		scarce := a.total >= (a.most+1)/2
		if a.total >= a.most || (scarce && a.sources[source] >= perSource) {
			return false
		}
	}
	a.total++
	a.sources[source]++
	return true
}

func (a *admission) leave(source netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.total--
	if a.sources[source]--; a.sources[source] <= 0 {
		delete(a.sources, source)
	}
}
