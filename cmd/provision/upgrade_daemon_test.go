package main

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/e2e/fleet"
	"github.com/talos-provision/provision/inventory"
)

// I8: a daemon that is killed in the middle of an upgrade leaves one that is carried
// on, by nobody but who says so; no node is installed or booted twice for it.
func TestI8AnUpgradeOfAKilledDaemonIsCarriedOn(t *testing.T) {
	t.Parallel()
	s := newUpgradeSite(t, fleet.Config{Clusters: []fleet.Cluster{{Name: "prod", ControlPlanes: 1, Workers: 1}}, InstallTime: 2 * time.Second})
	d := startDaemon(t, s.Fleet)
	args := slices.Concat([]string{"upgrade", "--config", s.ConfigFile(), "--cluster", "prod", "--to", after, "--yes", "-o", "json", "--single-node"}, withoutKubernetes)
	first, _ := startTalking(t, args...)
	begun := first.await("the first install", reaches("Drained", ""))
	d.kill()
	next := startDaemon(t, s.Fleet)
	upgrades, err := next.Upgrades(t.Context())
	if err != nil || len(upgrades) != 1 || upgrades[0].ID != begun.Run || upgrades[0].Active || upgrades[0].Stopped == "" {
		t.Errorf("the next daemon says %+v, error %v; want %s, on which nobody works", upgrades, err, begun.Run)
	}
	if status := first.end(); status == exitDone {
		t.Error("who watched is told that the upgrade is done")
	}
	provision(t, append(args, "--continue")...).says(t, exitDone)
	s.allRun(after)
	if diff := cmp.Diff(s.each(2), s.boots()); diff != "" {
		t.Errorf("boots (-want +got):\n%s", diff)
	}
	untouched(t, s.Machines()...)
}

// I10: an upgrade asks a BMC when it is its turn, as runs and plans of the daemon do.
func TestI10AnUpgradeWaitsForItsTurnAtABMC(t *testing.T) {
	t.Parallel()
	n := inventory.Node{Name: "node-01", Cluster: "prod", BMC: inventory.BMC{Address: "https://127.0.0.1:1"}}
	u := &upgrader{turns: &turns{}} // without a session: whoever does not wait falls over
	giveBack, err := u.turns.take(t.Context(), n.BMC.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer giveBack()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := u.askBMC(ctx, n); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want the end of its patience", err)
	}
}
