package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/talos-provision/provision/provisioner/web"
)

// reloadPace is how often a daemon is asked whether it uses a commit by now.
const reloadPace = 500 * time.Millisecond

func reloadCommand(a *app) *cobra.Command {
	var commit string
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "reload [--commit HASH]",
		Short: "Have the daemon look at its inventory now, and say which one it uses",
		Long: `reload has a daemon look at the folder or the branch of its inventory at once. With
--commit it waits until the daemon uses that commit, so that what is asked of it next
is done with that inventory.

Exit status: 0 done; 1 no daemon answers, or it refuses the inventory, or does not come
to the commit in time; 2 usage or configuration error.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.reload(cmd.Context(), commit, timeout) },
	}
	c.Flags().StringVar(&commit, "commit", "", "wait until this commit is in use, for a daemon that follows a git branch")
	c.Flags().DurationVar(&timeout, "timeout", 5*time.Minute, "how long to wait for it")
	return c
}

func (a *app) reload(ctx context.Context, commit string, timeout time.Duration) error {
	s, err := a.open()
	if err != nil {
		return err
	}
	client, err := s.config.daemon(ctx)
	switch {
	case err != nil:
		return err
	case client == nil:
		return &statusError{exitFailed, "no daemon answers: see `systemctl status provision`, or name one with --server URL"}
	}
	defer client.Close()
	if err := client.Reload(ctx); err != nil {
		return webStatus(err)
	}
	info, err := commitInUse(ctx, client, commit, timeout)
	if err != nil {
		return err
	}
	if s.asJSON {
		return a.printJSON(info)
	}
	say(a.out, "%s: %d nodes in %d clusters, %d of them to install, from %s\n", info.Generation, info.Nodes, info.Clusters, info.Install, info.Source)
	return nil
}

// commitInUse waits until the daemon uses a commit; "" is any.
func commitInUse(ctx context.Context, client *web.Client, commit string, timeout time.Duration) (web.InventoryInfo, error) {
	late := time.After(timeout)
	tick := time.NewTicker(reloadPace)
	defer tick.Stop()
	for {
		info, err := client.Inventory(ctx)
		switch {
		case err != nil:
			return info, webStatus(err)
		case commit == "" || info.Generation == commit:
			return info, nil
		case info.Commit == nil:
			return info, usageError("the daemon's inventory is %s, and no branch of git: leave out --commit", info.Source)
		case info.Refused != nil && info.Refused.Generation == commit:
			return info, &statusError{exitFailed, fmt.Sprintf("the daemon refuses the commit %s, and goes on with %s: %s", commit, info.Generation, refusal(*info.Refused))}
		}
		select {
		case <-ctx.Done():
			return info, ctx.Err()
		case <-late:
			return info, &statusError{exitFailed, fmt.Sprintf("after %s the daemon uses %s and not %s: is that commit on the branch that it follows, and the newest there?", timeout, info.Generation, commit)}
		case <-tick.C:
		}
	}
}

// refusal is why an inventory is not used.
func refusal(r web.Refusal) string {
	if len(r.Findings) == 0 {
		return r.Error
	}
	lines := make([]string, 0, len(r.Findings))
	for _, f := range r.Findings {
		lines = append(lines, f.String())
	}
	return "\n" + strings.Join(lines, "\n")
}
