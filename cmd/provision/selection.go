package main

import (
	"github.com/talos-provision/provision/inventory"
)

// selection is what --cluster, --selector and --exclude say, together with a
// hostlist such as that of --node; an empty one names all.
func (a *app) selection(hostlist string) inventory.Selection {
	s := inventory.Selection{Cluster: a.flags.cluster, Selector: a.flags.selector}
	if hostlist != "" {
		s.Nodes = []string{hostlist}
	}
	if a.flags.exclude != "" {
		s.Exclude = []string{a.flags.exclude}
	}
	return s
}

// chosen are the nodes that --cluster, --node, --selector and --exclude select,
// in the tree's order.
func (a *app) chosen(tree *inventory.Tree) ([]inventory.Node, error) {
	return a.chosenFrom(tree, a.flags.nodes)
}

// chosenFrom does the same with another hostlist than that of --node.
func (a *app) chosenFrom(tree *inventory.Tree, hostlist string) ([]inventory.Node, error) {
	nodes, err := tree.Select(a.selection(hostlist))
	if err != nil {
		return nil, &statusError{exitUsage, err.Error()}
	}
	return nodes, nil
}
