package main

import (
	"context"
	"fmt"
	"os/user"
	"time"

	"github.com/spf13/cobra"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/web"
)

func holdCommand(a *app) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:   "hold NODE --cluster NAME --reason TEXT",
		Short: "Have a node left alone until it is released; without NODE, list the held ones",
		Long: `hold keeps runs off a node: it is planned as held, and a run that goes on stops
before it touches the node's power again. What the machine does by itself goes on.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.listHolds(cmd.Context())
			}
			if reason == "" {
				return usageError("say why, for whoever finds the node held: --reason TEXT")
			}
			return a.onHold(cmd.Context(), args[0], func(ctx context.Context, cluster, node string, h holder) error {
				return h.hold(ctx, store.Hold{Cluster: cluster, Node: node, Reason: reason, By: userName(), Since: time.Now().UTC()})
			}, "is held")
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for whoever finds the node held")
	return c
}

func releaseCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "release NODE --cluster NAME",
		Short: "Let a held node be worked on again",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onHold(cmd.Context(), args[0], func(ctx context.Context, cluster, node string, h holder) error {
				return h.release(ctx, cluster, node)
			}, "is released")
		},
	}
}

// holder sets and removes holds: by a daemon, or in the state itself.
type holder interface {
	hold(ctx context.Context, h store.Hold) error
	release(ctx context.Context, cluster, node string) error
}

type remoteHolder struct{ client *web.Client }

func (r remoteHolder) hold(ctx context.Context, h store.Hold) error {
	_, err := r.client.Hold(ctx, h.Cluster, h.Node, h.Reason)
	return webStatus(err)
}

func (r remoteHolder) release(ctx context.Context, cluster, node string) error {
	return webStatus(r.client.Release(ctx, cluster, node))
}

type stateHolder struct{ state *store.Store }

func (s stateHolder) hold(_ context.Context, h store.Hold) error { return s.state.SetHold(h) }

func (s stateHolder) release(_ context.Context, cluster, node string) error {
	found, err := s.state.RemoveHold(cluster, node)
	if err == nil && !found {
		return usageError("nobody holds %s/%s", cluster, node)
	}
	return err
}

// onHold finds the nodes and does something about their holds, each told on a line.
func (a *app) onHold(ctx context.Context, hostlist string, do func(context.Context, string, string, holder) error, done string) error {
	s, err := a.open()
	if err != nil {
		return err
	}
	if a.flags.cluster == "" {
		return usageError("name the cluster: --cluster NAME")
	}
	client, err := s.config.daemon(ctx)
	if err != nil {
		return err
	}
	if client != nil {
		defer client.Close()
		return s.eachHold(ctx, hostlist, remoteHolder{client}, do, done)
	}
	state, err := s.config.openState(ctx, s.log)
	if err != nil {
		return err
	}
	defer func() { _ = state.Close() }()
	return s.eachHold(ctx, hostlist, stateHolder{state}, do, done)
}

func (s *session) eachHold(ctx context.Context, hostlist string, h holder, do func(context.Context, string, string, holder) error, done string) error {
	names, err := s.heldNames(hostlist, h)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := do(ctx, s.flags.cluster, name, h); err != nil {
			return err
		}
		say(s.errOut, "%s %s\n", name, done)
	}
	return nil
}

// heldNames are the nodes of a hostlist. Where only the daemon has the inventory, it
// knows a node or says that it does not.
func (s *session) heldNames(hostlist string, h holder) ([]string, error) {
	if _, remote := h.(remoteHolder); remote && (s.config.Client.Server != "" || s.config.Serve.Git.URL != "") {
		names, err := inventory.ParseHostlist(hostlist)
		if err != nil {
			return nil, usageError("%v", err)
		}
		return names, nil
	}
	tree, err := s.loadInventory(s.config)
	if err != nil {
		return nil, err
	}
	nodes, err := s.chosenFrom(tree, hostlist)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(nodes))
	for _, n := range nodes {
		names = append(names, n.Name)
	}
	return names, nil
}

func (a *app) listHolds(ctx context.Context) error {
	s, err := a.open()
	if err != nil {
		return err
	}
	holds, err := readState(ctx, s.config, (*web.Client).Holds, (*store.Store).Holds)
	if err != nil {
		return err
	}
	if s.asJSON {
		return a.printJSON(holds)
	}
	rows := make([][]string, 0, len(holds))
	for _, h := range holds {
		if a.flags.cluster == "" || h.Cluster == a.flags.cluster {
			rows = append(rows, []string{h.Cluster, h.Node, h.Since.Local().Format(time.DateTime), orDash(h.By), h.Reason})
		}
	}
	return table(a.out, []string{"CLUSTER", "NODE", "SINCE", "BY", "REASON"}, rows)
}

// userName is who types, for others to ask.
func userName() string {
	u, err := user.Current()
	if err != nil {
		return "somebody"
	}
	return fmt.Sprint(u.Username)
}
