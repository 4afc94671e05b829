package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/talos-provision/provision/provisioner"
	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/web"
	"github.com/talos-provision/provision/pxe"
)

// provision plans a run and, unless --dry-run is given, carries it out.
func (a *app) provision(ctx context.Context) error {
	s, err := a.open()
	if err != nil {
		return err
	}
	if a.flags.cluster == "" {
		return usageError("name the cluster: --cluster NAME")
	}
	daemon, err := s.config.daemon(ctx)
	if err != nil {
		return err
	}
	if daemon != nil {
		return s.provisionThrough(ctx, daemon)
	}
	if err := s.choose(); err != nil {
		return err
	}
	if a.flags.dryRun {
		return s.dryRun(ctx)
	}
	return s.install(ctx)
}

func (s *session) dryRun(ctx context.Context) error {
	state, err := s.config.readState(ctx)
	switch {
	case errors.Is(err, store.ErrNoState):
		state = nil
	case errors.Is(err, store.ErrInUse):
		return &statusError{exitFailed, err.Error()}
	case err != nil:
		return err
	}
	if state != nil {
		defer func() { _ = state.Close() }()
	}
	controller, err := s.controller(state)
	if err != nil {
		return err
	}
	plan, err := s.plan(ctx, controller)
	if err != nil {
		return err
	}
	if err := s.printPlan(plan, s.asJSON); err != nil {
		return err
	}
	return planStatus(plan)
}

// install carries a run out. Everything that can fail without touching a
// machine is tried before the first machine is touched.
func (s *session) install(ctx context.Context) (err error) {
	state, err := s.config.openState(ctx, s.log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, state.Close()) }()
	s.obey(state)
	// On one network segment one controller answers DHCP: a daemon that leads the site is not disturbed.
	leaves, err := s.leadSite(ctx, state)
	if err != nil {
		return err
	}
	defer leaves()
	controller, err := s.controller(state)
	if err != nil {
		return err
	}
	defer s.answerStatus(ctx, state)()
	cache, err := s.assetCache(s.selected)
	if err != nil {
		return err
	}
	if _, err := s.shareLeases(state); err != nil {
		return err
	}
	services, err := s.bootServices(controller, cache, s.tree.Nodes)
	if err != nil {
		return err
	}
	if err := services.Listen(ctx); err != nil {
		return &statusError{exitFailed, err.Error()}
	}
	defer services.Close()

	plan, err := s.plan(ctx, controller)
	if err != nil {
		return err
	}
	if !s.asJSON {
		if err := s.planTable(plan); err != nil {
			return err
		}
	}
	if err := s.confirm(ctx, plan); err != nil {
		return err
	}
	if err := s.pullImages(ctx, cache, images(plan)); err != nil {
		return err
	}
	var summary provisioner.Summary
	err = s.showing(ctx, s.ownView(state, plan), func(ctx context.Context) error {
		return serveWhile(ctx, services, func(ctx context.Context) (err error) {
			summary, err = controller.Run(ctx, plan)
			return err
		})
	})
	return s.conclude(summary, err)
}

// ownView is what is to be seen of a run of this process.
func (s *session) ownView(state *store.Store, plan provisioner.Plan) view {
	var records []store.Node
	if plan.Resumes != "" {
		var err error
		if records, err = state.Status(plan.Cluster); err != nil {
			s.log.Warn("nodes are shown from their next step on", "error", err)
		}
	}
	return view{title: "run " + plan.RunID() + " of " + plan.Cluster, began: time.Now(), nodes: plannedRows(plan, records), own: true}
}

// leadPatience is how long a run waits to lead its site: a controller that died just
// now is replaced within this time.
const leadPatience = 15 * time.Second

// leadSite makes this process the controller of its site, where several share a state.
func (s *session) leadSite(ctx context.Context, state *store.Store) (leaves func(), err error) {
	bounded, cancel := context.WithTimeout(ctx, leadPatience)
	defer cancel()
	leadership, err := state.Lead(bounded, s.config.Site)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		who, _, _ := state.Leader(s.config.Site)
		return nil, &statusError{exitRefused, fmt.Sprintf("%s leads the site %q, and one controller serves a network segment: ask it by --server URL, or run this on its host", orElse(who, "another controller"), s.config.Site)}
	}
	return func() {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), liveTimeout)
		defer cancel()
		if err := leadership.Resign(bounded); err != nil {
			s.log.Warn("the site could not be handed on, and is free when this process has ended", "error", err)
		}
	}, nil
}

// answerStatus lets `provision status` see this run while it lasts. A run goes
// on without it: a folder's name can be too long for a socket.
func (s *session) answerStatus(ctx context.Context, state *store.Store) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := s.serveViewer(ctx, state)
		if err != nil {
			s.log.Warn("`provision status` cannot see this run", "error", err)
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

func (s *session) serveViewer(ctx context.Context, state *store.Store) error {
	server, err := web.New(viewer{state: state, cluster: s.flags.cluster, started: time.Now()}, web.Options{Socket: s.config.liveSocket(), Log: s.log})
	if err != nil {
		return err
	}
	if err := server.Listen(ctx); err != nil {
		return err
	}
	return server.Run(ctx)
}

// liveTimeout bounds the clean-up of what others could see.
const liveTimeout = 10 * time.Second

// serveWhile runs the boot services for as long as work takes. When one of them
// dies the work stops: nothing would answer the machines it starts.
func serveWhile(ctx context.Context, services *pxe.Services, work func(context.Context) error) error {
	defer pxe.RelaxCollector()()
	group, running := errgroup.WithContext(ctx)
	serving, stopServing := context.WithCancel(running)
	defer stopServing()
	group.Go(func() error { return services.Run(serving) })
	group.Go(func() error {
		defer stopServing()
		return work(running)
	})
	if err := group.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}
