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
	return &web.Error{
		Code: web.CodeBusy, Message: "the state is in use by another provision on this host: a command works on " + v.cluster,
		Hint: "wait for it to end, or end it by Ctrl-C", Busy: []web.Busy{{Run: "begun by a command", Cluster: v.cluster}},
	}
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

// Fleet implements web.Controller.
func (v viewer) Fleet(context.Context, string) ([]web.InventoryNode, error) {
	return nil, web.NotFound("a single run follows no inventory")
}

// Detail implements web.Controller.
func (v viewer) Detail(_ context.Context, cluster, node string) (web.NodeDetail, error) {
	return web.DetailOf(v.state, cluster, node)
}

// Collisions implements web.Controller.
func (v viewer) Collisions(context.Context) ([]web.Collision, error) {
	return nil, web.NotFound("a single run follows no inventory")
}

// Upgrades implements web.Controller.
func (v viewer) Upgrades(context.Context) ([]web.UpgradeInfo, error) { return web.UpgradesOf(v.state) }

// PlanUpgrade implements web.Controller.
func (v viewer) PlanUpgrade(context.Context, web.UpgradeRequest) (web.UpgradePlanAnswer, error) {
	return web.UpgradePlanAnswer{}, v.busy()
}

// StartUpgrade implements web.Controller.
func (v viewer) StartUpgrade(context.Context, web.UpgradeRequest) (web.UpgradeInfo, error) {
	return web.UpgradeInfo{}, v.busy()
}

// StopUpgrade implements web.Controller.
func (v viewer) StopUpgrade(ctx context.Context, cluster string) error { return v.Stop(ctx, cluster) }

// AbandonUpgrade implements web.Controller.
func (v viewer) AbandonUpgrade(context.Context, string) (web.UpgradeInfo, error) {
	return web.UpgradeInfo{}, v.busy()
}

// Unknown implements web.Controller.
func (v viewer) Unknown(context.Context) ([]store.Unknown, error) { return v.state.UnknownMachines() }

// eventPoll is how often the state is looked at for a reader who follows.
const eventPoll = 500 * time.Millisecond

// Events implements web.Controller.
func (v viewer) Events(ctx context.Context, after uint64, follow bool, visit func(uint64, store.Event) error) error {
	if !follow {
		return v.state.Replay(ctx, after, visit)
	}
	return v.state.Follow(ctx, after, store.News{Poll: eventPoll}, visit)
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
