package daemon

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/provisioner"
	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/web"
)

// resume goes on with the runs that a daemon began and did not finish: this one
// before the state was out of reach, or one that died.
func (d *Daemon) resume(l *leading) {
	runs, err := d.opts.Store.Runs()
	if err != nil {
		d.opts.Log.Warn("unfinished runs cannot be seen", "error", err)
		return
	}
	for _, r := range runs {
		if r.Daemon && r.Finished.IsZero() && !r.Stopped && r.Site == d.opts.Site && !d.busy(r.Cluster) && !d.resting(r.Cluster) {
			d.goOn(l, r)
		}
	}
}

// takeUpPatience bounds how long machines that boot wait for a run that was cut short
// to be planned anew: BMCs that do not answer must not keep everybody waiting.
const takeUpPatience = 45 * time.Second

// takeUp goes on with the runs that were cut short, and returns when they have their nodes.
func (d *Daemon) takeUp(l *leading) {
	bounded, cancel := context.WithTimeout(l.ctx, takeUpPatience)
	defer cancel()
	planned := make(chan struct{})
	l.jobs.Go(func() {
		defer close(planned)
		if d.opts.Store.Alive() == nil {
			d.resume(l)
		}
	})
	select {
	case <-planned:
	case <-bounded.Done():
		return
	}
	d.mu.Lock()
	jobs := slices.Collect(maps.Values(d.jobs))
	d.mu.Unlock()
	for _, j := range jobs {
		select {
		case <-j.enlisted:
		case <-j.ended:
		case <-bounded.Done():
		}
	}
}

// goOn plans an unfinished run anew and carries it on. What was to be wiped and was
// not begun is not wiped now: who confirmed it may not know that it is still to come (I2).
func (d *Daemon) goOn(l *leading, r store.Run) {
	_, g := d.now()
	until, err := provisioner.ParseGoal(r.Until)
	if err != nil {
		until = ""
	}
	limit, err := provisioner.ParseLimit(r.MaxFailures)
	if err != nil {
		limit = provisioner.Limit{}
	}
	plan, err := l.controller.Plan(l.ctx, provisioner.Request{
		Cluster: r.Cluster, Selected: named(g.Tree, r.Nodes), Until: until, MaxFailures: limit, Daemon: true,
	})
	if err == nil {
		_, err = d.launch(l, plan, "this daemon, which goes on with it", nil)
	}
	if err != nil && l.ctx.Err() == nil && !errors.Is(err, web.ErrBusy) {
		d.opts.Log.Error("an unfinished run cannot be carried on; it is tried again", "run", r.ID, "cluster", r.Cluster, "error", err)
		return
	}
	d.opts.Log.Info("goes on with a run that was not finished", "run", r.ID, "cluster", r.Cluster)
}

// named are the nodes of a tree with these names, as cluster/name.
func named(tree *inventory.Tree, ids []string) []inventory.Node {
	wanted := make(map[string]bool, len(ids))
	for _, id := range ids {
		wanted[id] = true
	}
	var nodes []inventory.Node
	for _, n := range tree.Nodes {
		if wanted[n.ID()] {
			nodes = append(nodes, n)
		}
	}
	return nodes
}
