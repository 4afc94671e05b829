package main

import (
	"log/slog"
	"net/netip"
	"slices"
	"sync"

	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/pxe/dhcp"
)

// sharedLeases keeps the DHCP leases of this host in a state that other controllers
// share, for the one that takes the site over.
type sharedLeases struct {
	state *store.Store
	site  string
	log   *slog.Logger

	mu sync.Mutex
	// unsaved are those that the state did not take yet, the newest of each address.
	unsaved map[netip.Addr]store.Lease
}

// shareLeases writes the leases of a shared state into this host's own file, and has
// new ones written there. It is nil where nobody shares the state, or where another
// server gives the leases. The boot services must be made after it.
func (s *session) shareLeases(state *store.Store) (*sharedLeases, error) {
	if !s.config.sharesState() || s.config.DHCP.Mode != dhcpServer {
		return nil, nil //nolint:nilnil // nobody to share with
	}
	leases, err := state.Leases()
	if err != nil {
		return nil, err
	}
	var records []dhcp.LeaseRecord
	for _, l := range leases {
		if l.Site == s.config.Site && !l.Bad {
			records = append(records, dhcp.LeaseRecord{MAC: l.MAC, IP: l.IP, Expires: l.Expires})
		}
	}
	if err := dhcp.SeedLeaseFile(s.config.leaseFile(), records); err != nil {
		return nil, err
	}
	shared := &sharedLeases{state: state, site: s.config.Site, log: s.log, unsaved: map[netip.Addr]store.Lease{}}
	s.onCommit = shared.committed
	return shared, nil
}

// committed takes leases that have become durable here. The DHCP server calls it
// beside its work, one call at a time.
func (l *sharedLeases) committed(leases []dhcp.LeaseRecord) {
	l.save(func() []dhcp.LeaseRecord { return leases })
}

// save writes leases, which are asked for in order with those of other calls. What
// cannot be written is kept for the next call: the DHCP server does not wait.
func (l *sharedLeases) save(leases func() []dhcp.LeaseRecord) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range leases() {
		l.unsaved[r.IP] = store.Lease{Site: l.site, IP: r.IP, MAC: r.MAC, Expires: r.Expires}
	}
	batch := make([]store.Lease, 0, len(l.unsaved))
	for _, lease := range l.unsaved {
		batch = append(batch, lease)
	}
	if len(batch) == 0 {
		return
	}
	slices.SortFunc(batch, func(a, b store.Lease) int { return a.IP.Compare(b.IP) })
	err := l.state.MayServe(l.site) // else another leads the site, and knows better
	if err == nil {
		err = l.state.SaveLeases(batch)
	}
	if err != nil {
		l.log.Warn("DHCP leases are not in the shared state yet: a controller that takes over now does not know them", "leases", len(batch), "error", err)
		return
	}
	clear(l.unsaved)
}
