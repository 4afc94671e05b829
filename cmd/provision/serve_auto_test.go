package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/e2e/fleet"
	"github.com/talos-provision/provision/e2e/talosnode"
	"github.com/talos-provision/provision/provisioner/store"
)

// autoFleet is a fleet whose first node alone is marked install: true, and whose
// daemon installs by itself what a change of the inventory marks so.
func autoFleet(t *testing.T, config fleet.Config) *fleet.Fleet {
	t.Helper()
	adjust := config.Adjust
	config.Adjust = func(m *fleet.Machine) {
		m.Install = m.Name == "node-01"
		if adjust != nil {
			adjust(m)
		}
	}
	f := startFleet(t, config)
	edit(t, f, "provision.yaml", "talos:\n", "serve:\n  autoInstall: true\ntalos:\n")
	return f
}

// mark marks a node install: true.
func mark(t *testing.T, f *fleet.Fleet, node string) {
	t.Helper()
	edit(t, f, "nodes/demo/"+node+".yaml", "install: false", "install: true")
}

// marks are what the daemon has noted of each node's install, by a copy of its state.
func (d *daemonProcess) marks() map[string]string {
	d.t.Helper()
	file, err := os.Create(filepath.Join(d.t.TempDir(), "copy.db"))
	if err != nil {
		d.t.Fatal(err)
	}
	if err := errors.Join(d.Backup(d.t.Context(), file), file.Close()); err != nil {
		d.t.Fatal(err)
	}
	state, err := store.OpenReadOnly(file.Name())
	if err != nil {
		d.t.Fatal(err)
	}
	marks, err := state.Marks()
	if err := errors.Join(err, state.Close()); err != nil {
		d.t.Fatal(err)
	}
	return marks
}

func TestWhatACommitMarksIsInstalledOnceAndNothingElse(t *testing.T) {
	t.Parallel()
	f := autoFleet(t, fleet.Config{Nodes: 3})
	d := startDaemon(t, f)
	// I6: what is there when the daemon starts for the first time is not installed, also not after an unrelated change.
	d.afterEdit(func() { put(t, f, "nodes/demo/notes.txt", "racked\n") })
	d.stays("no run begins by itself", func() bool { return len(d.runs()) == 0 })

	d.afterEdit(func() { mark(t, f, "node-02") })
	run := d.finished()
	if run.By != "a change of the inventory" || run.Nodes != 1 || len(run.Summary.Done) != 1 || run.Summary.Done[0].Name != "node-02" {
		t.Errorf("the run is %+v, %+v; want node-02 alone", run, run.Summary)
	}
	// Neither a file that is touched nor a comment nor a restart begins it again.
	d.afterEdit(func() { edit(t, f, "nodes/demo/node-02.yaml", "install: true", "install: true # at last") })
	if err := os.Chtimes(filepath.Join(folderOf(f), "nodes/demo/node-02.yaml"), time.Now(), time.Now()); err != nil {
		t.Fatal(err)
	}
	d.stop()
	d = startDaemon(t, f)

	// Switched off, it takes note and installs nothing; switched on again, neither.
	edit(t, f, "provision.yaml", "autoInstall: true", "autoInstall: false")
	d.reload()
	d.afterEdit(func() { mark(t, f, "node-03") })
	d.until("a note of node-03", func() bool { return d.marks()["demo/node-03"] != "off" })
	edit(t, f, "provision.yaml", "autoInstall: false", "autoInstall: true")
	d.reload()
	d.stays("no other run begins by itself", func() bool {
		runs := d.runs()
		return len(runs) == 1 && runs[0].ID == run.ID
	})
	if diff := cmp.Diff([]int{0, 1, 0}, powerOns(f)); diff != "" {
		t.Errorf("power-ons (-want +got):\n%s", diff)
	}
}

func TestAFailedNodeIsTriedAgainWhenItsFilesChange(t *testing.T) {
	t.Parallel()
	f := autoFleet(t, fleet.Config{Nodes: 3, Adjust: func(m *fleet.Machine) {
		if m.Name == "node-02" {
			m.Password = "another-password"
		}
	}})
	// I2: a node that runs a configured Talos is never installed by itself.
	configured := f.Machines()[2]
	if _, err := talosnode.StartConfigured(t.Context(), talosnode.Config{Address: configured.IP.String(), Version: "v1.13.9"}); err != nil {
		t.Fatal(err)
	}
	d := startDaemon(t, f)
	d.until("the first look", func() bool { return d.marks()["demo/node-02"] == "off" })
	d.afterEdit(func() {
		mark(t, f, "node-02")
		mark(t, f, "node-03")
	})
	first := d.finished()
	d.until("both nodes to be tried", func() bool { return d.node("node-02") == "Failed" && d.node("node-03") == "Held" })

	put(t, f, "right-password", "another-password\n")
	d.afterEdit(func() {
		edit(t, f, "nodes/demo/node-03.yaml", "install: true", "dns0: 9.9.9.9\ninstall: true")
		edit(t, f, "nodes/demo/node-02.yaml", "bmc:\n", "bmc:\n  passwordFile: "+filepath.Join(folderOf(f), "right-password")+"\n")
	})
	d.until("the failed node to be installed", func() bool { return d.node("node-02") == "Maintenance" })
	second := d.finished(first.ID)
	if second.Nodes != 1 || len(second.Summary.Done) != 1 || second.Summary.Done[0].Name != "node-02" {
		t.Errorf("tried again: %+v, %+v; want node-02 alone", second, second.Summary)
	}
	untouched(t, f.Machines()[0], configured)
}

// While a run of the cluster goes on, what a commit marks waits for its end.
func TestWhatACommitMarksWaitsForTheRunOfItsCluster(t *testing.T) {
	t.Parallel()
	f := autoFleet(t, fleet.Config{Nodes: 2, POST: 2 * time.Second})
	d := startDaemon(t, f)
	d.until("the first look", func() bool { return d.marks()["demo/node-02"] == "off" })
	events := d.watch()
	byHand := d.begin()
	await(t, events, "the power-on", in("node-01", "PowerCycled", ""))
	d.afterEdit(func() { mark(t, f, "node-02") })
	if runs := d.runs(); len(runs) != 1 || !runs[0].Finished.IsZero() {
		t.Fatalf("runs: %+v, want the first under way", runs)
	}
	alone := await(t, events, "the second node", in("node-02", "Maintenance", ""))
	if alone.Run == byHand.ID {
		t.Errorf("node-02 was taken into run %s", byHand.ID)
	}
	if diff := cmp.Diff([]int{1, 1}, powerOns(f)); diff != "" {
		t.Errorf("power-ons (-want +got):\n%s", diff)
	}
	nodes, err := d.Nodes(t.Context(), "demo")
	if err != nil || len(nodes) != 2 || nodes[0].State != "Maintenance" || nodes[1].Since.Before(nodes[0].Since) {
		t.Errorf("nodes: %+v, %v; want node-02 after node-01", nodes, err)
	}
}
