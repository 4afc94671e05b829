package dhcp

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"time"
)

// SeedLeaseFile adds to a lease file, which it creates if need be, the leases of
// another server that the file lacks or has shorter, so that a server which takes
// over knows them before it starts. Records that have expired are left out. No
// lease becomes shorter or gets lost. Only where two clients claim one address,
// or one client two addresses of a subnet, does the lease that ends later count:
// a client, and an address, has one at a time, so it is the newer one.
//
// The file is replaced as a whole or left as it is: after an error, such as for a
// record that is malformed, and while a server has it open, which its lock tells.
// Whether a lease is of a network that is served shows when a server reads the
// file; it ignores the others.
func SeedLeaseFile(path string, records []LeaseRecord) error {
	return seedLeaseFile(path, records, time.Now())
}

func seedLeaseFile(path string, leases []LeaseRecord, now time.Time) (err error) {
	seeds, err := liveRecords(leases, now)
	if err != nil {
		return fmt.Errorf("seed lease file %s: %w; nothing was added", path, err)
	}
	j, present, err := openJournal(path, slog.New(slog.DiscardHandler))
	if err != nil {
		return fmt.Errorf("seed the lease file: %w", err)
	}
	defer func() {
		if closing := j.close(); closing != nil {
			err = errors.Join(err, fmt.Errorf("close lease file %s: %w; check its disk", path, closing))
		}
	}()
	merged, changed := merge(present, seeds)
	if !changed {
		return nil
	}
	if err := j.rewrite(merged); err != nil {
		return fmt.Errorf("seed the lease file: %w", err)
	}
	return nil
}

// liveRecords are the leases that last, as a lease file holds them.
func liveRecords(leases []LeaseRecord, now time.Time) ([]record, error) {
	records := make([]record, 0, len(leases))
	for _, l := range leases {
		mac, err := decodeMAC(l.MAC)
		if err != nil {
			return nil, fmt.Errorf("the lease of %s: %w: write it as 52:54:00:12:34:56", l.IP, err)
		}
		if !l.IP.Is4() {
			return nil, fmt.Errorf("the lease of %s for %s: the address is not IPv4: correct it", l.IP, l.MAC)
		}
		if l.Expires.After(now) {
			records = append(records, record{MAC: mac, IP: l.IP, Until: unixSeconds(l.Expires)})
		}
	}
	return records, nil
}

// merge brings the records of a lease file and those to add into one state, and
// reports whether that adds anything. In the result leases that end later stand
// later, because the last one counts when the file is read.
func merge(present, seeds []record) ([]record, bool) {
	held, avoided := map[netip.Addr]record{}, map[netip.Addr]record{}
	for _, r := range present { // as table.restore reads them
		switch {
		case r.Bad:
			avoided[r.IP] = r
		case r.Until != 0:
			held[r.IP] = r
		case held[r.IP].MAC == r.MAC:
			delete(held, r.IP)
		}
	}
	changed := false
	for _, r := range seeds {
		if h, taken := held[r.IP]; !taken || h.Until < r.Until {
			held[r.IP], changed = r, true
		}
	}
	merged := make([]record, 0, len(held)+len(avoided))
	for _, r := range held {
		merged = append(merged, r)
	}
	for _, r := range avoided {
		merged = append(merged, r)
	}
	slices.SortFunc(merged, func(a, b record) int {
		return cmp.Or(cmp.Compare(a.Until, b.Until), a.IP.Compare(b.IP))
	})
	return merged, changed
}
