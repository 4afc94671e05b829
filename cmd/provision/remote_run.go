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
	info, err := s.startConfirmed(ctx, daemon, request, answer)
	if err != nil {
		return err
	}
	return s.watchRun(ctx, daemon, info)
}

// startConfirmed starts the plan that a person has seen. When it is another one by
// then, the person sees that one, and is asked again.
func (s *session) startConfirmed(ctx context.Context, daemon *web.Client, request web.RunRequest, answer web.PlanAnswer) (web.RunInfo, error) {
	for {
		if !s.asJSON {
			if err := s.planTable(answer.Plan); err != nil {
				return web.RunInfo{}, err
			}
		}
		if err := s.confirm(ctx, answer.Plan); err != nil {
			return web.RunInfo{}, err
		}
		request.Digest = answer.Digest
		info, err := daemon.Start(ctx, request)
		var failed *web.Error
		if errors.As(err, &failed) && errors.Is(err, web.ErrPlanChanged) && failed.Plan != nil && !s.flags.yes {
			say(s.errOut, "\nThe plan has changed meanwhile. It is now:\n\n")
			answer = *failed.Plan
			continue
		}
		return info, webStatus(err)
	}
}

// watchRun shows the events of a run until it ends, and tells how it ended. Ctrl-C
// ends the watching, not the run.
func (s *session) watchRun(ctx context.Context, daemon *web.Client, info web.RunInfo) error {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	last := info.After
	show := func(e web.Event) error { //nolint:unparam // StreamEvents takes it so
		last = e.Seq
		s.tell(e.Event)
		return nil
	}
	var group errgroup.Group
	group.Go(func() error {
		return daemon.StreamEvents(watching, web.StreamOptions{After: info.After, Follow: true, Run: info.ID}, show)
	})
	ended, err := daemon.Wait(ctx, info.ID)
	stop()
	errStream := group.Wait()
	switch {
	case ctx.Err() != nil:
		return &statusError{exitInterrupted, fmt.Sprintf("no longer watched: run %s goes on in the daemon. See it by `provision events --follow --cluster %s`, end it by `provision stop --cluster %s`", info.ID, info.Cluster, info.Cluster)}
	case err != nil:
		return webStatus(err)
	case errStream != nil && !errors.Is(errStream, context.Canceled):
		s.log.Warn("events were not seen as they came", "error", errStream)
	}
	// What was written between the last look of the stream and the end.
	if err := daemon.StreamEvents(ctx, web.StreamOptions{After: last, Run: info.ID}, show); err != nil {
		return webStatus(err)
	}
	return s.concludeRemote(ended)
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
