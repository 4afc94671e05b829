package web

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/talos-provision/provision/provisioner/store"
)

// DetailOf is what the state knows of a node. ErrNotFound says that it knows nothing.
func DetailOf(s *store.Store, cluster, node string) (NodeDetail, error) {
	d := NodeDetail{Cluster: cluster, Node: node, Events: []Event{}}
	records, err := s.Status(cluster) // as an upgrade has it, where one worked on it since
	if err != nil {
		return d, err
	}
	if i := slices.IndexFunc(records, func(n store.Node) bool { return n.Cluster == cluster && n.Name == node }); i >= 0 {
		d.Record = &records[i]
	}
	boot, booted, err := s.Boot(cluster, node)
	if err != nil {
		return d, err
	}
	if booted {
		d.Boot = &boot
	}
	holds, err := s.Holds()
	if err != nil {
		return d, err
	}
	if i := slices.IndexFunc(holds, func(h store.Hold) bool { return h.Cluster == cluster && h.Node == node }); i >= 0 {
		d.Hold = &holds[i]
	}
	err = s.Timeline(cluster, node, timelineLength, func(seq uint64, e store.Event) {
		d.Events = append(d.Events, Event{Seq: seq, Event: e})
	})
	if err == nil && d.Record == nil && d.Boot == nil && d.Hold == nil && len(d.Events) == 0 {
		err = NotFound("nothing is known of %s/%s", cluster, node)
	}
	return d, err
}

// UpgradesOf are the upgrades in a state: the newest of each cluster, by cluster.
func UpgradesOf(s *store.Store) ([]UpgradeInfo, error) {
	type ofRun struct{ cluster, run string }
	nodes := map[ofRun][]UpgradeNode{}
	clusters := map[string]bool{}
	err := s.UpgradeRecords("", func(raw []byte) error {
		var n struct {
			UpgradeNode
			Cluster string `json:"cluster"`
			Run     string `json:"run"`
		}
		if err := json.Unmarshal(raw, &n); err != nil {
			return err
		}
		clusters[n.Cluster] = true
		key := ofRun{n.Cluster, n.Run}
		nodes[key] = append(nodes[key], n.UpgradeNode)
		return nil
	})
	if err != nil {
		return nil, err
	}
	infos := make([]UpgradeInfo, 0, len(clusters))
	for cluster := range clusters {
		var run struct {
			ID       string    `json:"run"`
			Target   string    `json:"target"`
			Started  time.Time `json:"started"`
			Finished time.Time `json:"finished"`
			Stopped  string    `json:"stopped"`
		}
		if found, err := s.UpgradeRun(cluster, &run); err != nil {
			return nil, err
		} else if !found {
			continue
		}
		infos = append(infos, UpgradeInfo{
			ID: run.ID, Cluster: cluster, Target: run.Target, Started: run.Started, Finished: run.Finished, Stopped: run.Stopped,
			Nodes: nodes[ofRun{cluster, run.ID}], // a run before it may have left records of other nodes
		})
	}
	slices.SortFunc(infos, func(a, b UpgradeInfo) int { return cmp.Compare(a.Cluster, b.Cluster) })
	return infos, nil
}
