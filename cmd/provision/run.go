package main

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/talos-provision/provision/provisioner"
	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/pxe"
)

// provision plans a run and, unless --dry-run is given, carries it out.
func (a *app) provision(ctx context.Context) error {
	s, err := a.begin()
	if err != nil {
		return err
	}
	if a.flags.dryRun {
		return s.dryRun(ctx)
	}
	return s.install(ctx)
}

func (s *session) dryRun(ctx context.Context) error {
	state, err := store.OpenReadOnly(s.config.stateFile())
	if errors.Is(err, store.ErrNoState) {
		state, err = nil, nil
	}
	if err != nil {
		return &statusError{exitFailed, err.Error()}
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
	state, err := store.Open(s.config.stateFile())
	if err != nil {
		return &statusError{exitFailed, err.Error()}
	}
	defer func() { err = errors.Join(err, state.Close()) }()
	controller, err := s.controller(state)
	if err != nil {
		return err
	}
	defer s.answerStatus(ctx, state)()
	cache, err := s.assetCache()
	if err != nil {
		return err
	}
	services, err := s.bootServices(controller, cache)
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
	err = serveWhile(ctx, services, func(ctx context.Context) (err error) {
		summary, err = controller.Run(ctx, plan)
		return err
	})
	return s.conclude(summary, err)
}

// answerStatus lets `provision status` see this run while it lasts. A run goes
// on without it: a folder's name can be too long for a socket.
func (s *session) answerStatus(ctx context.Context, state *store.Store) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := serveLive(ctx, s.config.liveSocket(), state); err != nil {
			s.log.Warn("`provision status` cannot see this run", "error", err)
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

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
