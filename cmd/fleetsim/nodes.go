package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/talos-provision/provision/e2e/talosnode"
)

// printNodes prints the nodes of every cluster, as `kubectl get nodes` would.
// Nothing is printed where no machine was ever configured.
func printNodes(w io.Writer, clusters []talosnode.ClusterReport) error {
	if len(clusters) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	row := func(cells ...any) error {
		_, err := fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", cells...)
		return err
	}
	if err := row("CLUSTER", "NAME", "STATUS", "ROLES", "TALOS", "INTERNAL-IP"); err != nil {
		return err
	}
	for _, c := range clusters {
		for _, n := range c.Nodes {
			if err := row(c.Name, n.Name, nodeStatus(n), nodeRoles(n), n.Version, n.Address); err != nil {
				return err
			}
		}
	}
	return table.Flush()
}

func nodeStatus(n talosnode.NodeReport) string {
	switch {
	case !n.Registered:
		return "NotRegistered"
	case n.Ready:
		return "Ready"
	}
	return "NotReady"
}

func nodeRoles(n talosnode.NodeReport) string {
	if n.ControlPlane {
		return "control-plane"
	}
	return "<none>"
}
