package store

import (
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// Lease is an address that a machine holds, as a standby needs it to take a
// network segment over: what a line of the DHCP lease file says.
type Lease struct {
	// Site is the segment's; an address is held once in a site.
	Site string     `json:"site"`
	IP   netip.Addr `json:"ip"`
	// MAC is lower case with colons; empty when Bad.
	MAC string `json:"mac,omitempty"`
	// Expires ends the lease; zero says that there is none any more.
	Expires time.Time `json:"expires"`
	// Bad says that a client found the address in use: nobody gets it until Expires.
	Bad bool `json:"bad,omitempty"`
}

// key is by address and not by MAC: one machine may hold addresses of several
// networks of a site, and an address that is in use has no MAC.
func (l Lease) key() []byte { return []byte(l.Site + "\x00" + l.IP.String()) }

// SaveLeases writes leases in their order, each in the place of what was known of its address. One
// that expires at the zero time is forgotten. Many leases take several
// transactions: after an error the first of them may be there.
func (s *Store) SaveLeases(leases []Lease) error {
	for some := range slices.Chunk(leases, s.db.capacity()) {
		err := s.db.batch(func(tx writer) error {
			for _, l := range some {
				if l.Expires.IsZero() {
					if err := tx.del(bucketLeases, l.key()); err != nil {
						return err
					}
				} else if err := putJSON(tx, bucketLeases, l.key(), l); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("write %d leases to the state %s: %w", len(leases), s.path, err)
		}
	}
	return nil
}

// Leases returns every lease of every site, also those that have expired: a
// machine that comes back gets the address that it had.
func (s *Store) Leases() ([]Lease, error) {
	leases, err := listJSON[Lease](s.db, bucketLeases, nil)
	if err != nil {
		return nil, fmt.Errorf("read the leases of the state %s: %w", s.path, err)
	}
	return leases, nil
}
