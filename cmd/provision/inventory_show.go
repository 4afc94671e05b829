package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/talos-provision/provision/inventory"
)

func inventoryShowCommand(a *app) *cobra.Command {
	var withOrigin bool
	c := &cobra.Command{
		Use:   "show --node NAME",
		Short: "Show a node's effective values and where each comes from",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return a.inventoryShow(withOrigin) },
	}
	c.Flags().BoolVar(&withOrigin, "origin", false, "with -o json: say where each value comes from, too")
	return c
}

func (a *app) inventoryShow(withOrigin bool) error {
	asJSON, err := a.json()
	if err != nil {
		return err
	}
	if a.flags.nodes == "" {
		return usageError("name the node to show: provision inventory show --node NAME")
	}
	c, err := a.loadConfig()
	if err != nil {
		return err
	}
	tree, err := a.loadInventory(c)
	if err != nil {
		return err
	}
	n, err := a.onlyNode(tree)
	switch {
	case err != nil:
		return err
	case asJSON && withOrigin:
		return a.printJSON(struct {
			Node    inventory.Node              `json:"node"`
			Origins map[string]inventory.Origin `json:"origins"`
		}{n, n.Origins()})
	case asJSON:
		return a.printJSON(n)
	}
	return a.showNode(n)
}

// onlyNode is the node that the flags select. A plain name goes through
// Tree.Node, whose errors say which clusters have it.
func (a *app) onlyNode(tree *inventory.Tree) (inventory.Node, error) {
	if a.flags.selector == "" && a.flags.exclude == "" && !strings.ContainsAny(a.flags.nodes, "*?[], ") {
		name := a.flags.nodes
		if a.flags.cluster != "" && !strings.Contains(name, "/") {
			name = a.flags.cluster + "/" + name
		}
		n, err := tree.Node(name)
		if err != nil {
			return n, &statusError{exitUsage, err.Error()}
		}
		return n, nil
	}
	nodes, err := a.chosen(tree)
	if err != nil {
		return inventory.Node{}, err
	}
	if len(nodes) != 1 {
		return inventory.Node{}, usageError("%d nodes are selected: show takes one; `provision inventory list` shows many", len(nodes))
	}
	return nodes[0], nil
}

// showNode prints each effective value with the file and line it came from.
func (a *app) showNode(n inventory.Node) error {
	values, err := flatten(n)
	if err != nil {
		return err
	}
	rows := make([][]string, 0, len(values))
	for _, field := range slices.Sorted(maps.Keys(values)) {
		rows = append(rows, []string{field, n.Origin(field).String(), values[field]})
	}
	args, err := n.KernelCommandLine()
	if err != nil {
		return &statusError{exitUsage, err.Error()}
	}
	if err := table(a.out, []string{"FIELD", "FROM", "VALUE"}, rows); err != nil {
		return err
	}
	if n.SecureBoot {
		args = "(that of the signed image)"
	}
	_, err = fmt.Fprintf(a.out, "\nkernel command line:\n%s\n", args)
	return err
}

// flatten gives a node's values as the JSON form names them, nested ones with a dot.
func flatten(n inventory.Node) (map[string]string, error) {
	raw, err := json.Marshal(n)
	if err != nil {
		return nil, err
	}
	var tree map[string]any
	if err := json.Unmarshal(raw, &tree); err != nil {
		return nil, err
	}
	delete(tree, "file") // name and cluster come from it
	values := map[string]string{}
	for field, value := range tree {
		nested, ok := value.(map[string]any)
		if field == "schematic" { // one value, however deep
			text, err := json.Marshal(nested)
			if err != nil {
				return nil, err
			}
			values[field] = string(text)
			continue
		}
		if !ok {
			values[field] = text(value)
			continue
		}
		for key, value := range nested {
			values[field+"."+key] = text(value)
		}
	}
	return values, nil
}

func text(value any) string {
	if list, ok := value.([]any); ok {
		parts := make([]string, len(list))
		for i, item := range list {
			parts[i] = fmt.Sprint(item)
		}
		return strings.Join(parts, ", ")
	}
	return fmt.Sprint(value)
}
