package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/e2e/fleet"
)

// Workers go first, then the control planes one by one, the leader of etcd last;
// each node is booted once, and runs the target then.
func TestUpgradeTakesEachNodeOnceAndTheLeaderLast(t *testing.T) {
	t.Parallel()
	s := newUpgradeSite(t, fleet.Config{})
	r, events := s.run()
	r.says(t, exitDone)
	s.allRun(after)
	if diff := cmp.Diff(s.each(2), s.boots()); diff != "" {
		t.Errorf("boots (-want +got):\n%s", diff)
	}
	if got := order(events, "Upgraded"); len(got) != 5 || got[0] != "node-04" || got[1] != "node-05" {
		t.Errorf("order %v, want the workers node-04 and node-05 first", got)
	}
	untouched(t, s.Machines()...)
	noSessions(t, s.Fleet)
	if r := s.command("--to", after, "--no-drain", "--kubernetes-version", "v1.36.0", "--yes"); r.status != exitDone {
		t.Errorf("again: %+v", r)
	}
	if diff := cmp.Diff(s.each(2), s.boots()); diff != "" {
		t.Errorf("boots after the second run (-want +got):\n%s", diff)
	}
}
