package dhcp

import (
	"container/heap"
	"net/netip"
	"time"
)

// key names a client in one subnet. The hardware address alone decides: ROM,
// iPXE and Talos send three different client ids from one machine (matchbox#245).
type key struct {
	subnet int
	mac    string // raw bytes
}

// binding is an address that a client holds or held last.
type binding struct {
	key   key
	ip    netip.Addr
	until time.Time // nobody else gets the address before
	acked bool      // confirmed by an ACK; false while it is only offered
	saved int64     // the until (Unix seconds) last written to the lease file
	slot  int       // place in the expiry heap, -1 when not in it
	freed bool      // waiting in the pool's queue
}

func (b *binding) live(now time.Time) bool { return b.until.After(now) }

// table knows who holds which address. It does no I/O: what must survive a
// restart is left in changes. It is not safe for concurrent use.
//
// A binding outlives its lease until somebody else needs the address, so that a
// machine that comes back gets the address it had.
type table struct {
	subnets []Subnet
	pools   []*pool
	fixed   map[key]netip.Addr
	owners  map[netip.Addr]key // of fixed addresses
	byKey   map[key]*binding
	byIP    map[netip.Addr]*binding
	bad     map[netip.Addr]time.Time
	badEnds time.Time // the earliest end in bad
	due     expiryHeap
	changes []record
}

func newTable(subnets []Subnet, fixed map[key]netip.Addr, taken ...netip.Addr) *table {
	t := &table{
		subnets: subnets, fixed: fixed, owners: ownersOf(fixed),
		byKey: map[key]*binding{}, byIP: map[netip.Addr]*binding{}, bad: map[netip.Addr]time.Time{},
	}
	for _, s := range subnets {
		t.pools = append(t.pools, newPool(s, taken))
	}
	return t
}

// sweep hands the addresses whose time is over back to their pools.
func (t *table) sweep(now time.Time) {
	for len(t.due) > 0 && !t.due[0].live(now) {
		b := t.due[0]
		heap.Pop(&t.due)
		if !b.acked {
			t.remove(b)
			continue
		}
		b.freed = true
		t.pools[b.key.subnet].free(b.ip)
	}
	if len(t.bad) > 0 && !t.badEnds.After(now) {
		t.sweepBad(now)
	}
}

func (t *table) sweepBad(now time.Time) {
	t.badEnds = time.Time{}
	for ip, until := range t.bad {
		switch {
		case !until.After(now):
			delete(t.bad, ip)
			t.pools[subnetIndex(t.subnets, ip)].free(ip)
		case t.badEnds.IsZero() || until.Before(t.badEnds):
			t.badEnds = until
		}
	}
}

// choose finds the address for a client: its reservation, else the address it
// had, else the one it asks for, else one that nobody has. It reports false
// when there is none.
func (t *table) choose(k key, wanted netip.Addr, now time.Time) (netip.Addr, bool) {
	if ip, reserved := t.fixed[k]; reserved {
		return ip, t.available(k, ip, now)
	}
	if b := t.byKey[k]; b != nil && t.available(k, b.ip, now) {
		return b.ip, true
	}
	if t.available(k, wanted, now) {
		return wanted, true
	}
	return t.pools[k.subnet].next(func(ip netip.Addr) bool { return t.available(k, ip, now) })
}

// available reports whether the client may be given the address.
func (t *table) available(k key, ip netip.Addr, now time.Time) bool {
	if !ip.IsValid() {
		return false
	}
	if reserved, ok := t.fixed[k]; ok {
		if reserved != ip {
			return false
		}
	} else if _, others := t.owners[ip]; others || !t.pools[k.subnet].contains(ip) && t.leaving(k, ip, now) == 0 {
		return false
	}
	if t.bad[ip].After(now) {
		return false
	}
	holder := t.byIP[ip]
	return holder == nil || holder.key == k || !holder.live(now)
}

// offer keeps the address for the client until then. A lease that lasts longer stays as it is.
func (t *table) offer(k key, ip netip.Addr, until time.Time) {
	b := t.bind(k, ip)
	if !b.acked || b.until.Before(until) {
		t.extend(b, until)
	}
}

// lease confirms the address for the client until then and notes it for the lease file.
func (t *table) lease(k key, ip netip.Addr, until time.Time) {
	b := t.bind(k, ip)
	b.acked = true
	t.extend(b, until)
	t.save(b, b.until)
}

// bind makes the address the client's, whatever both were before.
func (t *table) bind(k key, ip netip.Addr) *binding {
	if b := t.byKey[k]; b != nil {
		if b.ip == ip {
			return b
		}
		t.remove(b)
	}
	if old := t.byIP[ip]; old != nil {
		t.remove(old)
	}
	b := &binding{key: k, ip: ip, slot: -1}
	t.byKey[k], t.byIP[ip] = b, b
	return b
}

func (t *table) extend(b *binding, until time.Time) {
	b.until = until
	if b.slot >= 0 {
		heap.Fix(&t.due, b.slot)
		return
	}
	b.freed = false
	heap.Push(&t.due, b)
}

// remove forgets the binding and frees its address.
func (t *table) remove(b *binding) {
	if b.slot >= 0 {
		heap.Remove(&t.due, b.slot)
	}
	delete(t.byKey, b.key)
	delete(t.byIP, b.ip)
	if b.saved != 0 {
		t.save(b, time.Time{})
	}
	if !b.freed {
		t.pools[b.key.subnet].free(b.ip)
	}
}

// withdraw takes an offer back that the client did not take up.
func (t *table) withdraw(k key) {
	if b := t.byKey[k]; b != nil && !b.acked {
		t.remove(b)
	}
}

// release ends the client's lease now; the address stays its first choice.
func (t *table) release(k key, now time.Time) {
	b := t.byKey[k]
	if b == nil {
		return
	}
	t.extend(b, now)
	if b.acked {
		t.save(b, now)
	}
}

// decline keeps the address from everybody until then.
func (t *table) decline(k key, ip netip.Addr, until time.Time) {
	if b := t.byKey[k]; b != nil && b.ip == ip {
		t.remove(b)
	}
	t.avoid(ip, until)
	t.changes = append(t.changes, record{IP: ip, Until: until.Unix(), Bad: true})
}

func (t *table) avoid(ip netip.Addr, until time.Time) {
	if len(t.bad) == 0 || until.Before(t.badEnds) {
		t.badEnds = until
	}
	t.bad[ip] = until
}

// save notes the binding for the lease file, at most once per end of lease in
// seconds: a storm of duplicate requests must not fill the disk.
func (t *table) save(b *binding, until time.Time) {
	seconds := int64(0)
	if !until.IsZero() {
		seconds = unixSeconds(until)
	}
	if seconds == b.saved {
		return
	}
	b.saved = seconds
	t.changes = append(t.changes, record{MAC: b.key.mac, IP: b.ip, Until: seconds})
}

// unixSeconds rounds up: never earlier than the client was told.
func unixSeconds(t time.Time) int64 {
	if t.Nanosecond() > 0 {
		return t.Unix() + 1
	}
	return t.Unix()
}

// expiryHeap orders bindings by the end of their hold, soonest first.
type expiryHeap []*binding

func (h expiryHeap) Len() int           { return len(h) }
func (h expiryHeap) Less(i, j int) bool { return h[i].until.Before(h[j].until) }
func (h expiryHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].slot, h[j].slot = i, j
}

// Push implements heap.Interface.
func (h *expiryHeap) Push(x any) {
	b := x.(*binding)
	b.slot = len(*h)
	*h = append(*h, b)
}

// Pop implements heap.Interface.
func (h *expiryHeap) Pop() any {
	old := *h
	b := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	b.slot = -1
	return b
}
