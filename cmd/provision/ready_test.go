package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/e2e/fleet"
	"github.com/talos-provision/provision/e2e/talosnode"
	"github.com/talos-provision/provision/provisioner"
	"github.com/talos-provision/provision/provisioner/store"
)

// newClusters is a fleet whose nodes have machine configs.
func newClusters(t *testing.T, adjust func(*fleet.Machine), clusters ...fleet.Cluster) *fleet.Fleet {
	t.Helper()
	f := startFleet(t, fleet.Config{
		Clusters: clusters, MachineConfigs: true, TimeScale: 0.01, Adjust: adjust,
		InstallTime: 100 * time.Millisecond, ReadyTime: 50 * time.Millisecond,
	})
	edit(t, f, "provision.yaml", "bootTimeout: 2m", "bootTimeout: 2m\n  installTimeout: 2m\n  readyTimeout: 2m")
	return f
}

// one is a cluster of a single control plane.
var one = fleet.Cluster{Name: "prod", ControlPlanes: 1}

// provisionCluster runs `provision --cluster NAME --yes -o json` and more.
func provisionCluster(t *testing.T, f *fleet.Fleet, cluster string, more ...string) (result, map[string]store.Event) {
	t.Helper()
	r := provision(t, append([]string{"--config", f.ConfigFile(), "--cluster", cluster, "--yes", "-o", "json"}, more...)...)
	return r, lastEvents(t, r.out)
}

func states(events map[string]store.Event) map[string]string {
	got := map[string]string{}
	for node, e := range events {
		got[node] = e.State
	}
	return got
}

// bootstraps is how often etcd of the cluster prod was bootstrapped.
func bootstraps(f *fleet.Fleet) int {
	for _, c := range f.Clusters() {
		if c.Name == one.Name {
			return c.Bootstraps
		}
	}
	return 0
}

func powerOns(f *fleet.Fleet) []int {
	counts := make([]int, len(f.Machines()))
	for i, m := range f.Machines() {
		counts[i] = m.BMC().PowerOns()
	}
	return counts
}

func TestANewClusterGoesFromPoweredOffToReady(t *testing.T) {
	t.Parallel()
	f := newClusters(t, nil, fleet.Cluster{Name: "prod", ControlPlanes: 3, Workers: 1}, fleet.Cluster{Name: "test", ControlPlanes: 1})
	r, last := provisionCluster(t, f, "prod")
	if r.status != exitDone {
		t.Fatalf("status %d, want %d:\n%s%s", r.status, exitDone, r.out, r.err)
	}
	want := map[string]string{"node-01": "Ready", "node-02": "Ready", "node-03": "Ready", "node-04": "Ready"}
	if diff := cmp.Diff(want, states(last)); diff != "" {
		t.Errorf("last states (-want +got):\n%s", diff)
	}
	if n := bootstraps(f); n != 1 {
		t.Errorf("etcd was bootstrapped %d times, want once (I6)", n)
	}
	untouched(t, f.Machines()[4])
	noSessions(t, f)

	// Run again: everything is done, and nothing is touched.
	r, last = provisionCluster(t, f, "prod")
	if diff := cmp.Diff(want, states(last)); diff != "" || r.status != exitDone {
		t.Errorf("again: status %d, last states (-want +got):\n%s", r.status, diff)
	}
	if diff := cmp.Diff([]int{1, 1, 1, 1, 0}, powerOns(f)); diff != "" {
		t.Errorf("power-ons (-want +got):\n%s", diff)
	}
	if n := bootstraps(f); n != 1 {
		t.Errorf("after the second run etcd was bootstrapped %d times, want once (I6)", n)
	}

	// Another cluster of the same inventory is none of the first's business.
	if r, last := provisionCluster(t, f, "test"); r.status != exitDone || last["node-05"].State != "Ready" {
		t.Errorf("cluster test: status %d, %+v", r.status, last)
	}
}

func TestUntilEndsARunAtEachGoalAndTheNextRunGoesOnWithoutAPowerCycle(t *testing.T) {
	t.Parallel()
	f := newClusters(t, nil, one)
	for _, step := range []struct{ until, state string }{
		{"maintenance", "Maintenance"}, {"configured", "Configured"}, {"installed", "Installed"}, {"ready", "Ready"},
	} {
		r, last := provisionCluster(t, f, "prod", "--until", step.until)
		if r.status != exitDone || last["node-01"].State != step.state {
			t.Fatalf("--until %s: status %d, last %+v; want %s\n%s", step.until, r.status, last["node-01"], step.state, r.err)
		}
	}
	if diff := cmp.Diff([]int{1}, powerOns(f)); diff != "" {
		t.Errorf("power-ons (-want +got):\n%s", diff)
	}
}

// I2: a node that was given its config, and one that was installed, is not booted anew because it is silent.
func TestI2ASilentNodeThatHasItsConfigIsNotInstalledAnew(t *testing.T) {
	t.Parallel()
	f := newClusters(t, nil, one)
	if r, last := provisionCluster(t, f, "prod"); last["node-01"].State != "Ready" {
		t.Fatalf("status %d, %+v", r.status, last)
	}
	if err := f.Machines()[0].PowerOff(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 3 { // what a run writes down of it does not make the next forget
		r, last := provisionCluster(t, f, "prod")
		if e := last["node-01"]; r.status != exitRefused || e.State != "Held" || !strings.Contains(e.Error, "installed it, and it does not answer") {
			t.Errorf("status %d, last event %+v; want it held", r.status, e)
		}
	}
	if diff := cmp.Diff([]int{1}, powerOns(f)); diff != "" {
		t.Errorf("power-ons (-want +got):\n%s", diff)
	}
}

func TestAGoalThatCannotBeReachedIsRefusedBeforeAnythingIsTouched(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, file, old, replacement string
		until                        string
		status                       int
		want                         string
	}{
		{"unknown goal", "", "", "", "finished", exitUsage, "use maintenance, configured, installed, ready"},
		{"no machine config", "nodes/prod/_defaults.yaml", "machineConfig:", "# machineConfig:", "ready", exitFailed, "needs a machine config"},
		{"no talosconfig", "nodes/prod/_defaults.yaml", "talosconfig:", "# talosconfig:", "", exitFailed, "takes the cluster's talosconfig"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newClusters(t, nil, one)
			if tt.file != "" {
				edit(t, f, tt.file, tt.old, tt.replacement)
			}
			r, _ := provisionCluster(t, f, "prod", "--until", tt.until)
			if all := r.out + r.err; r.status != tt.status || !strings.Contains(all, tt.want) {
				t.Errorf("status %d, want %d and %q:\n%s", r.status, tt.status, tt.want, all)
			}
			untouched(t, f.Machines()...)
		})
	}
}

// Each failure after maintenance is named for what it is.
func TestAFailureAfterMaintenanceIsNamed(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		adjust func(*fleet.Machine)
		edits  [][3]string // file, old, new
		cause  provisioner.Cause
		want   string
		// installed says whether something may be on the disk at the end.
		installed bool
	}{
		{
			name: "selector matches no disk", edits: [][3]string{{"configs/prod/node-01.yaml", "disk: /dev/vda", "disk: /dev/sdz"}},
			cause: provisioner.CauseInstallDisk, want: "/dev/vda",
		},
		{
			name: "selector matches several disks",
			adjust: func(m *fleet.Machine) {
				m.Devices = []talosnode.Device{{Path: "/dev/sda", Size: 1 << 40}, {Path: "/dev/sdb", Size: 1 << 40}}
			},
			edits: [][3]string{{"configs/prod/node-01.yaml", "disk: /dev/vda", "diskSelector:\n            size: '>= 100GB'"}},
			cause: provisioner.CauseInstallDisk, want: "/dev/sdb",
		},
		{
			name: "the node's validator refuses the config", edits: [][3]string{{"configs/prod/node-01.yaml", "    kubelet:", "    kubelett:"}},
			cause: provisioner.CauseMachineConfig, want: "unknown keys found",
		},
		{
			name:   "another version is installed",
			adjust: func(m *fleet.Machine) { m.Faults.InstalledVersion = "v1.12.11" },
			cause:  provisioner.CauseInstalledDiffers, want: "Talos version is v1.12.11, not v1.13.9", installed: true,
		},
		{
			name:   "the install image cannot be pulled",
			adjust: func(m *fleet.Machine) { m.Faults.PullFails = true },
			edits:  [][3]string{{"provision.yaml", "installTimeout: 2m", "installTimeout: 5s"}},
			cause:  provisioner.CauseNotInstalled, want: "silent for 5s",
		},
		{
			name:   "Kubernetes never says Ready",
			adjust: func(m *fleet.Machine) { m.Faults.NeverReady = true },
			edits:  [][3]string{{"provision.yaml", "readyTimeout: 2m", "readyTimeout: 8s"}},
			cause:  provisioner.CauseNotReady, want: `"node-01" is not ready`, installed: true,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newClusters(t, tt.adjust, one)
			for _, e := range tt.edits {
				edit(t, f, e[0], e[1], e[2])
			}
			r, last := provisionCluster(t, f, "prod")
			e := last["node-01"]
			if r.status != exitFailed || e.State != "Failed" || e.Message != string(tt.cause) || !strings.Contains(e.Error, tt.want) {
				t.Errorf("status %d, last event %+v; want Failed, %q with %q\n%s", r.status, e, tt.cause, tt.want, r.err)
			}
			if e.Hint == "" {
				t.Error("the failure has no hint for a person")
			}
			if installed := f.Machines()[0].Disk.State().Installed(); installed != tt.installed {
				t.Errorf("installed: %v, want %v", installed, tt.installed)
			}
			noSessions(t, f)
		})
	}
}

// A talosconfig of other secrets than the machine config's could not see the
// node that it made: that is told before anything is touched.
func TestATalosconfigOfAnotherClusterIsRefused(t *testing.T) {
	t.Parallel()
	f := newClusters(t, nil, one, fleet.Cluster{Name: "other", ControlPlanes: 1})
	edit(t, f, "nodes/prod/_defaults.yaml", "configs/prod/talosconfig", "configs/other/talosconfig")
	r, _ := provisionCluster(t, f, "prod")
	if r.status != exitUsage || !strings.Contains(r.err, "prod/_defaults.yaml:6:14: error: the talosconfig of prod/node-01") {
		t.Errorf("status %d, want %d and the place of the talosconfig:\n%s", r.status, exitUsage, r.err)
	}
	untouched(t, f.Machines()...)
}

// A firmware that always tries the network first is sent to its disk, and that is told.
func TestANodeThatLandsInPXEAfterItsInstallIsSentToItsDiskAndTold(t *testing.T) {
	t.Parallel()
	f := newClusters(t, func(m *fleet.Machine) { m.NetworkFirst = true }, one)
	r, last := provisionCluster(t, f, "prod")
	if r.status != exitDone || last["node-01"].State != "Ready" {
		t.Fatalf("status %d, last event %+v", r.status, last["node-01"])
	}
	if !strings.Contains(r.out, "boots from the network again") {
		t.Errorf("nothing was told of the second boot from the network:\n%s", r.out)
	}
}

// I6: etcd is bootstrapped only when every control plane of the inventory is known to have none.
func TestI6EtcdIsNotBootstrappedWhileAControlPlaneIsSilent(t *testing.T) {
	t.Parallel()
	f := newClusters(t, func(m *fleet.Machine) { m.Install = m.Name != "node-02" }, fleet.Cluster{Name: "prod", ControlPlanes: 2})
	edit(t, f, "provision.yaml", "readyTimeout: 2m", "readyTimeout: 8s")
	r, last := provisionCluster(t, f, "prod")
	e := last["node-01"]
	if r.status != exitFailed || e.Message != string(provisioner.CauseBootstrap) || !strings.Contains(e.Error, "node-02") {
		t.Errorf("status %d, last event %+v; want %q, for the sake of node-02", r.status, e, provisioner.CauseBootstrap)
	}
	if n := bootstraps(f); n != 0 {
		t.Errorf("etcd was bootstrapped %d times beside a control plane that may have its data", n)
	}
}

// I6: a node whose config cannot be read may be a control plane with the cluster's data.
func TestI6EtcdIsNotBootstrappedWhileARoleIsUnknown(t *testing.T) {
	t.Parallel()
	f := newClusters(t, func(m *fleet.Machine) { m.Install = m.Name != "node-02" }, fleet.Cluster{Name: "prod", ControlPlanes: 2})
	edit(t, f, "provision.yaml", "readyTimeout: 2m", "readyTimeout: 8s")
	if err := os.Remove(filepath.Join(filepath.Dir(f.ConfigFile()), "configs/prod/node-02.yaml")); err != nil {
		t.Fatal(err)
	}
	r, last := provisionCluster(t, f, "prod")
	e := last["node-01"]
	if r.status != exitFailed || e.Message != string(provisioner.CauseBootstrap) || !strings.Contains(e.Error, "whether node-02 is a control plane") {
		t.Errorf("status %d, last event %+v; want %q, for the sake of node-02", r.status, e, provisioner.CauseBootstrap)
	}
	if n := bootstraps(f); n != 0 {
		t.Errorf("etcd was bootstrapped %d times beside a node that may have its data", n)
	}
}

// I6: a control plane that is added to a living cluster joins it.
func TestI6ANewControlPlaneJoinsACluster(t *testing.T) {
	t.Parallel()
	f := newClusters(t, nil, fleet.Cluster{Name: "prod", ControlPlanes: 2})
	added := filepath.Join(filepath.Dir(f.ConfigFile()), "nodes/prod/node-02.yaml")
	text, err := os.ReadFile(added)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(added); err != nil {
		t.Fatal(err)
	}
	if r, last := provisionCluster(t, f, "prod"); r.status != exitDone || last["node-01"].State != "Ready" {
		t.Fatalf("the first: status %d, %+v", r.status, last)
	}
	writeFile(t, added, string(text))
	r, last := provisionCluster(t, f, "prod")
	if diff := cmp.Diff(map[string]string{"node-01": "Ready", "node-02": "Ready"}, states(last)); diff != "" || r.status != exitDone {
		t.Errorf("the second: status %d (-want +got):\n%s", r.status, diff)
	}
	if n := bootstraps(f); n != 1 {
		t.Errorf("etcd was bootstrapped %d times, want once", n)
	}
	if diff := cmp.Diff([]int{1, 1}, powerOns(f)); diff != "" {
		t.Errorf("power-ons (-want +got):\n%s", diff)
	}
}

// I8: wherever the controller is killed on the way to Ready, the next run
// finishes it with one power cycle, one install and one bootstrap.
func TestI8AKilledInstallGoesOn(t *testing.T) {
	t.Parallel()
	starts := func(state, message string) func(store.Event) bool {
		return func(e store.Event) bool { return e.State == state && strings.HasPrefix(e.Message, message) }
	}
	for name, at := range map[string]func(store.Event) bool{
		"in maintenance":          starts("Maintenance", "Talos"),
		"before the config":       starts("Maintenance", "accepts"),
		"while it installs":       starts("Configured", ""),
		"when installed":          starts("Installed", "Talos"),
		"before the bootstrap":    starts("Installed", "bootstraps"),
		"when the last is Ready ": starts("Ready", ""),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newClusters(t, nil, one)
			first := startProcessOn(t, f, "prod")
			first.await(name, at)
			if err := first.cmd.Process.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			first.end()
			second := startProcessOn(t, f, "prod")
			second.await("Ready", reaches("Ready", ""))
			if status := second.end(); status != exitDone {
				t.Errorf("status %d after the restart, want %d", status, exitDone)
			}
			if n := f.Machines()[0].BMC().PowerOns(); n != 1 {
				t.Errorf("powered on %d times, want 1", n)
			}
			if n := bootstraps(f); n != 1 {
				t.Errorf("etcd was bootstrapped %d times, want once", n)
			}
		})
	}
}

// I9: nothing of a machine config or of the cluster's secrets leaves the process
// but to its node: not at debug level, not in state, events or errors.
func TestI9NoSecretOfAClusterIsLoggedOrStored(t *testing.T) {
	t.Parallel()
	f := newClusters(t, nil, one)
	dir := filepath.Dir(f.ConfigFile())
	secrets := secretsOf(t, filepath.Join(dir, "configs/prod"))
	if len(secrets) < 10 {
		t.Fatalf("only %d secrets found in the configs", len(secrets))
	}
	r, last := provisionCluster(t, f, "prod", "--log-level", "debug")
	if last["node-01"].State != "Ready" {
		t.Fatalf("status %d, %+v", r.status, last["node-01"])
	}
	for where, text := range textsOf(t, r, filepath.Join(dir, "state")) {
		for _, secret := range secrets {
			if strings.Contains(text, secret) {
				t.Errorf("%s holds the secret %.12s…", where, secret)
			}
		}
	}
}

// secretsOf are the long values of every config of a folder that stand behind a key whose value is secret.
func secretsOf(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var secrets []string
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(string(text), "\n") {
			key, value, found := strings.Cut(strings.TrimSpace(line), ": ")
			switch key {
			case "token", "key", "secret", "id", "aescbcEncryptionSecret", "secretboxEncryptionSecret", "crt", "ca":
				if found && len(value) > 10 {
					secrets = append(secrets, value)
				}
			}
		}
	}
	return secrets
}
