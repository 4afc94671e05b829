package daemon

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/inventory/source"
	"github.com/talos-provision/provision/provisioner"
)

// What was last done about a node's `install`, as it is kept in the store: the
// marks of a node are markOff, or the digest of what the inventory said of it.
const markOff = "off"

// baseline names the mark of the inventory itself: nodes of the site without a mark of
// their own came after it. Each site has one: another may have begun years before.
func (d *Daemon) baseline() string {
	if d.opts.Site == "" {
		return "baseline"
	}
	return "baseline of " + d.opts.Site
}

// autoInstall starts a run for every node that a new generation marks install:
// true, once for each generation of that node. What is there when the daemon sees
// an inventory for the first time is not installed by itself: with a state that
// was lost, it would wipe machines that are off (I6).
func (d *Daemon) autoInstall(l *leading) {
	settings, g := d.now()
	seen := fmt.Sprint(g.ID, settings.AutoInstall)
	if l.autoSeen == seen {
		return
	}
	done, err := d.look(l, settings, g)
	if err != nil && l.ctx.Err() == nil {
		d.opts.Log.Error("nodes that were marked install: true are not installed by themselves now; it is tried again", "error", err)
	}
	if done && err == nil {
		l.autoSeen = seen
	}
}

// look compares a generation with the marks. It is done when every node has its
// mark: none has to wait for another run of its cluster to end, or for its images.
func (d *Daemon) look(l *leading, settings Settings, g source.Generation) (done bool, err error) {
	marks, err := d.opts.Store.Marks()
	if err != nil {
		return false, err
	}
	_, known := marks[d.baseline()]
	changed := map[string]string{}
	if !known {
		changed[d.baseline()] = g.ID
	}
	due := map[string][]inventory.Node{}
	for _, n := range g.Tree.Nodes {
		if d.opts.Site != "" && n.Labels[provisioner.SiteLabel] != d.opts.Site {
			continue
		}
		before, marked := marks[n.ID()]
		mark := markOf(n)
		switch {
		case marked && before == mark:
		case known && settings.AutoInstall && n.Install && d.wants(n, before, marked):
			due[n.Cluster] = append(due[n.Cluster], n) // its run marks it
		default:
			changed[n.ID()] = mark
		}
	}
	if err := d.opts.Store.SetMarks(changed); err != nil {
		return false, err
	}
	for cluster, nodes := range due {
		waits, err := d.anotherComesFirst(cluster)
		if err == nil && !waits {
			err = d.installAlone(l, cluster, nodes)
		}
		if err != nil {
			return false, err
		}
	}
	return len(due) == 0, nil
}

// anotherComesFirst says whether a run of the cluster has to end before: one that goes
// on or rests, or one that a person stopped or a command left, which is for people to
// go on with.
func (d *Daemon) anotherComesFirst(cluster string) (bool, error) {
	if d.busy(cluster) || d.resting(cluster) {
		return true, nil
	}
	_, unfinished, err := d.opts.Store.UnfinishedRun(cluster, d.opts.Site)
	return unfinished, err
}

// wants says whether a node that is marked install: true is to be installed by
// itself: it is new or was not to be installed before, or it was changed after a
// failure that left no config on it.
func (d *Daemon) wants(n inventory.Node, before string, marked bool) bool {
	if !marked || before == markOff {
		return true
	}
	record, found, err := d.opts.Store.Node(n.Cluster, n.Name)
	return err == nil && found && provisioner.State(record.State) == provisioner.Failed && record.ConfiguredBy == ""
}

// installAlone begins a run that nobody asked for by hand.
func (d *Daemon) installAlone(l *leading, cluster string, nodes []inventory.Node) error {
	settings, _ := d.now()
	plan, err := l.controller.Plan(l.ctx, provisioner.Request{Cluster: cluster, Selected: nodes, MaxFailures: settings.MaxFailures, Daemon: true})
	if err != nil {
		return err
	}
	// The run writes them when its images are there, and before it touches a machine: one that cannot
	// begin now is tried again, one that kills the controller is not.
	marks := make(map[string]string, len(nodes))
	names := make([]string, 0, len(nodes))
	for _, n := range nodes {
		marks[n.ID()] = markOf(n)
		names = append(names, n.Name)
	}
	j, err := d.launch(l, plan, "a change of the inventory", marks)
	if err != nil {
		return fmt.Errorf("begin a run of %v in cluster %s: %w", names, cluster, err)
	}
	d.opts.Log.Info("installs nodes that the inventory has marked install: true", "run", j.id, "cluster", cluster, "nodes", names)
	return nil
}

// markOf is one generation of a node: all that its files say of it, if it is to be installed.
func markOf(n inventory.Node) string {
	if !n.Install {
		return markOff
	}
	text, err := json.Marshal(n)
	if err != nil {
		text = []byte(n.ID()) // a node is made of plain values: it cannot fail
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:12])
}
