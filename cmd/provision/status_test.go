package main

import (
	"maps"
	"slices"
	"testing"

	"github.com/talos-provision/provision/e2e/fleet"
)

func TestStatusTakesASelection(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 3})
	if r, _ := install(t, f); r.status != exitDone {
		t.Fatalf("status %d: %s", r.status, r.err)
	}
	for args, want := range map[string][]string{
		"":                    {"node-01", "node-02", "node-03"},
		"--node=node-[01-02]": {"node-01", "node-02"},
		"--exclude=node-02":   {"node-01", "node-03"},
		"--node=node-*":       {"node-01", "node-02", "node-03"},
	} {
		var extra []string
		if args != "" {
			extra = []string{args}
		}
		if got := slices.Sorted(maps.Keys(status(t, f, extra...))); !slices.Equal(got, want) {
			t.Errorf("status %s shows %v, want %v", args, got, want)
		}
	}
	if r := provision(t, "status", "--config", f.ConfigFile(), "--node", "nobody"); r.status != exitUsage {
		t.Errorf("an unknown node: status %d, want %d", r.status, exitUsage)
	}
}
