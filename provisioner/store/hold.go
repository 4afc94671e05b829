package store

import (
	"fmt"
	"time"
)

// Hold keeps every run off a node until somebody takes it away.
type Hold struct {
	Cluster string `json:"cluster"`
	Node    string `json:"node"`
	// Reason is for whoever wonders; By is who set it.
	Reason string    `json:"reason"`
	By     string    `json:"by"`
	Since  time.Time `json:"since"`
}

// SetHold puts a hold on a node, in the place of one that it has.
func (s *Store) SetHold(h Hold) error {
	err := s.db.update(func(tx writer) error { return putJSON(tx, bucketHolds, nodeKey(h.Cluster, h.Node), h) })
	if err != nil {
		return fmt.Errorf("hold %s/%s in the state %s: %w", h.Cluster, h.Node, s.path, err)
	}
	return nil
}

// RemoveHold takes a node's hold away; false when it had none.
func (s *Store) RemoveHold(cluster, node string) (removed bool, err error) {
	err = s.db.update(func(tx writer) error {
		raw, err := tx.get(bucketHolds, nodeKey(cluster, node))
		if removed = raw != nil; err != nil || !removed {
			return err
		}
		return tx.del(bucketHolds, nodeKey(cluster, node))
	})
	if err != nil {
		return false, fmt.Errorf("release %s/%s in the state %s: %w", cluster, node, s.path, err)
	}
	return removed, nil
}

// Holds returns every hold, by cluster and node.
func (s *Store) Holds() ([]Hold, error) {
	holds, err := listJSON[Hold](s.db, bucketHolds, nil)
	if err != nil {
		return nil, fmt.Errorf("read the holds of the state %s: %w", s.path, err)
	}
	return holds, nil
}

// Held returns a node's hold; false when it has none.
func (s *Store) Held(cluster, node string) (h Hold, held bool, err error) {
	err = s.db.view(func(tx reader) (err error) {
		held, err = getJSON(tx, bucketHolds, nodeKey(cluster, node), &h)
		return err
	})
	if err != nil {
		return Hold{}, false, fmt.Errorf("read the hold of %s/%s from the state %s: %w", cluster, node, s.path, err)
	}
	return h, held, nil
}
