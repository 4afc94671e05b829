package main

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/web"
	"github.com/talos-provision/provision/pxe/httpboot"
)

func statusCommand(a *app) *cobra.Command {
	var unknown bool
	c := &cobra.Command{
		Use:   "status [--cluster NAME]",
		Short: "Show the last known state of every node",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if unknown {
				return a.statusUnknown(cmd.Context())
			}
			return a.status(cmd.Context())
		},
	}
	c.Flags().BoolVar(&unknown, "unknown", false, "show the machines that asked for a boot script and are no node of the inventory, as inventory files")
	return c
}

// statusUnknown shows unknown machines as files that can be put into the inventory.
func (a *app) statusUnknown(ctx context.Context) error {
	asJSON, c, err := a.reading()
	if err != nil {
		return err
	}
	machines, err := readState(ctx, c, (*web.Client).Unknown, (*store.Store).UnknownMachines)
	if err != nil {
		return err
	}
	if asJSON {
		return a.printJSON(machines)
	}
	if len(machines) == 0 {
		say(a.out, "no unknown machine has asked for a boot script\n")
	}
	for _, m := range machines {
		say(a.out, "# asked %d times, last at %s; %s\n%s\n", m.Times, m.Seen.Local().Format(time.DateTime), m.Reason, asked(m).InventoryYAML())
	}
	return nil
}

// asked is what an unknown machine sent when it asked last.
func asked(m store.Unknown) httpboot.Request {
	source, _ := netip.ParseAddr(m.Source) // for a comment: none is as good
	return httpboot.Request{
		Facts: m.Facts, Arch: m.Arch, Platform: m.Platform, Manufacturer: m.Manufacturer, Product: m.Product, Asset: m.Asset,
		NICs: m.NICs, Source: source,
	}
}

func (a *app) status(ctx context.Context) error {
	asJSON, c, err := a.reading()
	if err != nil {
		return err
	}
	nodes, err := readState(ctx, c,
		func(client *web.Client, ctx context.Context) ([]store.Node, error) {
			return client.Nodes(ctx, a.flags.cluster)
		},
		func(s *store.Store) ([]store.Node, error) { return s.Status(a.flags.cluster) })
	if err != nil {
		return err
	}
	if nodes, err = a.selected(c, nodes); err != nil {
		return err
	}
	if len(nodes) == 0 && a.flags.cluster != "" {
		if err := a.knownCluster(a.flags.cluster); err != nil {
			return err
		}
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

// selected keeps the nodes that --node, --selector and --exclude select. Without
// any of them the inventory is not needed: the state may tell of nodes that left it.
func (a *app) selected(c config, nodes []store.Node) ([]store.Node, error) {
	if a.flags.nodes == "" && a.flags.selector == "" && a.flags.exclude == "" {
		return nodes, nil
	}
	tree, err := a.loadInventory(c)
	if err != nil {
		return nil, err
	}
	chosen, err := a.chosen(tree)
	if err != nil {
		return nil, err
	}
	wanted := make(map[string]bool, len(chosen))
	for _, n := range chosen {
		wanted[n.ID()] = true
	}
	return slices.DeleteFunc(nodes, func(n store.Node) bool { return !wanted[n.Cluster+"/"+n.Name] }), nil
}

// readState reads a list from a daemon, from the run that holds the state, or from
// the state itself. No state yet means an empty list.
func readState[T any](ctx context.Context, c config, ask func(*web.Client, context.Context) ([]T, error), read func(*store.Store) ([]T, error)) ([]T, error) {
	client, err := c.daemon(ctx)
	if err != nil {
		return nil, err
	}
	if client != nil {
		defer client.Close()
		list, err := ask(client, ctx)
		return list, webStatus(err)
	}
	s, err := c.readState(ctx)
	switch {
	case errors.Is(err, store.ErrNoState):
		return []T{}, nil
	case err != nil:
		return nil, stateStatus(err)
	}
	list, err := read(s)
	if list == nil {
		list = []T{}
	}
	return list, errors.Join(err, s.Close())
}
