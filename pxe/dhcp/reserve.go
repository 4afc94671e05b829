package dhcp

import (
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// SetReservations puts other reservations, in the form of Options.Reservations,
// in place of the present ones; it may be called at any time. They are checked
// as a whole as in New: after an error nothing has changed.
//
// Leases are kept. An address that somebody else holds goes to the machine that
// it is now reserved for when that lease ends or its holder asks to renew it. A
// machine whose reservation went away keeps its address until the lease ends,
// without more time at a renewal; then it gets one of the range. In ModeProxy
// there are no reservations and nothing happens.
func (s *Server) SetReservations(reservations map[string]netip.Addr) error {
	o := s.engine.options // never written after New
	if o.Mode == ModeProxy {
		return nil
	}
	o.Reservations = reservations
	fixed, err := o.reservations()
	if err != nil {
		return fmt.Errorf("replace the DHCP reservations: %w", err)
	}
	owners := ownersOf(fixed)
	s.work.Lock()
	defer s.work.Unlock()
	s.engine.table.reserve(fixed, owners, o.Now())
	return nil
}

func ownersOf(fixed map[key]netip.Addr) map[netip.Addr]key {
	owners := make(map[netip.Addr]key, len(fixed))
	for k, ip := range fixed {
		owners[ip] = k
	}
	return owners
}

// reserve replaces the reservations. Addresses that are reserved no longer go
// back to their pools, and offers that no longer hold are taken back: nobody
// uses an address that was only offered.
func (t *table) reserve(fixed map[key]netip.Addr, owners map[netip.Addr]key, now time.Time) {
	var loose []netip.Addr
	for ip := range t.owners {
		if _, reserved := owners[ip]; !reserved {
			loose = append(loose, ip)
		}
	}
	slices.SortFunc(loose, netip.Addr.Compare) // equal tables give equal decisions
	t.fixed, t.owners = fixed, owners
	for _, ip := range loose {
		// When somebody still holds it, the pool passes it over until sweep frees it.
		t.pools[subnetIndex(t.subnets, ip)].free(ip)
	}
	var void []*binding
	for _, b := range t.byIP {
		if !b.acked && !t.available(b.key, b.ip, now) {
			void = append(void, b)
		}
	}
	slices.SortFunc(void, func(a, b *binding) int { return a.ip.Compare(b.ip) })
	for _, b := range void {
		t.remove(b)
	}
}

// leaving is what is left of a client's lease of an address that it may use
// until the lease ends and not longer: one outside the range, which was reserved
// for it before. It is 0 for any other address and when less than a second is
// left, which a reply cannot say.
func (t *table) leaving(k key, ip netip.Addr, now time.Time) time.Duration {
	b := t.byKey[k]
	if b == nil || b.ip != ip || !b.acked {
		return 0
	}
	_, reserved := t.fixed[k]
	if reserved || t.pools[k.subnet].contains(ip) || t.pools[k.subnet].excludes(ip) {
		return 0
	}
	if left := b.until.Sub(now); left >= time.Second {
		return left
	}
	return 0
}

// bounded gives the client no more time than is left of a lease that ends.
func (e *engine) bounded(x exchange, ip netip.Addr) exchange {
	if left := e.table.leaving(x.key, ip, x.now); left > 0 {
		x.subnet.Lease = min(x.subnet.Lease, left)
	}
	return x
}
