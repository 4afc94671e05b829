package main

import "github.com/spf13/cobra"

func renderCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "render --format dnsmasq|ipxe",
		Short: "Write a static dnsmasq.conf or iPXE script from the inventory",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { _ = a; return usageError("not ready") },
	}
}
