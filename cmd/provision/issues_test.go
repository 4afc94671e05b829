package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/e2e/fleet"
	"github.com/talos-provision/provision/e2e/talosnode"
	"github.com/talos-provision/provision/provisioner"
)

// Cases that others have reported of network boot and installs, each by its
// number, against the emulated fleet.

// siderolabs/talos#6696: a machine with an installation on its disk comes up
// configured also when it boots from the network. It was off, so that nobody saw
// it before. Its disk is kept, whichever way configs are delivered.
func TestIssue6696AnInstallationOnTheDiskIsFoundAndKept(t *testing.T) {
	t.Parallel()
	for _, delivery := range []string{"api", "url"} {
		t.Run(delivery, func(t *testing.T) {
			t.Parallel()
			f := newClusters(t, nil, one, fleet.Cluster{Name: "other", ControlPlanes: 1})
			edit(t, f, "provision.yaml", "delivery: api", "delivery: "+delivery)
			foreign, err := os.ReadFile(filepath.Join(filepath.Dir(f.ConfigFile()), "configs/other/node-02.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			m := f.Machines()[0]
			before := talosnode.DiskState{
				Device: "/dev/vda", Version: "v1.12.11", Cmdline: "talos.platform=metal", EtcdMember: 7,
				MachineConfig: []byte(strings.ReplaceAll(string(foreign), f.Machines()[1].IP.String(), m.IP.String())),
			}
			if err := m.Disk.Update(func(s *talosnode.DiskState) { *s = before }); err != nil {
				t.Fatal(err)
			}
			r, last := provisionCluster(t, f, "prod")
			if e := last["node-01"]; r.status != exitFailed || e.Message != string(provisioner.CauseConfigured) || !strings.Contains(e.Hint, "--reinstall") {
				t.Errorf("status %d, last event %+v; want %q", r.status, e, provisioner.CauseConfigured)
			}
			if diff := cmp.Diff(before, m.Disk.State()); diff != "" {
				t.Errorf("the disk (-before +after):\n%s", diff)
			}
			if diff := cmp.Diff([]int{1, 0}, powerOns(f)); diff != "" {
				t.Errorf("power-ons (-want +got):\n%s", diff)
			}
		})
	}
}

// siderolabs/sidero#1321, siderolabs/omni-infra-provider-bare-metal#37: a machine
// that boots the network first was wiped again after its own install, for ever.
// The wipe is an argument of one boot.
func TestIssue1321AReinstalledNodeIsWipedOnce(t *testing.T) {
	t.Parallel()
	f := newClusters(t, func(m *fleet.Machine) { m.NetworkFirst = true }, one)
	if r, last := provisionCluster(t, f, "prod"); last["node-01"].State != "Ready" {
		t.Fatalf("the first install: status %d, %+v", r.status, last["node-01"])
	}
	m := f.Machines()[0]
	r, last := provisionCluster(t, f, "prod", "--reinstall", "node-01")
	if r.status != exitDone || last["node-01"].State != "Ready" {
		t.Fatalf("the reinstall: status %d, %+v", r.status, last["node-01"])
	}
	wipes := 0
	for _, b := range m.Boots() {
		if strings.Contains(b.Cmdline, "talos.experimental.wipe=system") {
			wipes++
		}
	}
	if wipes != 1 || m.BMC().PowerOns() != 2 {
		t.Errorf("wiped %d times in %d power-ons, want once in 2", wipes, m.BMC().PowerOns())
	}
}

// siderolabs/omni-infra-provider-bare-metal#41: that the script, the kernel and
// the initramfs were served is no proof that Talos runs.
func TestIssue41AServedImageIsNoBootedMachine(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Clusters: []fleet.Cluster{one}, MachineConfigs: true, TimeScale: 0.01, KernelTime: time.Hour})
	edit(t, f, "provision.yaml", "bootTimeout: 2m", "bootTimeout: 12s")
	edit(t, f, "provision.yaml", "attempts: 2", "attempts: 1")
	r, last := provisionCluster(t, f, "prod")
	e := last["node-01"]
	if r.status != exitFailed || e.Message != string(provisioner.CauseKernelNeverCameUp) || strings.Contains(r.out, `"Maintenance"`) {
		t.Errorf("status %d, last event %+v; want %q", r.status, e, provisioner.CauseKernelNeverCameUp)
	}
}

// siderolabs/talos#5627, #10225, #9947 and #9944: arguments with which a node
// never shows its API, never gets its config, or never starts are told by file
// and line, before anything is touched.
func TestIssue5627ArgumentsThatNeverComeUpAreRefusedBeforeAnyPower(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ old, replacement, want string }{
		"5627 siderolink.api":          {"pti=on", "pti=on siderolink.api=https://omni", "siderolink.api="},
		"10225 a variable in the path": {"pti=on", "pti=on talos.config=https://c/${serial}.yaml", "talos.config="},
		"9947, 9944 no talos.platform": {"talos.platform=metal ", "", "talos.platform=metal"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newClusters(t, nil, one)
			edit(t, f, "nodes/_defaults.yaml", tt.old, tt.replacement)
			r, _ := provisionCluster(t, f, "prod")
			if all := r.out + r.err; r.status != exitUsage || !strings.Contains(all, tt.want) || !strings.Contains(all, "_defaults.yaml:") {
				t.Errorf("status %d, want %d and %q with its place:\n%s", r.status, exitUsage, tt.want, all)
			}
			untouched(t, f.Machines()...)
		})
	}
}
