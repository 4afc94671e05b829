package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/talos-provision/provision/cmd/provision/board"
	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/web"
)

func watchCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "watch [--cluster NAME]",
		Short: "Watch the nodes on a live board; any number of people may",
		Long: `watch shows every node on a board: of the daemon of this host or of --server, or of a
run that goes on here. It only looks: q or Ctrl-C ends the watching, not the work.
Without a terminal it prints the events from now on, a line each.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.watch(cmd.Context()) },
	}
}

// watched is where what is watched comes from: a daemon, a run, or a shared state.
type watched struct {
	title  string
	began  time.Time
	nodes  func(ctx context.Context) ([]store.Node, error)
	events func(ctx context.Context, o web.StreamOptions, visit func(web.Event) error) error
	lookup func(ctx context.Context, cluster, node string) ([]board.Fact, error) // may be nil
	// over says that there is nothing more to come; nil is never.
	over func(ctx context.Context) bool
}

func (a *app) watch(ctx context.Context) error {
	s, err := a.open()
	if err != nil {
		return err
	}
	client, err := s.config.daemon(ctx)
	switch {
	case err != nil:
		return err
	case client != nil:
		defer client.Close()
		w, err := s.watchedBy(ctx, client)
		if err != nil {
			return webStatus(err)
		}
		return s.watchAll(ctx, w)
	case !s.config.sharesState():
		return &statusError{exitFailed, "no daemon and no run is there to watch: `provision status` shows the last known states"}
	}
	state, err := s.config.readState(ctx)
	if err != nil {
		return stateStatus(err)
	}
	defer func() { _ = state.Close() }()
	v := viewer{state: state}
	return s.watchAll(ctx, watched{
		title: s.watchTitle("the shared state"), began: time.Now(),
		nodes: func(ctx context.Context) ([]store.Node, error) { return v.Nodes(ctx, s.flags.cluster) },
		events: func(ctx context.Context, o web.StreamOptions, visit func(web.Event) error) error {
			return v.Events(ctx, o.After, o.Follow, func(seq uint64, e store.Event) error {
				if o.Cluster != "" && e.Cluster != o.Cluster {
					return nil
				}
				return visit(web.Event{Seq: seq, Event: e})
			})
		},
	})
}

func (s *session) watchTitle(source string) string {
	if s.flags.cluster == "" {
		return "watching " + source
	}
	return s.flags.cluster + ", watching " + source
}

// singleRun is the id by which a run that no daemon carries out is known on its socket.
const singleRun = "running"

// watchedBy is what a daemon, or a single run, shows.
func (s *session) watchedBy(ctx context.Context, client *web.Client) (watched, error) {
	runs, err := client.Runs(ctx)
	if err != nil {
		return watched{}, err
	}
	w := watched{
		title: s.watchTitle("the daemon"), began: time.Now(), events: client.StreamEvents, lookup: lookupBy(client),
		nodes: func(ctx context.Context) ([]store.Node, error) { return client.Nodes(ctx, s.flags.cluster) },
	}
	for _, r := range runs {
		if r.Finished.IsZero() && (s.flags.cluster == "" || s.flags.cluster == r.Cluster) {
			w.title, w.began = fmt.Sprintf("run %s of %s, watching", r.ID, r.Cluster), r.Started
		}
		if r.ID == singleRun {
			w.title = fmt.Sprintf("a run of %s, watching", r.Cluster)
			w.over = func(ctx context.Context) bool { return !client.Available(ctx) }
		}
	}
	return w, nil
}

// errOver ends the watching of a run that has ended.
var errOver = errors.New("what was watched has ended")

// watchAll shows the nodes and what happens to them until the person has seen enough.
func (s *session) watchAll(ctx context.Context, w watched) error {
	events, last, err := s.eventsSoFar(ctx, w)
	if err != nil {
		return webStatus(err)
	}
	nodes, err := w.nodes(ctx)
	if err != nil {
		return webStatus(err)
	}
	v := view{title: w.title, began: w.began, nodes: make([]board.Node, 0, len(nodes)), events: events, lookup: w.lookup}
	for _, n := range nodes {
		v.nodes = append(v.nodes, recordedRow(n))
	}
	err = s.showing(ctx, v, func(ctx context.Context) error {
		ctx, end := context.WithCancelCause(ctx)
		defer end(nil)
		if w.over != nil {
			go whenOver(ctx, w.over, end)
		}
		err := w.events(ctx, web.StreamOptions{After: last, Follow: true, Cluster: s.flags.cluster}, func(e web.Event) error {
			s.tell(e.Event)
			return nil
		})
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	})
	switch {
	case errors.Is(err, errOver):
		say(s.errOut, "the run has ended: `provision status` shows what came of it\n")
		return nil
	case errors.Is(err, context.Canceled):
		return nil // the person has seen enough
	}
	return webStatus(err)
}

// eventsSoFar are the newest events that are written already, and the number of the last.
func (s *session) eventsSoFar(ctx context.Context, w watched) (events []store.Event, last uint64, err error) {
	err = w.events(ctx, web.StreamOptions{Cluster: s.flags.cluster}, func(e web.Event) error {
		last = e.Seq
		if len(events) == 2*maxHistory {
			events = append(events[:0], events[maxHistory:]...)
		}
		events = append(events, e.Event)
		return nil
	})
	return events, last, err
}

// maxHistory is how many events from before the watching are looked at.
const maxHistory = 20_000

// overPoll is how often it is looked whether there is still something to watch.
const overPoll = time.Second

func whenOver(ctx context.Context, over func(context.Context) bool, end context.CancelCauseFunc) {
	ticker := time.NewTicker(overPoll)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if over(ctx) && ctx.Err() == nil {
				end(errOver)
				return
			}
		}
	}
}
