package store

import (
	"encoding/json"
	"fmt"
	"time"
)

// Record writes a node's new state together with the event that tells of it:
// both are durable, or neither. ErrFenced says that the node may be somebody
// else's by now: whatever the record announces must not be done.
func (s *Store) Record(n Node, e Event) error {
	err := s.recordWith(bucketNodes, n.Cluster, n.Name, n, e)
	if err != nil {
		return fmt.Errorf("write %s/%s to the state %s: %w", n.Cluster, n.Name, s.path, err)
	}
	return nil
}

// recordWith writes a value of a node together with an event.
func (s *Store) recordWith(bucket, cluster, name string, value any, e Event) error {
	record, err := json.Marshal(value)
	if err != nil {
		return err
	}
	event, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return s.db.batch(func(tx writer) error {
		tx.fence(cluster + "/" + name)
		if err := tx.put(bucket, nodeKey(cluster, name), record); err != nil {
			return err
		}
		return tx.append(event)
	})
}

// Node returns the record of one node; false when there is none.
func (s *Store) Node(cluster, name string) (Node, bool, error) {
	var (
		n     Node
		found bool
	)
	err := s.db.view(func(tx reader) (err error) {
		found, err = getJSON(tx, bucketNodes, nodeKey(cluster, name), &n)
		return err
	})
	if err != nil {
		return Node{}, false, fmt.Errorf("read %s/%s from the state %s: %w", cluster, name, s.path, err)
	}
	return n, found, nil
}

// Nodes returns the records of a cluster, or of all with an empty name, by
// cluster and node name.
func (s *Store) Nodes(cluster string) ([]Node, error) {
	nodes, err := listJSON[Node](s.db, bucketNodes, clusterPrefix(cluster))
	if err != nil {
		return nil, fmt.Errorf("read the nodes of the state %s: %w", s.path, err)
	}
	return nodes, nil
}

// PoweredOn notes that this tool had a node powered on, for whoever wants to
// power cycle it next (I7). Of a node that was never installed from here there is
// no record, and none is made.
func (s *Store) PoweredOn(cluster, name string, at time.Time) error {
	err := s.db.update(func(tx writer) error {
		var n Node
		found, err := getJSON(tx, bucketNodes, nodeKey(cluster, name), &n)
		if err != nil || !found {
			return err
		}
		n.LastPowerOn = at
		return putJSON(tx, bucketNodes, nodeKey(cluster, name), n)
	})
	if err != nil {
		return fmt.Errorf("write %s/%s to the state %s: %w", cluster, name, s.path, err)
	}
	return nil
}

// clusterPrefix is how the keys of a cluster's nodes begin; nil for all clusters.
func clusterPrefix(cluster string) []byte {
	if cluster == "" {
		return nil
	}
	return nodeKey(cluster, "")
}
