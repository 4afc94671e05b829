package store

import (
	"encoding/json"
	"fmt"
)

// UpgradeRun reads the cluster's newest upgrade into a value; false when there is none.
func (s *Store) UpgradeRun(cluster string, into any) (found bool, err error) {
	err = s.db.view(func(tx reader) (err error) {
		found, err = getJSON(tx, bucketUpgradeRuns, []byte(cluster), into)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("read the upgrade of %s from the state %s: %w", cluster, s.path, err)
	}
	return found, nil
}

// SaveUpgradeRun writes the cluster's newest upgrade.
func (s *Store) SaveUpgradeRun(cluster string, run any) error {
	raw, err := json.Marshal(run)
	if err == nil {
		err = s.db.update(func(tx writer) error { return tx.put(bucketUpgradeRuns, []byte(cluster), raw) })
	}
	if err != nil {
		return fmt.Errorf("write the upgrade of %s to the state %s: %w", cluster, s.path, err)
	}
	return nil
}

// UpgradeRecords hands each node's upgrade record of a cluster, or of all with an
// empty name, to visit, as JSON and in the order of cluster and node. The JSON is
// visit's only during the call, and visit must not use the store.
func (s *Store) UpgradeRecords(cluster string, visit func(record []byte) error) error {
	err := s.db.view(func(tx reader) error {
		return tx.walk(bucketUpgradeNodes, clusterPrefix(cluster), nil, func(_, raw []byte) error { return visit(raw) })
	})
	if err != nil {
		return fmt.Errorf("read the upgraded nodes of the state %s: %w", s.path, err)
	}
	return nil
}

// RecordUpgrade writes a node's upgrade record together with the event that tells
// of it: both are durable, or neither. ErrFenced is as with Record.
func (s *Store) RecordUpgrade(cluster, node string, record any, e Event) error {
	if err := s.recordWith(bucketUpgradeNodes, cluster, node, record, e); err != nil {
		return fmt.Errorf("write the upgrade of %s/%s to the state %s: %w", cluster, node, s.path, err)
	}
	return nil
}
