package dhcp

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// LeaseRecord is a confirmed lease as another server has to know it.
type LeaseRecord struct {
	// MAC is the client's hardware address, lower case with colons; IP is what it holds.
	MAC string
	IP  netip.Addr
	// Expires is the end of the lease, in whole seconds and never before the end
	// that the client was told. A time that has passed, such as the zero time, says
	// that the client holds the address no longer.
	Expires time.Time
}

func (r record) lease() LeaseRecord {
	l := LeaseRecord{MAC: net.HardwareAddr(r.MAC).String(), IP: r.IP}
	if r.Until != 0 {
		l.Expires = time.Unix(r.Until, 0)
	}
	return l
}

// Leases are the confirmed leases that last, in the order of their addresses;
// none before Listen has read the lease file.
func (s *Server) Leases() []LeaseRecord {
	now := s.engine.options.Now()
	s.work.Lock()
	defer s.work.Unlock()
	var all []LeaseRecord
	for _, b := range s.engine.table.byIP {
		if b.acked && b.live(now) {
			all = append(all, b.record().lease())
		}
	}
	slices.SortFunc(all, func(a, b LeaseRecord) int { return a.IP.Compare(b.IP) })
	return all
}

// commits hands durable leases to Options.OnCommit on a goroutine of its own: the
// serving ones only leave word. What an address went through while the observer
// was busy comes down to its last lease, so that a slow observer costs no more
// memory than there are addresses.
type commits struct {
	observe func([]LeaseRecord)
	wake    chan struct{}

	mu      sync.Mutex
	pending map[netip.Addr]record
}

// newCommits is nil, which adds nothing, for no observer.
func newCommits(observe func([]LeaseRecord)) *commits {
	if observe == nil {
		return nil
	}
	return &commits{observe: observe, wake: make(chan struct{}, 1), pending: map[netip.Addr]record{}}
}

// add leaves word of records that are in the lease file.
func (c *commits) add(records []record) {
	if c == nil {
		return
	}
	c.mu.Lock()
	for _, r := range records {
		if !r.Bad {
			c.pending[r.IP] = r
		}
	}
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default: // it is awake, or about to be
	}
}

// gather is how long leases are gathered before the observer is called again: a
// call for each batch of a storm would take a share of what it costs to answer.
const gather = 20 * time.Millisecond

// run observes until done is closed, and then what is left.
func (c *commits) run(done <-chan struct{}) {
	if c == nil {
		return
	}
	for {
		select {
		case <-c.wake:
			c.flush()
			select {
			case <-time.After(gather):
			case <-done:
			}
		case <-done:
			c.flush()
			return
		}
	}
}

func (c *commits) flush() {
	c.mu.Lock()
	pending := c.pending
	c.pending = make(map[netip.Addr]record, len(pending))
	c.mu.Unlock()
	if len(pending) == 0 {
		return
	}
	batch := make([]LeaseRecord, 0, len(pending))
	for _, r := range pending {
		batch = append(batch, r.lease())
	}
	slices.SortFunc(batch, func(a, b LeaseRecord) int { return a.IP.Compare(b.IP) })
	c.observe(batch)
}
