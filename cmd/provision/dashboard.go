package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
)

func dashboardCommand(a *app) *cobra.Command {
	var readOnly bool
	c := &cobra.Command{
		Use:   "dashboard",
		Short: "Print a link that opens the dashboard of the daemon, signed in",
		Long: `dashboard asks the daemon of this host, or of --server, for a link that signs a
browser in. The link works once, within a minute, and is a secret until then. Whoever
opens it may do what this command may, or only look with --read-only.

The dashboard is served at admin.listen, 127.0.0.1:9090 by default. From another
computer, forward that port first: ssh -L 9090:127.0.0.1:9090 HOST`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.dashboard(cmd.Context(), readOnly) },
	}
	c.Flags().BoolVar(&readOnly, "read-only", false, "the browser may look and do nothing else")
	return c
}

func (a *app) dashboard(ctx context.Context, readOnly bool) error {
	asJSON, c, err := a.reading()
	if err != nil {
		return err
	}
	client, err := c.daemon(ctx)
	if err != nil {
		return err
	}
	if client == nil {
		return &statusError{exitFailed, "no daemon answers at " + c.liveSocket() + ": start `provision serve`, or name one with --server URL"}
	}
	defer client.Close()
	role := "admin"
	if readOnly {
		role = "read"
	}
	link, err := client.Login(ctx, role)
	if err != nil {
		return webStatus(err)
	}
	if asJSON {
		return a.printJSON(link)
	}
	say(a.out, "%s\n", link.URL)
	say(a.errOut, "the link works once, until %s\n", link.Expires.Local().Format(time.TimeOnly))
	return nil
}
