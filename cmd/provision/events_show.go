package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/web"
)

func eventsCommand(a *app) *cobra.Command {
	var follow bool
	c := &cobra.Command{
		Use:   "events [--cluster NAME] [--follow]",
		Short: "Show what happened to the nodes, oldest first",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return a.events(cmd.Context(), follow) },
	}
	c.Flags().BoolVar(&follow, "follow", false, "go on with new events until Ctrl-C; any number of people may")
	return c
}

func (a *app) events(ctx context.Context, follow bool) error {
	s, err := a.open()
	if err != nil {
		return err
	}
	if follow && a.flags.cluster != "" { // one that is mistyped would be waited for
		if err := a.knownCluster(a.flags.cluster); err != nil {
			return err
		}
	}
	client, err := s.config.daemon(ctx)
	if err != nil {
		return err
	}
	if client != nil {
		defer client.Close()
		err := client.StreamEvents(ctx, web.StreamOptions{Follow: follow, Cluster: a.flags.cluster}, func(e web.Event) error {
			s.tell(e.Event)
			return nil
		})
		if follow && ctx.Err() != nil {
			return nil // Ctrl-C ends the watching
		}
		return webStatus(err)
	}
	if follow && !s.config.sharesState() {
		return &statusError{exitFailed, "no daemon and no run is there to follow: without --follow the events so far are shown"}
	}
	return s.storedEvents(ctx, follow)
}

// storedEvents shows the events of a state that nobody else holds, or that is shared.
func (s *session) storedEvents(ctx context.Context, follow bool) error {
	state, err := s.config.readState(ctx)
	switch {
	case errors.Is(err, store.ErrNoState):
		return nil // nothing happened yet
	case err != nil:
		return stateStatus(err)
	}
	defer func() { _ = state.Close() }()
	err = viewer{state: state}.Events(ctx, 0, follow, func(_ uint64, e store.Event) error {
		if s.flags.cluster == "" || e.Cluster == s.flags.cluster {
			s.tell(e)
		}
		return nil
	})
	if follow && ctx.Err() != nil {
		return nil
	}
	return err
}

func stopCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "stop --cluster NAME",
		Short: "End a run or an upgrade of a daemon where it can be carried on",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.open()
			if err != nil {
				return err
			}
			if a.flags.cluster == "" {
				return usageError("name the cluster: --cluster NAME")
			}
			client, err := s.config.daemon(cmd.Context())
			switch {
			case err != nil:
				return err
			case client == nil:
				return &statusError{exitFailed, "no daemon answers: see `systemctl status provision`, or name one with --server URL"}
			}
			defer client.Close()
			return webStatus(stopWork(cmd.Context(), client, a.flags.cluster))
		},
	}
}

// stopWork ends the run of a cluster, or the upgrade when it has no run.
func stopWork(ctx context.Context, daemon *web.Client, cluster string) error {
	err := daemon.Stop(ctx, cluster)
	if !errors.Is(err, web.ErrNotFound) {
		return err
	}
	if errUpgrade := daemon.StopUpgrade(ctx, cluster); !errors.Is(errUpgrade, web.ErrNotFound) {
		return errUpgrade
	}
	return err
}
