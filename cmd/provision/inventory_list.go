package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/talos-provision/provision/inventory"
)

func inventoryListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the nodes: by what each will be recognised, and whether that is unique in the fleet",
		Long: `list shows the selected nodes, and by what each will be recognised. Whether that is
unique is judged among all nodes of the inventory, whatever is selected. An
inventory with errors is listed too, with the errors on standard error.

Exit status: 0; 2 with errors in the inventory.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return a.inventoryList() },
	}
}

// listed is one node of the list in JSON.
type listed struct {
	Cluster     string                `json:"cluster"`
	Node        string                `json:"node"`
	File        string                `json:"file"`
	Install     bool                  `json:"install"`
	IP          string                `json:"ip,omitempty"`
	BMC         string                `json:"bmc,omitempty"`
	Talos       string                `json:"talosVersion,omitempty"`
	Labels      map[string]string     `json:"labels,omitempty"`
	Recognition inventory.Recognition `json:"recognition"`
}

func (a *app) inventoryList() error {
	asJSON, err := a.json()
	if err != nil {
		return err
	}
	c, err := a.loadConfig()
	if err != nil {
		return err
	}
	tree, findings, err := inventory.Load(c.Inventory)
	if err != nil {
		return &statusError{exitUsage, err.Error()}
	}
	for _, f := range findings {
		say(a.errOut, "%s\n", f)
	}
	nodes, err := a.listedNodes(tree)
	if err != nil {
		return err
	}
	if asJSON {
		err = a.printJSON(nodes)
	} else {
		err = table(a.out, []string{"CLUSTER", "NODE", "INSTALL", "IP", "RECOGNISED BY", "UNIQUE"}, rowsOf(nodes))
	}
	if err == nil && findings.HasErrors() {
		return &statusError{status: exitUsage}
	}
	return err
}

// listedNodes judges every node of the tree and keeps those that are selected.
func (a *app) listedNodes(tree *inventory.Tree) ([]listed, error) {
	chosen, err := a.chosen(tree)
	if err != nil {
		return nil, err
	}
	recognitions := tree.Recognitions()
	nodes := make([]listed, 0, len(chosen))
	next := 0
	for _, n := range chosen { // in the tree's order
		next += slices.IndexFunc(tree.Nodes[next:], func(other inventory.Node) bool { return other.File == n.File })
		nodes = append(nodes, listed{
			Cluster: n.Cluster, Node: n.Name, File: n.File, Install: n.Install, IP: n.IP, BMC: n.BMC.Address,
			Talos: n.TalosVersion, Labels: n.Labels, Recognition: recognitions[next],
		})
	}
	return nodes, nil
}

func rowsOf(nodes []listed) [][]string {
	rows := make([][]string, 0, len(nodes))
	for _, n := range nodes {
		install := "no"
		if n.Install {
			install = "yes"
		}
		by, unique := recognised(n)
		rows = append(rows, []string{n.Cluster, n.Node, install, orDash(n.IP), by, unique})
	}
	return rows
}

// recognised says by what, and whether that is unique or why not.
func recognised(n listed) (by, unique string) {
	r := n.Recognition
	switch r.Certainty {
	case inventory.Unique:
		return string(r.Key) + " " + r.Value, "yes"
	case inventory.FromBMC:
		return "BMC " + strings.TrimPrefix(n.BMC, "https://"), "learnt from the BMC" + sharedNote(r)
	case inventory.Unknown:
		return "-", "no: " + r.Reason
	default:
		return strongest(r), "no: " + r.Reason
	}
}

func sharedNote(r inventory.Recognition) string {
	if len(r.Traits) == 0 {
		return ""
	}
	return " (" + r.Reason + ")"
}

func strongest(r inventory.Recognition) string {
	if len(r.Traits) == 0 {
		return "-"
	}
	return string(r.Traits[0].Key) + " " + r.Traits[0].Value
}
