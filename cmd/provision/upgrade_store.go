package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/upgrade"
)

// upgradeStore is the state as an upgrade uses it. Without a state, which only a
// dry run has, there is nothing in it.
type upgradeStore struct {
	state *store.Store
	busy  chan struct{} // has room for one
	// members are the nodes of the cluster, as cluster/name.
	members func() []string
}

var _ upgrade.Store = upgradeStore{}

// Lock keeps off other runs of this process, and by a claim on every node the
// other controllers that share the state. A state file is open in no other process:
// the kernel's lock on it sees to that, and ends with this one.
func (s upgradeStore) Lock(ctx context.Context, cluster, _ string) (func(context.Context) error, error) {
	select {
	case s.busy <- struct{}{}:
	default:
		return nil, fmt.Errorf("%w: this process has %s", upgrade.ErrLocked, cluster)
	}
	claim, err := s.state.Claim(ctx, s.members(), "upgrade of "+cluster)
	if err != nil {
		<-s.busy
		if errors.Is(err, store.ErrClaimed) {
			err = fmt.Errorf("%w: %w", upgrade.ErrLocked, err)
		}
		return nil, err
	}
	return func(ctx context.Context) error {
		defer func() { <-s.busy }()
		return claim.Release(ctx)
	}, nil
}

// Run returns the cluster's newest run.
func (s upgradeStore) Run(_ context.Context, cluster string) (run upgrade.Run, found bool, err error) {
	if s.state == nil {
		return run, false, nil
	}
	found, err = s.state.UpgradeRun(cluster, &run)
	return run, found, err
}

// SaveRun writes a run.
func (s upgradeStore) SaveRun(_ context.Context, run upgrade.Run) error {
	return s.state.SaveUpgradeRun(run.Cluster, run)
}

// Records returns the nodes of a run.
func (s upgradeStore) Records(_ context.Context, cluster, run string) ([]upgrade.Record, error) {
	if s.state == nil {
		return nil, nil
	}
	var records []upgrade.Record
	err := s.state.UpgradeRecords(cluster, func(raw []byte) error {
		var r upgrade.Record
		if err := json.Unmarshal(raw, &r); err != nil {
			return err
		}
		if r.Run == run {
			records = append(records, r)
		}
		return nil
	})
	return records, err
}

// Record writes a node's record together with the event that tells of it.
func (s upgradeStore) Record(_ context.Context, record upgrade.Record, event store.Event) error {
	return s.state.RecordUpgrade(record.Cluster, record.Node, record, event)
}
