package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/e2e/fleet"
)

// --method pxe: each node boots the new version once from the network, over its
// installation, which then writes itself to the disk, and ends on its disk.
func TestUpgradeByABootFromTheNetwork(t *testing.T) {
	t.Parallel()
	s := newUpgradeSite(t, fleet.Config{Clusters: []fleet.Cluster{{Name: "prod", ControlPlanes: 1, Workers: 1}}, TimeScale: 0.01})
	edit(t, s.Fleet, "nodes/_defaults.yaml", "install: false", "install: true")
	r, _ := s.run("--method", "pxe", "--single-node")
	r.says(t, exitDone)
	s.allRun(after)
	for _, m := range s.Machines() {
		var sources []string
		for _, boot := range m.Boots() {
			sources = append(sources, boot.Source)
		}
		if diff := cmp.Diff([]string{"disk", "network", "disk"}, sources); diff != "" {
			t.Errorf("%s booted from (-want +got):\n%s", m.Name, diff)
		}
		if state := m.Disk.State(); !state.Configured() || state.Version != after {
			t.Errorf("%s has a config: %t, and on its disk Talos %s; want its config and %s", m.Name, state.Configured(), state.Version, after)
		}
		if n := m.BMC().PowerOns(); n != 1 {
			t.Errorf("%s was powered on by its BMC %d times, want once", m.Name, n)
		}
	}
	noSessions(t, s.Fleet)
}

func TestUpgradeByABootFromTheNetworkKeepsDataOrIsRefused(t *testing.T) {
	t.Parallel()
	s := newUpgradeSite(t, fleet.Config{Clusters: []fleet.Cluster{{Name: "prod", ControlPlanes: 1, Workers: 1}}})
	edit(t, s.Fleet, "nodes/_defaults.yaml", "slab_nomerge", "talos.experimental.wipe=system slab_nomerge")
	r := s.command(append(withoutKubernetes, "--to", after, "--yes", "--method", "pxe", "--single-node")...)
	r.says(t, exitRefused)
	if all := r.out + r.err; !strings.Contains(all, "wipes its disk") {
		t.Errorf("the refusal does not say why:\n%s", all)
	}
	for _, m := range s.Machines() {
		if len(m.Boots()) != 1 {
			t.Errorf("%s was booted again", m.Name)
		}
	}
	if r := s.command(append(withoutKubernetes, "--to", after, "--method", "usb")...); r.status != exitUsage {
		t.Errorf("--method usb: %+v", r)
	}
}
