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

func inventoryCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "inventory",
		Short: "Look at the inventory and check it",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(&cobra.Command{
		Use:   "validate",
		Short: "Check every file of the inventory; exits 2 on errors, 0 with warnings only",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return a.inventoryValidate() },
	}, &cobra.Command{
		Use:   "show --node NAME",
		Short: "Show a node's effective values and where each comes from",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return a.inventoryShow() },
	})
	return c
}

// loadInventory reads the whole tree. With errors in it no node of it can be
// trusted: they are all told and the command ends.
func (a *app) loadInventory(c config) (*inventory.Tree, error) {
	tree, findings, err := inventory.Load(c.Inventory)
	if err != nil {
		return nil, &statusError{exitUsage, err.Error()}
	}
	for _, f := range findings {
		say(a.errOut, "%s\n", f)
	}
	if findings.HasErrors() {
		return nil, usageError("the inventory %s has errors: nothing was done", c.Inventory)
	}
	return tree, nil
}

func (a *app) inventoryValidate() error {
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
	if asJSON {
		err = a.printJSON(struct {
			Nodes    int                `json:"nodes"`
			Findings inventory.Findings `json:"findings"`
		}{len(tree.Nodes), slices.Clip(append(inventory.Findings{}, findings...))})
	} else {
		for _, f := range findings {
			say(a.out, "%s\n", f)
		}
		_, err = fmt.Fprintf(a.out, "nodes: %d, findings: %d\n", len(tree.Nodes), len(findings))
	}
	if err != nil {
		return err
	}
	if findings.HasErrors() {
		return &statusError{status: exitUsage}
	}
	return nil
}

func (a *app) inventoryShow() error {
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
	name := a.flags.nodes
	if a.flags.cluster != "" {
		name = a.flags.cluster + "/" + name
	}
	n, err := tree.Node(name)
	if err != nil {
		return &statusError{exitUsage, err.Error()}
	}
	if asJSON {
		return a.printJSON(n)
	}
	return a.showNode(n)
}

// showNode prints each effective value with the file and line it came from.
func (a *app) showNode(n inventory.Node) error {
	values, err := flatten(n)
	if err != nil {
		return err
	}
	rows := make([][]string, 0, len(values)+1)
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
	values := map[string]string{}
	for field, value := range tree {
		nested, ok := value.(map[string]any)
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
