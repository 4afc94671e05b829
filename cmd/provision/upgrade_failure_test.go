package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/e2e/fleet"
	"github.com/talos-provision/provision/provisioner/store"
)

// oneAndOne is the smallest cluster with a worker.
var oneAndOne = []fleet.Cluster{{Name: "prod", ControlPlanes: 1, Workers: 1}}

// faulty is a site of which the worker node-02 has a fault.
func faulty(t *testing.T, adjust func(*fleet.Machine)) upgradeSite {
	t.Helper()
	return newUpgradeSite(t, fleet.Config{Clusters: oneAndOne, Adjust: func(m *fleet.Machine) {
		if m.Name == "node-02" {
			adjust(m)
		}
	}})
}

// The first node that fails stops the run: the verdict says what became of it, and
// no other node is touched.
func TestUpgradeStopsAtTheFirstFailureAndNamesIt(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		fault   func(*fleet.Machine)
		verdict string
		want    string
		boots   int
	}{
		{"rollback", func(m *fleet.Machine) { m.Faults.UpgradeRollsBack = true }, "rolled back", "runs " + before + " as before", 2},
		{"installer", func(m *fleet.Machine) { m.Faults.UpgradeExitCode = 1 }, "installer failed", "no space left on device", 1},
		{"maintenance", func(m *fleet.Machine) { m.Faults.UpgradeLosesConfig = true }, "maintenance again", "without its config", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := faulty(t, tt.fault)
			r, events := s.run("--single-node")
			r.says(t, exitFailed, "node-02", tt.verdict, tt.want)
			last := events[len(events)-1]
			if last.Node != "node-02" || last.State != "Failed" || last.Message != tt.verdict || last.Hint == "" {
				t.Errorf("last event %+v", last)
			}
			if diff := cmp.Diff(map[string]int{"node-01": 1, "node-02": tt.boots}, s.boots()); diff != "" {
				t.Errorf("boots (-want +got):\n%s", diff)
			}
			// The state tells it afterwards, and another run does not begin over it.
			shown := provision(t, "status", "--config", s.ConfigFile(), "--cluster", "prod", "-o", "json")
			var nodes []store.Node
			if err := json.Unmarshal([]byte(shown.out), &nodes); err != nil {
				t.Fatal(err)
			}
			if len(nodes) != 1 || nodes[0].State != "Failed" || !strings.Contains(nodes[0].Error, tt.want) {
				t.Errorf("status: %+v", nodes)
			}
			again, _ := s.run("--single-node")
			again.says(t, exitRefused, "is unfinished: carry it on with --continue, or end it with --abandon")
		})
	}
}

// An installer that cannot be pulled parks the run before any node is touched.
func TestUpgradeTouchesNothingWhenAnInstallerCannotBePulled(t *testing.T) {
	t.Parallel()
	s := faulty(t, func(m *fleet.Machine) { m.Faults.PullFails = true })
	r, events := s.run("--single-node")
	r.says(t, exitFailed, "an installer image cannot be pulled", "node-02")
	if len(events) > 0 {
		t.Errorf("events %+v", events)
	}
	if diff := cmp.Diff(s.each(1), s.boots()); diff != "" {
		t.Errorf("boots (-want +got):\n%s", diff)
	}
	// Nothing was begun, so nothing is unfinished.
	s.command("--abandon").says(t, exitUsage, "no unfinished upgrade")
}

// A machine that answers at a node's address and is another is not touched (I5).
func TestI5UpgradeRefusesAMachineThatIsNotTheNode(t *testing.T) {
	t.Parallel()
	s := newUpgradeSite(t, fleet.Config{Clusters: oneAndOne, Adjust: func(m *fleet.Machine) {
		if m.Name == "node-02" {
			other := m.Hardware
			other.UUID, other.Serial, other.BoardSerial, other.MACs = "99999999-0000-4000-8000-000000000001", "OTHER1", "OTHERB1", []string{"02:00:00:00:00:01"}
			m.TalosIdentity = &other
		}
	}})
	r, _ := s.run("--single-node")
	r.says(t, exitRefused, "wrong-machine", "OTHER1", "no node's of the inventory")
	if diff := cmp.Diff(s.each(1), s.boots()); diff != "" {
		t.Errorf("boots (-want +got):\n%s", diff)
	}
}

// Where two BMCs are swapped in the inventory, neither machine is proven to be who
// it should be: nothing is upgraded, and nothing power cycled (I1).
func TestI1UpgradeRefusesSwappedBMCs(t *testing.T) {
	t.Parallel()
	s := newUpgradeSite(t, fleet.Config{Clusters: oneAndOne})
	machines := s.Machines()
	edit(t, s.Fleet, "nodes/prod/node-01.yaml", machines[0].BMC().URL(), machines[1].BMC().URL())
	edit(t, s.Fleet, "nodes/prod/node-02.yaml", machines[1].BMC().URL(), machines[0].BMC().URL())
	r, _ := s.run("--single-node", "--bmc-rescue")
	r.says(t, exitRefused, "wrong-machine", "is prod/node-02 and not prod/node-01", "refused, and nothing was touched")
	untouched(t, machines...)
	if diff := cmp.Diff(s.each(1), s.boots()); diff != "" {
		t.Errorf("boots (-want +got):\n%s", diff)
	}
	noSessions(t, s.Fleet)
}

// --abandon ends an upgrade that failed, and a new one may begin.
func TestUpgradeCanBeAbandoned(t *testing.T) {
	t.Parallel()
	s := faulty(t, func(m *fleet.Machine) { m.Faults.UpgradeExitCode = 1 })
	r, _ := s.run("--single-node")
	r.says(t, exitFailed)
	s.command("--abandon").says(t, exitDone, "of prod to Talos "+after+" is ended", "node-02 was left in state Failed (installer failed)")
	s.command("--abandon").says(t, exitUsage, "no unfinished upgrade")
	r, _ = s.run("--single-node", "--exclude", "node-02")
	r.says(t, exitDone)
	if diff := cmp.Diff(map[string]string{"node-01": after, "node-02": before}, s.running()); diff != "" {
		t.Errorf("running (-want +got):\n%s", diff)
	}
}

// Two minor versions are taken one after the other, and only when that is said.
func TestUpgradeOverTwoMinorsNamesTheStopsAndTakesThem(t *testing.T) {
	t.Parallel()
	s := newUpgradeSite(t, fleet.Config{Clusters: []fleet.Cluster{{Name: "prod", ControlPlanes: 1}}, TalosVersion: "v1.12.4"})
	args := slices.Concat(withoutKubernetes, []string{"--kubernetes-version", "v1.34.0", "--single-node", "--yes", "--to", after})
	s.command(args...).says(t, exitRefused, "path", "v1.12.4 -> v1.13.9 -> "+after, "--stops")
	if diff := cmp.Diff(s.each(1), s.boots()); diff != "" {
		t.Errorf("boots (-want +got):\n%s", diff)
	}
	s.command(slices.Concat(args, []string{"--stops"})...).says(t, exitDone, "v1.13.9 -> "+after)
	s.allRun(after)
	if diff := cmp.Diff(s.each(3), s.boots()); diff != "" {
		t.Errorf("boots (-want +got):\n%s", diff)
	}
}
