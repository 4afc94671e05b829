package main

import (
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
	c.AddCommand(
		inventoryValidateCommand(a), inventoryShowCommand(a), inventoryListCommand(a), inventorySchemaCommand(a),
		renderCommand(a), discoverCommand(a),
	)
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
