package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/e2e/fleet"
	"github.com/talos-provision/provision/provisioner/upgrade"
)

// A dry run says what would happen and touches neither a node nor a file.
func TestUpgradeDryRunTouchesNothing(t *testing.T) {
	t.Parallel()
	s := newUpgradeSite(t, fleet.Config{Clusters: []fleet.Cluster{{Name: "prod", ControlPlanes: 3, Workers: 1}}})
	args := slices.Concat(withoutKubernetes, []string{"--dry-run", "--to", after})
	s.command(args...).says(t, exitDone, "ORDER", "node-04", "worker", "v1.13.4", after, "metal-installer/37656798…:"+after, "lifecycle", "leads etcd",
		"prod to Talos "+after+": 4 to upgrade, 0 to go on with, 0 done, 0 held, 0 left out")
	r := s.command(slices.Concat(args, []string{"-o", "json"})...)
	var plan upgrade.Plan
	if err := json.Unmarshal([]byte(r.out), &plan); err != nil {
		t.Fatal(err)
	}
	if plan.Target.String() != after || len(plan.Nodes) != 4 || plan.Nodes[3].Position != 1 {
		t.Errorf("plan %+v", plan)
	}
	if diff := cmp.Diff(s.each(1), s.boots()); diff != "" {
		t.Errorf("boots (-want +got):\n%s", diff)
	}
	s.allRun(before)
	for _, m := range s.Machines() {
		if state := m.Disk.State(); state.Version != before {
			t.Errorf("the disk of %s has %s", m.Name, state.Version)
		}
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(s.ConfigFile()), "state")); !os.IsNotExist(err) {
		t.Errorf("the folder of the state: %v, want none", err)
	}
}

// Whatever speaks against an upgrade is told with its cure, and nothing is touched.
func TestUpgradeIsRefusedByItsPlan(t *testing.T) {
	t.Parallel()
	s := newUpgradeSite(t, fleet.Config{Clusters: []fleet.Cluster{{Name: "prod", ControlPlanes: 1}}})
	tests := []struct {
		name   string
		args   []string
		status int
		want   []string
	}{
		{"single node", []string{"--to", after}, exitRefused, []string{"single-node", "--single-node"}},
		{"downgrade", []string{"--to", "v1.12.0", "--single-node"}, exitRefused, []string{"downgrade", "talosctl rollback"}},
		{"no version", []string{"--to", "latest"}, exitUsage, []string{`"latest" is no version of Talos`}},
		{"no such canary", []string{"--to", after, "--canary", "node-77"}, exitUsage, []string{"--canary", "node-77"}},
		{"no such share", []string{"--to", after, "--max-unavailable", "none"}, exitUsage, []string{"--max-unavailable"}},
		{"nothing to continue", []string{"--continue"}, exitUsage, []string{"begin one without --continue"}},
		{"nothing to abandon", []string{"--abandon"}, exitUsage, []string{"no unfinished upgrade"}},
		{"nobody to ask", []string{"--to", "v1.13.9", "--single-node"}, exitRefused, []string{"nobody is here to ask: give --yes"}},
		{"no api", []string{"--to", after, "--api", "new"}, exitUsage, []string{"lifecycle or legacy"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args := append([]string{"--no-drain", "--kubernetes-version", "v1.36.0"}, tt.args...)
			if tt.name != "nobody to ask" {
				args = append(args, "--yes")
			}
			s.command(args...).says(t, tt.status, tt.want...)
			if diff := cmp.Diff(s.each(1), s.boots()); diff != "" {
				t.Errorf("boots (-want +got):\n%s", diff)
			}
		})
	}
	// A person who does not type yes has said no; one who does is asked about this node.
	r := provisionAt(t, strings.NewReader("no\n"), true, "upgrade", "--config", s.ConfigFile(), "--cluster", "prod",
		"--no-drain", "--kubernetes-version", "v1.36.0", "--single-node", "--to", after)
	r.says(t, exitRefused, "These nodes of prod (1) will be UPGRADED to Talos "+after, "1. node-01", "not confirmed: nothing was touched")
}

// The canary goes first and alone; then two workers at a time, but never two
// boards of one chassis, as their BMCs report it; then the control plane.
func TestUpgradeOrdersByCanaryShareAndChassis(t *testing.T) {
	t.Parallel()
	s := newUpgradeSite(t, fleet.Config{Clusters: []fleet.Cluster{{Name: "prod", ControlPlanes: 1, Workers: 4}}, PerChassis: 2})
	for _, tt := range []struct {
		args []string
		want [][]string
	}{
		{[]string{"--max-unavailable", "2"}, [][]string{{"node-02", "node-03"}, {"node-04", "node-05"}, {"node-01"}}},
		{[]string{"--max-unavailable", "50%", "--canary", "node-02"}, [][]string{{"node-02"}, {"node-03", "node-05"}, {"node-04"}, {"node-01"}}},
		{[]string{"--exclude", "node-0[2-3]"}, [][]string{{"node-04"}, {"node-05"}, {"node-01"}}},
		{[]string{"--node", "node-03,node-04", "--max-unavailable", "2"}, [][]string{{"node-03"}, {"node-04"}}},
		{[]string{"--selector", "role=controlplane"}, [][]string{{"node-01"}}},
	} {
		r := s.command(slices.Concat(withoutKubernetes, []string{"--single-node", "--to", after, "--dry-run", "-o", "json"}, tt.args)...)
		r.says(t, exitDone)
		var plan upgrade.Plan
		if err := json.Unmarshal([]byte(r.out), &plan); err != nil {
			t.Fatal(err)
		}
		var got [][]string
		for _, n := range inOrder(plan) {
			switch {
			case n.Batch == 0:
			case n.Batch > len(got):
				got = append(got, []string{n.Node})
			default:
				got[n.Batch-1] = append(got[n.Batch-1], n.Node)
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tt.args, diff)
		}
	}
}
