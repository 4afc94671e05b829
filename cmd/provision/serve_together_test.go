package main

import (
	"testing"
	"time"

	"github.com/talos-provision/provision/bmc/redfishtest"
	"github.com/talos-provision/provision/e2e/fleet"
	"github.com/talos-provision/provision/provisioner/web"
)

// I10: whoever plans while a run works on a BMC waits for its turn there.
func TestI10APlanDuringARunAsksNoBMCAtTheSameTime(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 1, PowerLag: 500 * time.Millisecond})
	m := f.Machines()[0]
	m.BMC().Inject(redfishtest.Fault{Action: redfishtest.Delay(30 * time.Millisecond)})
	d := startDaemon(t, f)
	run := d.begin()
	plans := 0
	d.until("the run to end", func() bool {
		answer, err := d.Plan(t.Context(), web.RunRequest{Cluster: "demo"})
		if err != nil || len(answer.Plan.Nodes) != 1 {
			t.Errorf("a plan during the run: %+v, %v", answer.Plan, err)
		}
		plans++
		info, err := d.Run(t.Context(), run.ID)
		return err == nil && !info.Finished.IsZero()
	})
	if plans < 3 {
		t.Errorf("only %d plans were made during the run", plans)
	}
	if n := m.BMC().MaxInFlight(); n != 1 {
		t.Errorf("the BMC had %d requests at the same time, want 1", n)
	}
	if ended := d.finished(); len(ended.Summary.Done) != 1 || m.BMC().PowerOns() != 1 {
		t.Errorf("the run ended as %+v after %d power-ons", ended.Summary, m.BMC().PowerOns())
	}
	noSessions(t, f)
}

// Runs of two clusters go on side by side, each to its own end.
func TestRunsOfTwoClustersGoOnAtOnce(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{
		Clusters: []fleet.Cluster{{Name: "north", Workers: 1}, {Name: "south", Workers: 1}}, POST: 2 * time.Second,
	})
	d := startDaemon(t, f)
	clusters := []string{"north", "south"}
	clients := map[string]*process{}
	for _, cluster := range clusters {
		clients[cluster] = startProcessOn(t, f, cluster)
	}
	d.until("both runs to go on", func() bool {
		runs := d.runs()
		return len(runs) == 2 && runs[0].Finished.IsZero() && runs[1].Finished.IsZero()
	})
	for i, cluster := range clusters {
		end := clients[cluster].await("the end of "+cluster, reaches("Maintenance", ""))
		if end.Cluster != cluster || end.Node != f.Machines()[i].Name {
			t.Errorf("who began the run of %s is told of %s/%s", cluster, end.Cluster, end.Node)
		}
		if status := clients[cluster].end(); status != exitDone {
			t.Errorf("the run of %s ended with status %d", cluster, status)
		}
	}
}

// A daemon that has no good inventory to begin with says what is wrong with it.
func TestADaemonDoesNotBeginWithAnInventoryThatIsWrong(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 1})
	put(t, f, "nodes/demo/node-09.yaml", "serial: S9\nip: nonsense\n")
	provision(t, "serve", "--config", f.ConfigFile()).says(t, exitFailed, "demo/node-09.yaml", "nonsense")
}
