// Package dashboardtest is a daemon for tests and pictures of the dashboard: it
// has whatever it is given, and does what it is told without any machine.
package dashboardtest

import (
	"context"
	"slices"
	"sync"

	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/web"
)

// Data is what a Control knows. Err, when set, is what every question is answered with.
type Data struct {
	Nodes      []store.Node
	Fleet      []web.InventoryNode
	Boots      map[string]store.Boot // by cluster/node
	Conflicts  map[string]string     // by cluster/node
	Collisions []web.Collision
	Unknown    []store.Unknown
	Runs       []web.RunInfo
	Upgrades   []web.UpgradeInfo
	Inventory  web.InventoryInfo
	Health     []web.Check
	Holds      []store.Hold
	Events     []store.Event
	Err        error
}

// Control is a daemon that holds Data. It is safe for concurrent use.
type Control struct {
	mu     sync.Mutex
	data   Data
	news   chan struct{} // closed, and made anew, with every event
	follow int           // who follows the events now
	// Stopped and Reloads are what it was told.
	stopped []string
	reloads int
	asked   int // questions for all nodes
}

// New makes a Control that knows data.
func New(data Data) *Control { return &Control{data: data, news: make(chan struct{})} }

// Change changes what it knows, and tells an event if it has a node.
func (c *Control) Change(change func(*Data), e store.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.data)
	if e.Node == "" {
		return
	}
	c.data.Events = append(c.data.Events, e)
	close(c.news)
	c.news = make(chan struct{})
}

// Followers is how many follow the events now, Asked how often all nodes were asked for.
func (c *Control) Followers() int { c.mu.Lock(); defer c.mu.Unlock(); return c.follow }

// Asked is how often all nodes were asked for.
func (c *Control) Asked() int { c.mu.Lock(); defer c.mu.Unlock(); return c.asked }

// Stopped are the clusters whose runs were stopped, Reloads how often a reload was asked for.
func (c *Control) Stopped() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.stopped)
}

// Reloads is how often a look at the inventory was asked for.
func (c *Control) Reloads() int { c.mu.Lock(); defer c.mu.Unlock(); return c.reloads }

// read takes a part of the data.
func read[T any](c *Control, part func(*Data) T) (T, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return part(&c.data), c.data.Err
}

// Nodes implements dashboard.Controller, as all that follow do.
func (c *Control) Nodes(_ context.Context, cluster string) ([]store.Node, error) {
	return read(c, func(d *Data) []store.Node {
		c.asked++
		return slices.DeleteFunc(slices.Clone(d.Nodes), func(n store.Node) bool { return cluster != "" && n.Cluster != cluster })
	})
}

// Fleet are the inventory's nodes.
func (c *Control) Fleet(_ context.Context, cluster string) ([]web.InventoryNode, error) {
	return read(c, func(d *Data) []web.InventoryNode {
		return slices.DeleteFunc(slices.Clone(d.Fleet), func(n web.InventoryNode) bool { return cluster != "" && n.Cluster != cluster })
	})
}

// Detail puts together what is known of a node.
func (c *Control) Detail(_ context.Context, cluster, node string) (web.NodeDetail, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := cluster + "/" + node
	d := web.NodeDetail{Cluster: cluster, Node: node, Conflict: c.data.Conflicts[id], Events: []web.Event{}}
	for _, n := range c.data.Fleet {
		if n.Cluster == cluster && n.Node == node {
			d.Inventory = &n
		}
	}
	for _, n := range c.data.Nodes {
		if n.Cluster == cluster && n.Name == node {
			d.Record = &n
		}
	}
	for _, h := range c.data.Holds {
		if h.Cluster == cluster && h.Node == node {
			d.Hold = &h
		}
	}
	if b, found := c.data.Boots[id]; found {
		d.Boot = &b
	}
	for i, e := range c.data.Events {
		if e.Cluster == cluster && e.Node == node {
			d.Events = append(d.Events, web.Event{Seq: uint64(i) + 1, Event: e})
		}
	}
	if c.data.Err == nil && d.Inventory == nil && d.Record == nil {
		return d, web.NotFound("neither the inventory nor the state has a node %s", id)
	}
	return d, c.data.Err
}

// Collisions are the values that several nodes show.
func (c *Control) Collisions(context.Context) ([]web.Collision, error) {
	return read(c, func(d *Data) []web.Collision { return slices.Clone(d.Collisions) })
}

// Unknown are machines that are nobody's.
func (c *Control) Unknown(context.Context) ([]store.Unknown, error) {
	return read(c, func(d *Data) []store.Unknown { return slices.Clone(d.Unknown) })
}

// Runs are the runs.
func (c *Control) Runs(context.Context) ([]web.RunInfo, error) {
	return read(c, func(d *Data) []web.RunInfo { return slices.Clone(d.Runs) })
}

// Upgrades are the upgrades.
func (c *Control) Upgrades(context.Context) ([]web.UpgradeInfo, error) {
	return read(c, func(d *Data) []web.UpgradeInfo { return slices.Clone(d.Upgrades) })
}

// Inventory is the inventory in use.
func (c *Control) Inventory(context.Context) (web.InventoryInfo, error) {
	return read(c, func(d *Data) web.InventoryInfo { return d.Inventory })
}

// Health is how the daemon is.
func (c *Control) Health(context.Context) []web.Check {
	checks, _ := read(c, func(d *Data) []web.Check { return slices.Clone(d.Health) })
	return checks
}

// Holds are the holds.
func (c *Control) Holds(context.Context) ([]store.Hold, error) {
	return read(c, func(d *Data) []store.Hold { return slices.Clone(d.Holds) })
}

// Hold puts a hold on a node.
func (c *Control) Hold(_ context.Context, h store.Hold) error {
	_, err := read(c, func(d *Data) any { d.Holds = append(d.Holds, h); return nil })
	return err
}

// Release takes a hold away.
func (c *Control) Release(_ context.Context, cluster, node string) error {
	found, err := read(c, func(d *Data) bool {
		before := len(d.Holds)
		d.Holds = slices.DeleteFunc(d.Holds, func(h store.Hold) bool { return h.Cluster == cluster && h.Node == node })
		return len(d.Holds) < before
	})
	if err == nil && !found {
		return web.NotFound("nobody holds %s/%s", cluster, node)
	}
	return err
}

// Stop stops the run of a cluster.
func (c *Control) Stop(_ context.Context, cluster string) error {
	_, err := read(c, func(*Data) any { c.stopped = append(c.stopped, cluster); return nil })
	return err
}

// StopUpgrade stops the upgrade of a cluster.
func (c *Control) StopUpgrade(_ context.Context, cluster string) error {
	_, err := read(c, func(*Data) any { c.stopped = append(c.stopped, "upgrade of "+cluster); return nil })
	return err
}

// Reload asks for a look at the inventory.
func (c *Control) Reload(context.Context) error {
	_, err := read(c, func(*Data) any { c.reloads++; return nil })
	return err
}

// Events hands out the events, and goes on with new ones when it is to follow.
func (c *Control) Events(ctx context.Context, after uint64, follow bool, visit func(uint64, store.Event) error) error {
	c.mu.Lock()
	c.follow++
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.follow--
		c.mu.Unlock()
	}()
	for {
		c.mu.Lock()
		news, all := c.news, c.data.Events
		c.mu.Unlock()
		for ; after < uint64(len(all)); after++ {
			if err := visit(after+1, all[after]); err != nil {
				return err
			}
		}
		if !follow {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-news:
		}
	}
}
