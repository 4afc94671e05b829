package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/provisioner"
	"github.com/talos-provision/provision/provisioner/upgrade"
)

// members are the cluster's nodes in the inventory as it was read last.
func (u *upgrader) members() []inventory.Node {
	u.mu.Lock()
	defer u.mu.Unlock()
	var nodes []inventory.Node
	for _, n := range u.known {
		if n.Cluster == u.flags.cluster {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// runs is the state as the upgrade of this cluster uses it.
func (u *upgrader) runs() upgradeStore {
	return upgradeStore{state: u.state, busy: make(chan struct{}, 1), members: func() []string {
		members := u.members()
		ids := make([]string, 0, len(members))
		for _, n := range members {
			ids = append(ids, n.ID())
		}
		return ids
	}}
}

// listMembers reads the inventory again and lists the cluster's nodes. An
// inventory that somebody is just editing is not taken: the last one stays.
func (u *upgrader) listMembers(ctx context.Context) ([]upgrade.Member, error) {
	u.reload(ctx)
	var members []upgrade.Member
	for _, n := range u.members() {
		if n.IP == "" || !u.meant(n) {
			continue
		}
		u.mu.Lock()
		serial := u.reported[n.ID()].Serial
		u.mu.Unlock()
		members = append(members, upgrade.Member{
			Name: n.Name, Host: n.IP, Schematic: n.SchematicID, SecureBoot: n.SecureBoot, Labels: n.Labels,
			// The boards of a chassis share its serial; a serial that nobody shares keeps nobody apart.
			Chassis: cmp.Or(serial, n.Serial),
		})
	}
	return members, nil
}

// meant says whether a node was there when it was said which nodes are meant, or
// all are: one that comes later was not looked at by --node and --selector.
func (u *upgrader) meant(n inventory.Node) bool {
	if u.flags.nodes == "" && u.flags.selector == "" {
		return true
	}
	return slices.ContainsFunc(u.tree.Nodes, func(known inventory.Node) bool { return known.ID() == n.ID() })
}

func (u *upgrader) reload(ctx context.Context) {
	tree, findings, err := inventory.Load(u.config.Inventory)
	if err == nil && findings.HasErrors() {
		err = fmt.Errorf("it has errors: %s", findings[0])
	}
	if err != nil {
		u.log.WarnContext(ctx, "the inventory cannot be read now; what was read before holds", "inventory", u.config.Inventory, "error", err)
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if slices.EqualFunc(u.known, tree.Nodes, inventory.Node.Equal) {
		return
	}
	u.known, u.fleet = tree.Nodes, provisioner.NewFleet(tree.Nodes)
	for id, facts := range u.reported {
		u.fleet.Learn(id, facts)
	}
}

// nodeAt is the cluster's node that has an address, or a name.
func (u *upgrader) nodeAt(is func(inventory.Node) bool) (inventory.Node, bool) {
	nodes := u.members()
	i := slices.IndexFunc(nodes, is)
	if i < 0 {
		return inventory.Node{}, false
	}
	return nodes[i], true
}
