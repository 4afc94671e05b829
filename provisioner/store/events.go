package store

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
)

// eventsPage is how many events are read at once, and kept in memory for that.
const eventsPage = 500

// errStop ends a walk early.
var errStop = errors.New("stop")

// Events calls visit with every event in the order written, until it returns false.
func (s *Store) Events(visit func(Event) bool) error {
	return s.EventsAfter(0, func(_ uint64, e Event) bool { return visit(e) })
}

// EventsAfter calls visit with every event whose number is above after, in the
// order written, until it returns false. Numbers only grow, and an event never
// shows after one with a higher number was seen: a stream that ended at a number
// goes on from there. visit may take its time and may use the store.
func (s *Store) EventsAfter(after uint64, visit func(seq uint64, e Event) bool) error {
	for {
		page, err := s.eventsAfter(after)
		if err != nil {
			return fmt.Errorf("read the events of the state %s: %w", s.path, err)
		}
		for _, n := range page {
			if !visit(n.seq, n.event) {
				return nil
			}
			after = n.seq
		}
		if len(page) < eventsPage {
			return nil
		}
	}
}

type numbered struct {
	seq   uint64
	event Event
}

// eventsAfter reads one page.
func (s *Store) eventsAfter(after uint64) (page []numbered, err error) {
	err = s.db.view(func(tx reader) error {
		page = make([]numbered, 0, eventsPage)
		return tx.walk(bucketEvents, nil, eventKey(after+1), func(key, raw []byte) error {
			n := numbered{}
			if n.seq, err = eventNumber(key); err != nil {
				return err
			}
			if err := json.Unmarshal(raw, &n.event); err != nil {
				return fmt.Errorf("event %d: %w", n.seq, err)
			}
			if page = append(page, n); len(page) == eventsPage {
				return errStop
			}
			return nil
		})
	})
	if errors.Is(err, errStop) {
		err = nil
	}
	return page, err
}

// PruneEvents removes the oldest events and keeps the newest, as many as keep
// says. Numbers are not used again.
func (s *Store) PruneEvents(keep int) (removed int, err error) {
	for {
		old, err := s.eventsBeyond(keep)
		if err == nil && len(old) > 0 {
			err = s.db.update(func(tx writer) error {
				for _, key := range old {
					if err := tx.del(bucketEvents, key); err != nil {
						return err
					}
				}
				return nil
			})
		}
		if err != nil {
			return removed, fmt.Errorf("remove old events of the state %s: %w; %d were removed, the rest goes next time", s.path, err, removed)
		}
		if len(old) == 0 {
			return removed, nil
		}
		removed += len(old)
	}
}

// eventsBeyond are the keys of the oldest events that are not among the newest,
// at most as many as one transaction takes. Numbers have no gaps.
func (s *Store) eventsBeyond(keep int) (old [][]byte, err error) {
	most := s.db.capacity()
	err = s.db.view(func(tx reader) error {
		old = nil
		last, err := tx.last()
		if err != nil || last <= uint64(max(keep, 0)) {
			return err
		}
		newest := last - uint64(max(keep, 0)) // the newest to be removed
		return tx.walk(bucketEvents, nil, nil, func(key, _ []byte) error {
			seq, err := eventNumber(key)
			switch {
			case err != nil:
				return err
			case seq > newest || len(old) == most:
				return errStop
			}
			old = append(old, eventKey(seq))
			return nil
		})
	})
	if errors.Is(err, errStop) {
		err = nil
	}
	return old, err
}

func eventKey(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }

func eventNumber(key []byte) (uint64, error) {
	if len(key) != 8 {
		return 0, fmt.Errorf("the key %q is no number of an event", key)
	}
	return binary.BigEndian.Uint64(key), nil
}
