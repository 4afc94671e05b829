package store

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"
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
