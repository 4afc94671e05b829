package main

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/talos-provision/provision/provisioner/store"
)

func statusCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "status [--cluster NAME]",
		Short: "Show the last known state of every node",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return a.status(cmd.Context()) },
	}
}

func (a *app) status(ctx context.Context) error {
	asJSON, err := a.json()
	if err != nil {
		return err
	}
	c, err := a.loadConfig()
	if err != nil {
		return err
	}
	nodes, err := readNodes(ctx, c, a.flags.cluster)
	if err != nil {
		return err
	}
	if asJSON {
		return a.printJSON(nodes)
	}
	rows := make([][]string, 0, len(nodes))
	for _, n := range nodes {
		what := n.Message
		if n.Error != "" {
			what = n.Error
		}
		rows = append(rows, []string{n.Cluster, n.Name, n.State, n.Since.Local().Format(time.DateTime), strconv.Itoa(n.Attempts), orDash(n.Address), what})
	}
	return table(a.out, []string{"CLUSTER", "NODE", "STATE", "SINCE", "ATTEMPTS", "ADDRESS", "MESSAGE"}, rows)
}

// readNodes reads the state, or asks the run that holds it. No state yet means
// that no node is known.
func readNodes(ctx context.Context, c config, cluster string) ([]store.Node, error) {
	s, err := store.OpenReadOnly(c.stateFile())
	switch {
	case errors.Is(err, store.ErrNoState):
		return []store.Node{}, nil
	case errors.Is(err, store.ErrInUse):
		nodes, errLive := askLive(ctx, c.liveSocket(), cluster)
		if errLive != nil {
			return nil, &statusError{exitFailed, errors.Join(err, errLive).Error()}
		}
		return nodes, nil
	case err != nil:
		return nil, &statusError{exitFailed, err.Error()}
	}
	nodes, err := s.Nodes(cluster)
	if nodes == nil {
		nodes = []store.Node{}
	}
	return nodes, errors.Join(err, s.Close())
}
