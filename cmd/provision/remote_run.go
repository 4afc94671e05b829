package main

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/talos-provision/provision/provisioner"
	"github.com/talos-provision/provision/provisioner/web"
)

// provisionThrough has a daemon plan and carry out the run, and shows it here.
func (s *session) provisionThrough(ctx context.Context, daemon *web.Client) error {
	defer daemon.Close()
	f := s.flags
	request := web.RunRequest{
		Cluster: f.cluster, Nodes: f.nodes, Selector: f.selector, Exclude: f.exclude,
		Reinstall: f.reinstall, Until: f.until, MaxFailures: f.maxFailures,
	}
	say(s.errOut, "the daemon looks at the BMCs ...\n")
	answer, err := daemon.Plan(ctx, request)
	if err != nil {
		return webStatus(err)
	}
	if f.dryRun {
		if err := s.printPlan(answer.Plan, s.asJSON); err != nil {
			return err
		}
		return planStatus(answer.Plan)
	}
	info, plan, err := s.startConfirmed(ctx, daemon, request, answer)
	if err != nil {
		return err
	}
	v := view{title: "run " + info.ID + " of " + info.Cluster + ", in the daemon", began: info.Started, nodes: plannedRows(plan, nil), lookup: lookupBy(daemon)}
	var ended web.RunInfo
	err = s.showing(ctx, v, func(ctx context.Context) (err error) {
		ended, err = s.watchRun(ctx, daemon, info)
		return err
	})
	if err != nil {
		return err
	}
	return s.concludeRemote(ended)
}

// startConfirmed starts the plan that a person has seen. When it is another one by
// then, the person sees that one, and is asked again.
func (s *session) startConfirmed(ctx context.Context, daemon *web.Client, request web.RunRequest, answer web.PlanAnswer) (web.RunInfo, provisioner.Plan, error) {
	for {
		if !s.asJSON {
			if err := s.planTable(answer.Plan); err != nil {
				return web.RunInfo{}, answer.Plan, err
			}
		}
		if err := s.confirm(ctx, answer.Plan); err != nil {
			return web.RunInfo{}, answer.Plan, err
		}
		request.Digest = answer.Digest
		info, err := daemon.Start(ctx, request)
		var failed *web.Error
		if errors.As(err, &failed) && errors.Is(err, web.ErrPlanChanged) && failed.Plan != nil && !s.flags.yes {
			say(s.errOut, "\nThe plan has changed meanwhile. It is now:\n\n")
			answer = *failed.Plan
			continue
		}
		return info, answer.Plan, webStatus(err)
	}
}

// watchRun shows the events of a run until it ends. Ctrl-C ends the watching, not the run.
func (s *session) watchRun(ctx context.Context, daemon *web.Client, info web.RunInfo) (ended web.RunInfo, err error) {
	w := remoteWork{name: "run " + info.ID, id: info.ID, cluster: info.Cluster, after: info.After}
	err = s.watchWork(ctx, daemon, w, func(ctx context.Context) (err error) {
		ended, err = daemon.Wait(ctx, info.ID)
		return err
	})
	return ended, err
}

// remoteWork is work of a daemon that somebody watches.
type remoteWork struct {
	name        string // for a person
	id, cluster string
	after       uint64 // the newest event from before it
}

// watchWork shows the events of work in a daemon until wait, which waits for its end,
// returns. When ctx ends the work goes on, and how to see it again is told.
func (s *session) watchWork(ctx context.Context, daemon *web.Client, w remoteWork, wait func(context.Context) error) error {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	last := w.after
	show := func(e web.Event) error { //nolint:unparam // StreamEvents takes it so
		last = e.Seq
		s.tell(e.Event)
		return nil
	}
	var group errgroup.Group
	group.Go(func() error {
		return daemon.StreamEvents(watching, web.StreamOptions{After: w.after, Follow: true, Run: w.id}, show)
	})
	err := wait(ctx)
	stop()
	errStream := group.Wait()
	switch {
	case ctx.Err() != nil:
		return &statusError{exitInterrupted, fmt.Sprintf("no longer watched: %s goes on in the daemon. See it by `provision watch --cluster %s` or `provision events --follow --cluster %s`, end it by `provision stop --cluster %s`", w.name, w.cluster, w.cluster, w.cluster)}
	case err != nil:
		return webStatus(err)
	case errStream != nil && !errors.Is(errStream, context.Canceled):
		s.log.Warn("events were not seen as they came", "error", errStream)
	}
	// What was written between the last look of the stream and the end.
	return webStatus(daemon.StreamEvents(ctx, web.StreamOptions{After: last, Run: w.id}, show))
}

func (s *session) concludeRemote(ended web.RunInfo) error {
	summary := provisioner.Summary{Run: ended.ID}
	if r := ended.Summary; r != nil {
		summary.Done, summary.Failed, summary.Held, summary.Unfinished, summary.Skipped = r.Done, r.Failed, r.Held, r.Unfinished, r.Skipped
	}
	var err error
	switch {
	case ended.Stopped:
		err = context.Canceled
	case ended.Error != "":
		err = errors.New(ended.Error)
	}
	return s.conclude(summary, err)
}
