package main

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"github.com/talos-provision/provision/provisioner/store"
)

// storeOptions are how the state is reached.
func (c *config) storeOptions(log *slog.Logger) store.Options {
	return store.Options{
		CAFile: c.Etcd.CAFile, CertFile: c.Etcd.CertFile, KeyFile: c.Etcd.KeyFile,
		Username: os.Getenv(store.EnvUsername), Password: os.Getenv(store.EnvPassword), Log: log,
	}
}

// openState opens the state to work with it.
func (c *config) openState(ctx context.Context, log *slog.Logger) (*store.Store, error) {
	s, err := store.Connect(ctx, c.stateLocation(), c.storeOptions(log))
	return s, stateStatus(err)
}

// obey has this process change a machine, and serve one, only as long as the state
// lets it: another controller may have taken its place.
func (s *session) obey(state *store.Store) {
	s.mayWork = state.MayWork
	if s.config.sharesState() {
		s.mayServe = state.MayServe
	}
}

// readState opens the state to look at it; store.ErrNoState says that there is none yet.
func (c *config) readState(ctx context.Context) (*store.Store, error) {
	options := c.storeOptions(nil)
	options.ReadOnly = true
	s, err := store.Connect(ctx, c.stateLocation(), options)
	if errors.Is(err, store.ErrNoState) || errors.Is(err, store.ErrInUse) {
		return nil, err
	}
	return s, stateStatus(err)
}

func stateStatus(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, store.ErrInUse):
		return &statusError{exitFailed, inUse(err)}
	}
	return &statusError{exitFailed, err.Error()}
}

// inUse says what to do about a state that another process has.
func inUse(err error) string {
	return err.Error() + "; if it is `provision serve`, stop the daemon for as long as this takes"
}
