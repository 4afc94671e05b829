package main

import (
	"github.com/spf13/cobra"

	"github.com/talos-provision/provision/inventory"
)

func inventorySchemaCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of inventory files, for editors",
		Long: `schema prints the JSON Schema (draft 2020-12) of a node's file and of a
_defaults.yaml. With this first line in such a file an editor that runs the YAML
language server completes and checks it:

  # yaml-language-server: $schema=PATH-OR-URL-OF-THE-SCHEMA`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			schema, err := inventory.Schema()
			if err != nil {
				return err
			}
			_, err = a.out.Write(schema)
			return err
		},
	}
}
