package main

import "github.com/spf13/cobra"

func discoverCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "discover --bmc CIDR|LIST|FILE --cluster NAME",
		Short: "Ask BMCs who their machines are and write the node files",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { _ = a; return usageError("not ready") },
	}
}
