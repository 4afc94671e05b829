package main

import (
	"testing"

	"github.com/talos-provision/provision/e2e/fleet"
)

func TestReloadSaysWhichInventoryIsUsed(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 2})
	provision(t, "reload", "--config", f.ConfigFile()).says(t, exitFailed, "no daemon answers")
	d := startDaemon(t, f)
	r := provision(t, "reload", "--config", f.ConfigFile())
	r.says(t, exitDone, d.inventory().Generation, "2 nodes in 1 clusters, 2 of them to install")
	provision(t, "reload", "--config", f.ConfigFile(), "--commit", "0123").says(t, exitUsage, "no branch of git")
	provision(t, "reload", "--config", f.ConfigFile(), "-o", "json").says(t, exitDone, `"nodes": 2`)
}
