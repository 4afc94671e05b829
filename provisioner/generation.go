package provisioner

import (
	"slices"

	"github.com/talos-provision/provision/inventory"
)

// SetInventory puts a new generation of the files in the place of the old one.
// Nodes that a run works on stay as they were planned until their run ends: what
// was shown and confirmed is what is carried out.
func (c *Controller) SetInventory(next Inventory) {
	c.mu.Lock()
	c.inventory = next
	for id := range c.configs {
		if c.nodes[id] == nil {
			delete(c.configs, id)
		}
	}
	c.mu.Unlock()
	c.refreshFleet()
}

// refreshFleet has identity decided over the inventory as it is, with the nodes
// that runs work on as they were planned.
func (c *Controller) refreshFleet() {
	c.refreshing.Lock()
	defer c.refreshing.Unlock()
	c.mu.Lock()
	nodes := slices.Clone(c.inventory.Nodes)
	planned := make(map[string]*node, len(c.nodes))
	for id, n := range c.nodes {
		planned[id] = n
	}
	c.mu.Unlock()
	for i, n := range nodes {
		if p := planned[n.ID()]; p != nil {
			nodes[i] = p.Node
			delete(planned, n.ID())
		}
	}
	for _, n := range planned {
		nodes = append(nodes, n.Node)
	}
	c.fleet.Replace(nodes)
}

// current is the inventory as it is.
func (c *Controller) current() Inventory {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inventory
}

// of is every node of a cluster, as the files have it.
func (i Inventory) of(cluster string) []inventory.Node {
	var nodes []inventory.Node
	for _, n := range i.Nodes {
		if n.Cluster == cluster {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// forgetConfigs has the machine configs of these nodes made anew, unless a run uses them.
func (c *Controller) forgetConfigs(nodes []inventory.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range nodes {
		if c.nodes[n.ID()] == nil {
			delete(c.configs, n.ID())
		}
	}
}
