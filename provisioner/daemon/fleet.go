package daemon

import (
	"context"
	"errors"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/provisioner/web"
)

// Fleet are the nodes of the inventory in use, of one cluster or of all with "".
func (d *Daemon) Fleet(_ context.Context, cluster string) ([]web.InventoryNode, error) {
	_, g := d.now()
	nodes := []web.InventoryNode{}
	if g.Tree == nil {
		return nodes, nil
	}
	for _, n := range g.Tree.Nodes {
		if cluster == "" || n.Cluster == cluster {
			nodes = append(nodes, inventoryNode(n))
		}
	}
	return nodes, nil
}

func inventoryNode(n inventory.Node) web.InventoryNode {
	return web.InventoryNode{
		Cluster: n.Cluster, Node: n.Name, File: n.File, Install: n.Install, IP: n.IP, BMC: n.BMC.Address, TalosVersion: n.TalosVersion,
		SchematicID: n.SchematicID, Arch: n.Arch, SecureBoot: n.SecureBoot, Labels: n.Labels, Facts: n.Facts(),
	}
}

// Detail is all that is known of a node.
func (d *Daemon) Detail(_ context.Context, cluster, node string) (web.NodeDetail, error) {
	detail, err := web.DetailOf(d.opts.Store, cluster, node)
	if err != nil && !errors.Is(err, web.ErrNotFound) {
		return detail, err
	}
	_, g := d.now()
	if g.Tree != nil {
		for _, n := range g.Tree.Nodes {
			if n.Cluster == cluster && n.Name == node {
				found := inventoryNode(n)
				detail.Inventory, err = &found, nil
			}
		}
	}
	d.mu.Lock()
	leads := d.leading
	d.mu.Unlock()
	if err == nil && leads != nil {
		detail.Conflict = leads.controller.Conflict(cluster + "/" + node)
	}
	return detail, err
}

// Collisions are the values that several nodes show; none are known on standby.
func (d *Daemon) Collisions(context.Context) ([]web.Collision, error) {
	d.mu.Lock()
	leads := d.leading
	d.mu.Unlock()
	all := []web.Collision{}
	if leads == nil {
		return all, nil
	}
	for _, c := range leads.controller.Collisions() {
		all = append(all, web.Collision{Key: c.Key, Value: c.Value, Nodes: c.Names, Frozen: c.Frozen})
	}
	return all, nil
}
