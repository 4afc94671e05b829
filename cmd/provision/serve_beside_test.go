package main

import (
	"path/filepath"
	"testing"

	"github.com/talos-provision/provision/e2e/fleet"
)

// Beside a daemon, what needs no state works, and what needs it has it from the daemon.
func TestOtherCommandsBesideADaemon(t *testing.T) {
	t.Parallel()
	f := newClusters(t, nil, one)
	d := startDaemon(t, f)
	at := func(args ...string) result { return provision(t, append(args, "--config", f.ConfigFile())...) }
	at("--cluster", "prod", "--yes", "-o", "json").says(t, exitDone, `"state":"Ready"`)

	at("inventory", "validate").says(t, exitDone)
	at("inventory", "list", "--cluster", "prod").says(t, exitDone, "node-01")
	at("bmc", "info", "--node", "node-01").says(t, exitDone, "Supermicro")
	at("bmc", "power", "status", "--node", "node-01").says(t, exitDone, "on")
	at("cluster", "health", "prod").says(t, exitDone)
	at("cluster", "kubeconfig", "prod", "--out", filepath.Join(t.TempDir(), "kubeconfig")).says(t, exitDone)
	at("assets", "list").says(t, exitDone, "v1.13.9")
	at("state", "check").says(t, exitDone, "a copy from whoever has it open")
	at("state", "backup", filepath.Join(t.TempDir(), "state.backup")).says(t, exitDone)

	// The daemon has taken no notice.
	if run := d.finished(); len(run.Summary.Done) != 1 {
		t.Errorf("the daemon's run is %+v", run.Summary)
	}
	at("--cluster", "prod", "--yes", "-o", "json").says(t, exitDone, `"state":"Ready"`)
	if n := f.Machines()[0].BMC().PowerOns(); n != 1 {
		t.Errorf("powered on %d times, want 1", n)
	}
}

// Without a daemon the commands that need one say so.
func TestWithoutADaemonItsCommandsSayWhatToDo(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 1})
	at := func(args ...string) result { return provision(t, append(args, "--config", f.ConfigFile())...) }
	at("events").says(t, exitDone)
	at("events", "--follow").says(t, exitFailed, "no daemon and no run is there to follow")
	at("stop", "--cluster", "demo").says(t, exitFailed, "no daemon answers")
	at("status", "--server", "http://127.0.0.1:1").says(t, exitFailed, "no answer from http://127.0.0.1:1", "provision serve")
	at("status", "--server", "http://192.0.2.1:9090").says(t, exitUsage, "https")
	at("hold", "node-01", "--cluster", "demo", "--reason", "racked").says(t, exitDone, "node-01 is held")
	at("hold").says(t, exitDone, "racked")
	if r, last := install(t, f); r.status != exitRefused || last["node-01"].State != "Held" {
		t.Errorf("a held node: status %d, %v", r.status, states(last))
	}
	at("release", "node-01", "--cluster", "demo").says(t, exitDone, "node-01 is released")
	at("release", "node-01", "--cluster", "demo").says(t, exitUsage, "nobody holds demo/node-01")
}
