package dhcp

import (
	"net/netip"
	"slices"
)

// pool deals out the addresses of one subnet's range: first those never used,
// in order, then those freed longest ago. A machine that was switched off for a
// while therefore keeps its address as long as there are others.
type pool struct {
	first, last netip.Addr
	cursor      netip.Addr // first address never dealt; invalid when all were
	taken       []netip.Addr
	queue       []netip.Addr // freed, oldest first; may hold addresses in use again
	queued      map[netip.Addr]bool
}

// newPool excludes the addresses that belong to the network itself, its gateway and its servers.
func newPool(s Subnet, taken []netip.Addr) *pool {
	return &pool{
		first: s.First, last: s.Last, cursor: s.First,
		taken:  append(slices.Clone(taken), s.CIDR.Addr(), s.broadcast(), s.Gateway),
		queued: map[netip.Addr]bool{},
	}
}

// contains reports whether the pool may deal the address.
func (p *pool) contains(ip netip.Addr) bool {
	return p.first.IsValid() && !ip.Less(p.first) && !p.last.Less(ip) && !p.excludes(ip)
}

// excludes reports whether the address belongs to the network itself, its gateway or its servers.
func (p *pool) excludes(ip netip.Addr) bool { return slices.Contains(p.taken, ip) }

// next deals an address for which usable reports true; every address that it
// refuses comes back by free when it becomes usable.
func (p *pool) next(usable func(netip.Addr) bool) (netip.Addr, bool) {
	for p.cursor.IsValid() {
		ip := p.cursor
		p.cursor = ip.Next()
		if ip == p.last {
			p.cursor = netip.Addr{}
		}
		if !p.queued[ip] && usable(ip) {
			return ip, true
		}
	}
	for len(p.queue) > 0 {
		ip := p.queue[0]
		p.queue = p.queue[1:]
		delete(p.queued, ip)
		if usable(ip) {
			return ip, true
		}
	}
	return netip.Addr{}, false
}

// free takes an address back.
func (p *pool) free(ip netip.Addr) {
	if !p.contains(ip) || p.queued[ip] {
		return
	}
	p.queued[ip] = true
	p.queue = append(p.queue, ip)
}
