package dhcp

import (
	"net/netip"
	"time"
)

// record is one line of the lease file.
type record struct {
	MAC   string // raw bytes; empty when Bad
	IP    netip.Addr
	Until int64 // end of the lease in Unix seconds; 0 forgets the lease
	Bad   bool  // a client found the address in use: nobody gets it until then
}

// restore replays a lease file, oldest record first. Leases of networks that
// are no longer configured are dropped. A lease whose address is now reserved
// for another machine is kept until it ends: its holder still uses the address.
func (t *table) restore(records []record) {
	for _, r := range records {
		subnet := subnetIndex(t.subnets, r.IP)
		if subnet < 0 {
			continue
		}
		k := key{subnet, r.MAC}
		switch {
		case r.Bad:
			t.avoid(r.IP, time.Unix(r.Until, 0))
		case r.Until != 0:
			b := t.bind(k, r.IP)
			b.acked, b.saved = true, r.Until
			t.extend(b, time.Unix(r.Until, 0))
		default:
			if b := t.byIP[r.IP]; b != nil && b.key == k {
				t.remove(b)
			}
		}
	}
	t.changes = nil
}

// records is the whole table as a lease file holds it.
func (t *table) records() []record {
	all := make([]record, 0, len(t.byIP)+len(t.bad))
	for _, b := range t.byIP {
		if b.acked {
			all = append(all, b.record())
		}
	}
	for ip, until := range t.bad {
		all = append(all, record{IP: ip, Until: until.Unix(), Bad: true})
	}
	return all
}

// record is the binding as a lease file holds it.
func (b *binding) record() record {
	until := b.saved
	if until == 0 {
		until = unixSeconds(b.until)
	}
	return record{MAC: b.key.mac, IP: b.ip, Until: until}
}

// unsave marks bindings whose records did not reach the lease file, so that
// the next confirmation writes them again.
func (t *table) unsave(records []record) {
	for _, r := range records {
		if b := t.byIP[r.IP]; b != nil && b.key.mac == r.MAC {
			b.saved = 0
		}
	}
}
