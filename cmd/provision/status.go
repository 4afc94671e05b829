package main

import (
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
		RunE:  func(*cobra.Command, []string) error { return a.status() },
	}
}

func (a *app) status() error {
	asJSON, err := a.json()
	if err != nil {
		return err
	}
	c, err := a.loadConfig()
	if err != nil {
		return err
	}
	nodes, err := readNodes(c.stateFile(), a.flags.cluster)
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

// readNodes reads the state; no state yet means that no node is known.
func readNodes(path, cluster string) ([]store.Node, error) {
	s, err := store.OpenReadOnly(path)
	if errors.Is(err, store.ErrNoState) {
		return []store.Node{}, nil
	}
	if err != nil {
		return nil, &statusError{exitFailed, err.Error()}
	}
	nodes, err := s.Nodes(cluster)
	if nodes == nil {
		nodes = []store.Node{}
	}
	return nodes, errors.Join(err, s.Close())
}
