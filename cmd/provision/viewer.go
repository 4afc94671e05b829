package main

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/web"
)

// viewer is what a single run lets others see of it over its socket, while it
// holds the state: they may look, and hold nodes, and nothing else.
type viewer struct {
	state   *store.Store
	cluster string
	started time.Time
}

var _ web.Controller = viewer{}

func (v viewer) busy() error {
	return web.BusyWith(web.Busy{Run: "begun by a command on this host", Cluster: v.cluster})
}

// Plan implements web.Controller: what a second run would do is not known while this one works.
func (v viewer) Plan(context.Context, web.RunRequest) (web.PlanAnswer, error) {
	return web.PlanAnswer{}, v.busy()
}

// Start implements web.Controller.
func (v viewer) Start(context.Context, web.RunRequest) (web.RunInfo, error) {
	return web.RunInfo{}, v.busy()
}

// Runs implements web.Controller.
func (v viewer) Runs(context.Context) ([]web.RunInfo, error) {
	return []web.RunInfo{{ID: "running", Cluster: v.cluster, Started: v.started}}, nil
}

// Stop implements web.Controller.
func (v viewer) Stop(context.Context, string) error {
	return web.Unavailable(errors.New("this run was begun by a command, which ends it by Ctrl-C"), "")
}

// Nodes implements web.Controller.
func (v viewer) Nodes(_ context.Context, cluster string) ([]store.Node, error) {
	return v.state.Status(cluster)
}

// Unknown implements web.Controller.
func (v viewer) Unknown(context.Context) ([]store.Unknown, error) { return v.state.UnknownMachines() }

// eventPoll is how often the state is looked at for a reader who follows.
const eventPoll = 500 * time.Millisecond

// Events implements web.Controller.
func (v viewer) Events(ctx context.Context, after uint64, follow bool, visit func(uint64, store.Event) error) error {
	for {
		var failed error
		err := v.state.EventsAfter(after, func(seq uint64, e store.Event) bool {
			if failed = ctx.Err(); failed == nil {
				failed = visit(seq, e)
			}
			after = seq
			return failed == nil
		})
		if err = errors.Join(failed, err); err != nil || !follow {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(eventPoll):
		}
	}
}

// Holds implements web.Controller.
func (v viewer) Holds(context.Context) ([]store.Hold, error) { return v.state.Holds() }

// Hold implements web.Controller.
func (v viewer) Hold(_ context.Context, h store.Hold) error { return v.state.SetHold(h) }

// Release implements web.Controller.
func (v viewer) Release(_ context.Context, cluster, node string) error {
	found, err := v.state.RemoveHold(cluster, node)
	if err == nil && !found {
		return web.NotFound("nobody holds %s/%s", cluster, node)
	}
	return err
}

// Inventory implements web.Controller.
func (v viewer) Inventory(context.Context) (web.InventoryInfo, error) {
	return web.InventoryInfo{}, web.NotFound("a single run follows no inventory")
}

// Reload implements web.Controller.
func (v viewer) Reload(context.Context) error {
	return web.Unavailable(errors.New("a single run reloads nothing"), "")
}

// Backup implements web.Controller.
func (v viewer) Backup(_ context.Context, w io.Writer) error { return v.state.Backup(w) }

// Health implements web.Controller.
func (v viewer) Health(context.Context) []web.Check {
	return []web.Check{{Name: "run", OK: true, What: "a run of " + v.cluster + " goes on"}}
}
