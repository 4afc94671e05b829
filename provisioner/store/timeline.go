package store

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// timelineReach is how far back, in events of all nodes, the events of one are looked for.
const timelineReach = 50_000

// Timeline calls visit with the newest events of one node, at most as many as most
// says, in the order written. Events further back than the newest 50,000 of all
// nodes are not looked at.
func (s *Store) Timeline(cluster, name string, most int, visit func(seq uint64, e Event)) error {
	newest, err := s.newestOf(cluster, name, most)
	if err != nil {
		return fmt.Errorf("read the events of %s/%s from the state %s: %w", cluster, name, s.path, err)
	}
	for _, n := range newest {
		visit(n.seq, n.event)
	}
	return nil
}

func (s *Store) newestOf(cluster, name string, most int) (newest []numbered, err error) {
	quoted, err := json.Marshal(name)
	if err != nil {
		return nil, err
	}
	mark := append([]byte(`"node":`), quoted...)
	err = s.db.view(func(tx reader) error {
		newest = newest[:0]
		last, err := tx.last()
		if err != nil {
			return err
		}
		return tx.walk(bucketEvents, nil, eventKey(last-min(last, timelineReach)), func(key, raw []byte) error {
			// Most events are of others, and reading all of each would take longer than a page may.
			if !bytes.Contains(raw, mark) {
				return nil
			}
			var n numbered
			if n.seq, err = eventNumber(key); err != nil {
				return err
			}
			if err := json.Unmarshal(raw, &n.event); err != nil {
				return fmt.Errorf("event %d: %w", n.seq, err)
			}
			if n.event.Cluster == cluster && n.event.Node == name {
				newest = append(newest, n)
			}
			return nil
		})
	})
	return newest[max(0, len(newest)-most):], err
}
