package store

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"go.etcd.io/bbolt"
)

// What rolling upgrades keep has buckets of its own, made when they are first
// written to: files of older programs lack them, and the schema is the same.
const (
	bucketUpgradeRuns  = "upgrade-runs"  // by cluster: its newest run
	bucketUpgradeNodes = "upgrade-nodes" // by cluster and node: what its newest run knows of the node
)

// UpgradeRun reads the cluster's newest upgrade into a value; false when there is none.
func (s *Store) UpgradeRun(cluster string, into any) (found bool, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		bucket := tx.Bucket([]byte(bucketUpgradeRuns))
		if bucket == nil {
			return nil
		}
		raw := bucket.Get([]byte(cluster))
		if raw == nil {
			return nil
		}
		found = true
		return json.Unmarshal(raw, into)
	})
	if err != nil {
		return false, fmt.Errorf("read the upgrade of %s from the state %s: %w", cluster, s.path, err)
	}
	return found, nil
}

// SaveUpgradeRun writes the cluster's newest upgrade.
func (s *Store) SaveUpgradeRun(cluster string, run any) error {
	err := s.db.Update(func(tx *bbolt.Tx) error {
		bucket, err := tx.CreateBucketIfNotExists([]byte(bucketUpgradeRuns))
		if err != nil {
			return err
		}
		return putJSON(bucket, []byte(cluster), run)
	})
	if err != nil {
		return fmt.Errorf("write the upgrade of %s to the state %s: %w", cluster, s.path, err)
	}
	return nil
}

// UpgradeRecords hands each node's upgrade record of a cluster, or of all with an
// empty name, to visit, as JSON and in the order of cluster and node. The JSON is
// visit's only during the call.
func (s *Store) UpgradeRecords(cluster string, visit func(record []byte) error) error {
	var prefix []byte
	if cluster != "" {
		prefix = nodeKey(cluster, "")
	}
	err := s.db.View(func(tx *bbolt.Tx) error {
		bucket := tx.Bucket([]byte(bucketUpgradeNodes))
		if bucket == nil {
			return nil
		}
		cursor := bucket.Cursor()
		for key, raw := cursor.Seek(prefix); key != nil && bytes.HasPrefix(key, prefix); key, raw = cursor.Next() {
			if err := visit(raw); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the upgraded nodes of the state %s: %w", s.path, err)
	}
	return nil
}

// RecordUpgrade writes a node's upgrade record together with the event that tells
// of it: both are on the disk, or neither.
func (s *Store) RecordUpgrade(cluster, node string, record any, e Event) error {
	err := s.db.Batch(func(tx *bbolt.Tx) error {
		bucket, err := tx.CreateBucketIfNotExists([]byte(bucketUpgradeNodes))
		if err != nil {
			return err
		}
		if err := putJSON(bucket, nodeKey(cluster, node), record); err != nil {
			return err
		}
		events := tx.Bucket([]byte(bucketEvents))
		seq, err := events.NextSequence()
		if err != nil {
			return err
		}
		return putJSON(events, binary.BigEndian.AppendUint64(nil, seq), e)
	})
	if err != nil {
		return fmt.Errorf("write the upgrade of %s/%s to the state %s: %w", cluster, node, s.path, err)
	}
	return nil
}
