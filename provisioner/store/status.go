package store

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/bbolt"
)

// upgraded is what a status shows of an upgrade record.
type upgraded struct {
	Cluster string    `json:"cluster"`
	Node    string    `json:"node"`
	Run     string    `json:"run"`
	Host    string    `json:"host"`
	State   string    `json:"state"`
	Step    string    `json:"step"`
	Since   time.Time `json:"since"`
	Message string    `json:"message"`
	Error   string    `json:"error"`
	Hint    string    `json:"hint"`
}

// Status returns what Nodes does, but a node that a rolling upgrade has worked on
// since is shown as the upgrade has it.
func (s *Store) Status(cluster string) ([]Node, error) {
	nodes, err := s.Nodes(cluster)
	if err != nil {
		return nil, err
	}
	at := make(map[string]int, len(nodes))
	for i, n := range nodes {
		at[string(nodeKey(n.Cluster, n.Name))] = i
	}
	err = s.UpgradeRecords(cluster, func(raw []byte) error {
		var u upgraded
		if err := json.Unmarshal(raw, &u); err != nil {
			return err
		}
		i, known := at[string(nodeKey(u.Cluster, u.Node))]
		if !known {
			nodes = append(nodes, Node{Cluster: u.Cluster, Name: u.Node})
			i = len(nodes) - 1
		}
		if n := &nodes[i]; u.Since.After(n.Since) {
			n.Run, n.State, n.Step, n.Since, n.Address = u.Run, u.State, u.Step, u.Since, u.Host
			n.Message, n.Error, n.Hint, n.Progress = u.Message, u.Error, u.Hint, nil
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(nodes, func(a, b Node) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Name, b.Name))
	})
	return nodes, nil
}

// PoweredOn notes that this tool had a node powered on, for whoever wants to
// power cycle it next (I7). Of a node that was never installed from here there is
// no record, and none is made.
func (s *Store) PoweredOn(cluster, name string, at time.Time) error {
	err := s.db.Update(func(tx *bbolt.Tx) error {
		bucket := tx.Bucket([]byte(bucketNodes))
		raw := bucket.Get(nodeKey(cluster, name))
		if raw == nil {
			return nil
		}
		var n Node
		if err := json.Unmarshal(raw, &n); err != nil {
			return err
		}
		n.LastPowerOn = at
		return putJSON(bucket, nodeKey(cluster, name), n)
	})
	if err != nil {
		return fmt.Errorf("write %s/%s to the state %s: %w", cluster, name, s.path, err)
	}
	return nil
}
